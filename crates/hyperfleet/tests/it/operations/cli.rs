//! The command line: what it prints where, how it ends, what it says when it is called wrongly, and `hyperfleet up`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use hyperfleet_testkit::{Client, eventually};
use serde_json::{Value, json};

use super::program::{Program, Running, output};
use super::{BINARY, CLUSTERS, DEADLINE, create_cluster};

/// Lets the system choose every port that is not the subject.
const FREE_PORTS: [&str; 4] = ["--health-port", "0", "--metrics-port", "0"];

#[tokio::test]
async fn help_teaches_the_first_steps() {
    let help = Program::new().run(&["-h"]).await;
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!(help.stdout, @"
    Keeps the desired state of fleets, and says whether the world matches it

    Usage: hyperfleet [OPTIONS] <COMMAND>

    Commands:
      up            Run everything in one process on an embedded database
      serve         Run the API as configured
      sentinel      Decide when resources need work, and tell their adapters
      adapter       Do the work of a task file for resources, or pretend to
      migrate       Bring the database's schema up to date, and exit
      verify        Check the database for damage, and exit
      config        Print the effective configuration, secrets masked
      get           Show resources: one, many, or all of a kind
      describe      Show everything about a resource: conditions, reports, blockers, timeline
      tree          Show a resource with everything below it and its adapters
      why           Explain what blocks a resource, and what to do
      timeline      Show what happened to a resource, newest first
      top           Watch the fleet: what is not reconciled, for how long and why
      statuses      Show what the adapters reported on a resource
      wait          Wait until a condition holds, or until a resource is gone
      create        Create a resource
      apply         Create or change resources as documents describe
      diff          Show what `apply` would change
      patch         Change a resource by a merge patch or a JSON Patch
      edit          Change a resource in your editor
      label         Set and remove labels of resources
      delete        Delete resources with everything below them, after confirmation
      force-delete  Remove a finalizing resource without waiting for adapters
      report        Report on a resource as an adapter would
      api           Send any request to the API
      events        Look at events, publish one, and deal with those that were given up
      login         Save a server and its credentials as a context, and use it
      context       List and choose contexts
      whoami        Show the identity that the server sees
      doctor        Check that this machine, the settings and the server go together
      dev           Tools for development
      version       Print what this binary was built from
      completion    Print a completion script for your shell, with live names of resources
      man           Print a page of the manual, or write all pages to a directory
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    First steps:
      hyperfleet up --demo              everything in one process, with a fleet that changes
      hyperfleet up                     the same without a fleet, data in ./hyperfleet.db
      hyperfleet create cluster my-first --label environment=dev
      hyperfleet get clusters           then: describe, tree, why, apply -f, delete
      open http://localhost:8000/api/hyperfleet/v1/openapi.html

    In production:
      hyperfleet migrate --database-url postgres://…    bring the schema up to date
      hyperfleet serve --config /etc/hyperfleet/config.yaml
      hyperfleet sentinel serve --config /etc/hyperfleet/sentinel.yaml
      hyperfleet config                 what is configured, and where each value came from
    ");
}

#[tokio::test]
async fn every_command_explains_itself_and_serve_knows_every_key_as_a_flag() {
    let program = Program::new();
    for command in ["up", "serve", "migrate", "config", "version", "completion", "get", "apply", "context"] {
        let help = program.run(&[command, "--help"]).await;
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command}");
        assert!(help.stdout.contains(&format!("Usage: hyperfleet {command}")), "{}", help.stdout);
    }
    let long = program.run(&["serve", "--help"]).await.stdout;
    for flag in ["--server-port <NUMBER>", "--database-pool-request-timeout <DURATION>", "--entities <YAML>"]
    {
        assert!(long.contains(flag), "{flag} is missing in {long}");
    }
    let short = program.run(&["serve", "-h"]).await.stdout;
    assert!(short.contains("--config <FILE>") && !short.contains("--database-pool"), "{short}");
}

#[tokio::test]
async fn a_usage_error_is_printed_on_stderr_with_exit_code_2() {
    let program = Program::new();
    for (arguments, told) in [
        (&[][..], "Usage: hyperfleet [OPTIONS] <COMMAND>"),
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["serve", "--server-prot", "1"], "a similar argument exists: '--server-port'"),
        (&["up", "--memory", "--data", "x"], "cannot be used with"),
        (&["completion", "tcsh"], "[possible values: bash, fish, powershell, zsh]"),
    ] {
        let ended = program.run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains(told), "{arguments:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn version_prints_the_build_as_text_and_json() {
    let program = Program::new();
    let json = program.run(&["version", "-o", "json"]).await;
    assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let member = |name: &str| json[name].as_str().unwrap();
    assert_eq!(json.as_object().unwrap().len(), 3);
    assert_eq!(member("version"), env!("CARGO_PKG_VERSION"));

    let text = program.run(&["version"]).await.stdout;
    let (version, sha, built) = (member("version"), member("git_sha"), member("build_timestamp"));
    assert_eq!(text, format!("hyperfleet {version} (commit {sha}, built {built})\n"));
    assert_eq!(program.run(&["--version"]).await.stdout, format!("hyperfleet {version}\n"));
}

#[tokio::test]
async fn completion_scripts_come_for_every_shell() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = program.run(&["completion", shell]).await;
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(script.stdout.contains("hyperfleet") && script.stdout.contains("__complete"), "{shell}");
    }
    let script = program.run(&["completion", "bash"]).await.stdout;
    let program = program.file("completion.bash", &script);
    let checked = output(program.command("bash", &["-n", "completion.bash"])).await;
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
}

/// Starts `hyperfleet up` and waits until it has said everything.
pub(super) async fn up(program: &Program, arguments: &[&str]) -> (Running, String) {
    let arguments = [&["up"], arguments, &FREE_PORTS].concat();
    let running = program.start(&arguments);
    let said = eventually("the welcome", DEADLINE, async || {
        let lines = running.stderr();
        lines.last().is_some_and(|line| line == "Ctrl-C stops it.").then(|| lines.join("\n"))
    })
    .await;
    (running, said)
}

/// The client of the API that a welcome tells of.
pub(super) fn client(said: &str) -> Client {
    let api = said.lines().find_map(|line| line.trim().strip_prefix("API       ")).unwrap();
    Client::new(api.trim_end_matches("/api/hyperfleet/v1/clusters"))
}

#[tokio::test]
async fn up_prints_its_addresses_and_ends_with_ctrl_c() {
    let (mut running, said) = up(&Program::new(), &["--memory", "--port", "0", "--host", "127.0.0.1"]).await;
    let api = client(&said);
    create_cluster(&api, "first").await;
    let base = format!("http://{}", api.authority());
    let docs = api.get("/api/hyperfleet/v1/openapi.html").await.expect_status(200);
    assert!(docs.header("content-type").unwrap().starts_with("text/html"));

    let told = said.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let told: String = told.lines().map(|line| mask_port(line) + "\n").collect();
    insta::assert_snapshot!(told, @r#"
    HyperFleet VERSION is up

      API       http://127.0.0.1:PORT/api/hyperfleet/v1/clusters
      API docs  http://127.0.0.1:PORT/api/hyperfleet/v1/openapi.html
      Health    http://localhost:PORT/readyz
      Metrics   http://localhost:PORT/metrics
      Data      SQLite in memory, gone when this ends
      Login     none: reachable from this machine only

    Try it in another terminal:
      export HYPERFLEET_SERVER=http://127.0.0.1:PORT
      hyperfleet create cluster first-try    a first cluster
      hyperfleet why cluster first-try       what blocks it
      hyperfleet get clusters -w             follow each change

    Ctrl-C stops it.
    "#);
    let health = said.lines().find_map(|line| line.trim().strip_prefix("Health    http://")).unwrap();
    Client::new(health.trim_end_matches("/readyz")).get("/readyz").await.expect_status(200);
    assert!(said.contains(&format!("export HYPERFLEET_SERVER={base}\n")), "{said}");

    running.signal("INT").await;
    assert_eq!(running.ended().await, Some(0));
    assert_eq!(running.stdout(), [""; 0], "messages go to stderr");
}

#[tokio::test]
async fn up_has_a_sentinel_that_publishes_every_change_and_is_counted_with_everything_else() {
    let (_running, said) = up(&Program::new(), &["--memory", "--port", "0", "--host", "127.0.0.1"]).await;
    create_cluster(&client(&said), "first").await;
    let metrics = said.lines().find_map(|line| line.trim().strip_prefix("Metrics   http://")).unwrap();
    let metrics = Client::new(metrics.trim_end_matches("/metrics"));
    eventually("an event that is counted", DEADLINE, async || {
        let text = String::from_utf8(metrics.get("/metrics").await.body.to_vec()).unwrap();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.rsplit_once(' ')?.1.parse::<f64>().ok()
        };
        let published = value("hyperfleet_sentinel_events_published_total");
        let taken = value("hyperfleet_broker_published_total");
        let requests = value("hyperfleet_api_requests_total");
        (published? >= 1.0 && taken? >= 1.0 && requests? >= 1.0).then_some(())
    })
    .await;
}

/// Digits behind a colon become `PORT`.
pub(super) fn mask_port(line: &str) -> String {
    let mut parts = line.split(':');
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        masked += if rest.len() < part.len() { ":PORT" } else { ":" };
        masked += rest;
    }
    masked
}

#[tokio::test]
async fn up_stores_data_in_the_given_directory() {
    const DATA: &str = "deep/my data %41?#x";
    let program = Program::new();
    for names in [&["first"][..], &["first", "second"]] {
        let (mut running, said) = up(&program, &["--data", DATA, "--port", "0"]).await;
        assert!(said.contains(&format!("Data      SQLite, {DATA}/hyperfleet.db")), "{said}");
        let api = client(&said);
        create_cluster(&api, names.last().unwrap()).await;
        let list = api.get(&format!("{CLUSTERS}?fields=name&order=name")).await.json();
        let found: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect();
        assert_eq!(found, names.iter().map(|name| json!(name)).collect::<Vec<_>>());
        running.signal("TERM").await;
        assert_eq!(running.ended().await, Some(0));
    }
    for (path, mode) in [("deep", 0o700), (DATA, 0o700), (&format!("{DATA}/hyperfleet.db"), 0o600)] {
        let metadata = std::fs::metadata(program.directory().join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
    }
}

#[tokio::test]
async fn up_refuses_a_development_key_that_others_can_write() {
    let program = Program::new();
    let made = program.run(&["dev", "token"]).await;
    assert_eq!(made.code, Some(0));
    let key = program.directory().join(".hyperfleet/dev-issuer.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o622)).unwrap();
    for command in [&["up", "--auth", "--memory", "--port", "0"][..], &["dev", "token"]] {
        let ended = program.run(command).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{command:?}");
        for told in ["is not safe", "(mode 622)", "chmod 600"] {
            assert!(ended.stderr.contains(told), "{}", ended.stderr);
        }
    }
}

#[tokio::test]
async fn up_refuses_every_address_that_is_not_loopback() {
    let program = Program::new();
    for arguments in [["--host", "0.0.0.0"], ["--metrics-host", "::"], ["--health-host", "192.0.2.1"]] {
        let ended = program.run(&[&["up"][..], &arguments].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(ended.stderr.contains("listens on loopback only"), "{}", ended.stderr);
        assert!(ended.stderr.contains(arguments[1]), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_second_up_names_the_port_that_is_taken() {
    let program = Program::new();
    let (_running, said) = up(&program, &["--memory", "--port", "0", "--host", "127.0.0.1"]).await;
    let authority = client(&said).authority().to_owned();
    let port = authority.rsplit(':').next().unwrap();
    let second = [&["up", "--memory", "--host", "127.0.0.1", "--port", port][..], &FREE_PORTS].concat();
    let ended = program.run(&second).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        ended.stderr,
        format!(
            "error: cannot listen on {authority} for api: the address is in use by another process. \
             Stop it, or choose another port with --server-port, --health-port or --metrics-port\n"
        )
    );
}

#[tokio::test]
async fn commands_survive_a_closed_pipe() {
    let program = Program::new();
    for call in ["completion bash", "config", "version", "--help", "serve --help"] {
        let script = format!("\"$1\" {call} | true; exit \"${{PIPESTATUS[0]}}\"");
        let ended = output(program.command("bash", &["-c", &script, "bash", BINARY])).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{call}");
    }
}

#[tokio::test]
async fn serve_continues_when_its_log_is_not_read() {
    let program = Program::new();
    let mut command = program.command(
        BINARY,
        &[
            "serve",
            "--server-jwt-enabled=false",
            "--database-url=sqlite::memory:",
            "--server-port=0",
            "--health-port=0",
            "--metrics-port=0",
        ],
    );
    let mut child = command.spawn().unwrap();
    let mut log = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(child.stdout.take().unwrap()));
    let api = loop {
        let line: Value = serde_json::from_str(&log.next_line().await.unwrap().unwrap()).unwrap();
        if line["listener"] == "api" {
            break Client::new(line["address"].as_str().unwrap());
        }
    };
    drop(log);
    for name in ["one", "two", "three"] {
        create_cluster(&api, name).await;
    }
}
