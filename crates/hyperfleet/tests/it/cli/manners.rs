//! Colours, pipes, `--verbose`, `--curl`, hostile text, and exit codes.

use super::{BINARY, Cli, steady};
use crate::operations::program::output;
use crate::support::{App, CATALOG, both_stores};

async fn colours_mean_something_and_stay_away_from_pipes(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create cluster dev-1").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter}")).await;
    }
    let plain = cli.ok("get clusters").await;
    assert!(!plain.contains('\x1b'));
    let cli = cli.env("CLICOLOR_FORCE", "1");
    let coloured = cli.ok("get clusters").await;
    insta::assert_snapshot!(steady(&coloured).replace('\x1b', "␛"), @"");
    insta::assert_snapshot!(cli.told("get cluster nobody").await.replace('\x1b', "␛"), @"");
    assert!(!cli.ok("get clusters --color never").await.contains('\x1b'));
    assert!(!cli.ok("get clusters -o json").await.contains('\x1b'), "data has no colours");
    let cli = cli.env("NO_COLOR", "1");
    assert!(!cli.ok("get clusters").await.contains('\x1b'));
    assert!(cli.ok("get clusters --color always").await.contains('\x1b'));
}

async fn a_reader_who_leaves_is_no_failure(app: &App) {
    let cli = Cli::of(app);
    for n in 0..3 {
        cli.ok(&format!("create network n-{n}")).await;
    }
    for line in ["get networks -o name", "get networks -w", "get networks -o yaml -w"] {
        let session = format!("set -o pipefail; {BINARY} {line} | head -n 1");
        let mut changing = cli.start("get networks");
        let piped = output(cli.program.command("bash", &["-c", &session]));
        let (ended, ()) = tokio::join!(piped, async {
            // A watch notices that nobody reads when it has something to say.
            for n in 0..20 {
                cli.ok(&format!("create network {}-{n}", crate::support::unique("w"))).await;
            }
        });
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line}: {ended:?}");
        changing.ended().await;
    }
}

async fn verbose_tells_each_request_on_stderr(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let quiet = cli.ok("get cluster prod-1 -o name").await;
    let ended = cli.run("get cluster prod-1 -o name -v").await;
    assert_eq!(ended.stdout, quiet);
    let told: String =
        ended.stderr.lines().map(|line| format!("{}\n", line.rsplit_once(" in ").unwrap().0)).collect();
    insta::assert_snapshot!(told, @"");
}

async fn curl_prints_the_request_and_sends_nothing(app: &App) {
    let cli = Cli::of(app).env("HYPERFLEET_TOKEN", "hush");
    insta::assert_snapshot!(without_key(&steady(&cli.ok("create cluster prod-1 --set n=1 --curl").await)), @"");
    insta::assert_snapshot!(steady(&cli.ok("get clusters -l a=b --curl").await), @"");
    assert_eq!(cli.ok("get clusters -o name").await, "");
    // What it prints does the same, for whoever runs it.
    let command = cli.ok("create cluster prod-1 --set n=1 --curl").await;
    let ended = output(cli.program.command("sh", &["-c", &command])).await;
    assert!(ended.stdout.contains("\"name\":\"prod-1\""), "{ended:?}");
    let command = cli.ok("delete cluster prod-1 --curl").await;
    assert_eq!(cli.ok("get clusters -o name").await, "cluster/prod-1\n");
    output(cli.program.command("sh", &["-c", &command])).await;
    assert_eq!(cli.ok("get clusters -o name").await, "");
}

/// Every creation has a key of its own.
fn without_key(text: &str) -> String {
    let (before, after) = text.split_once("idempotency-key: ").unwrap();
    format!("{before}idempotency-key: [key]{}", after.trim_start_matches(|c| c != '\''))
}

async fn text_of_strangers_does_not_steer_the_terminal(app: &App) {
    let cli = Cli::of(app).file(
        "report.json",
        r#"{"adapter": "evil\u001b[2J", "observed_generation": 1, "data": {"x": "\u009b31m\u202e"}, "conditions": [
            {"type": "Available", "status": "False", "reason": "Wide世界", "message": "\u001b]0;title\u0007\r\nnext\u202eline"},
            {"type": "Applied", "status": "True"}, {"type": "Health", "status": "True"}]}"#,
    );
    cli.ok("create cluster prod-1 --spec '{\"a\": \"\\u001b[31m\\u009b\\u202e\"}'").await;
    let id = cli.ok("get cluster prod-1 -o jsonpath=.id").await;
    cli.ok(&format!("api PUT /clusters/{}/statuses -d @report.json", id.trim())).await;
    for line in [
        "describe cluster prod-1",
        "statuses cluster prod-1",
        "statuses cluster prod-1 -o json",
        "get cluster prod-1 -o yaml",
        "why cluster prod-1",
        "timeline cluster prod-1",
        "tree cluster prod-1",
    ] {
        let said = cli.ok(line).await;
        let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(acts), "{line}: {said:?}");
    }
    insta::assert_snapshot!(cli.told("statuses cluster prod-1").await, @"");
    let kept = cli.json("get cluster prod-1 -o json").await;
    assert_eq!(kept["spec"]["a"], "\x1b[31m\u{9b}\u{202e}", "and yet data is what it was");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_exit_code_6() {
    let cli = Cli::at("http://127.0.0.1:1");
    insta::assert_snapshot!(cli.told("get clusters").await, @"");
    assert_eq!(cli.run("get clusters --server ftp://x").await.code, Some(2));
    assert_eq!(cli.run("get clusters --server http://user:hush@x").await.code, Some(2));
}

#[tokio::test]
async fn help_comes_without_a_server_and_teaches_by_example() {
    let cli = Cli::at("http://127.0.0.1:1");
    insta::assert_snapshot!(cli.ok("get -h").await, @"");
}

both_stores!(
    config = CATALOG;
    colours_mean_something_and_stay_away_from_pipes,
    a_reader_who_leaves_is_no_failure,
    verbose_tells_each_request_on_stderr,
    curl_prints_the_request_and_sends_nothing,
    text_of_strangers_does_not_steer_the_terminal,
);
