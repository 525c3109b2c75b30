//! Colours, pipes, `--verbose`, `--curl`, hostile text, and exit codes.

use super::{BINARY, Cli, steady};
use crate::operations::program::output;
use crate::support::{App, CATALOG, any_store};

async fn colours_are_absent_in_pipes(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create cluster dev-1").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter}")).await;
    }
    let plain = cli.ok("get clusters").await;
    assert!(!plain.contains('\x1b'));
    let cli = cli.env("CLICOLOR_FORCE", "1");
    let mut coloured = steady(&cli.ok("get clusters").await).replace('\x1b', "␛");
    // Ages are of any width.
    while coloured.contains("   ") {
        coloured = coloured.replace("   ", "  ");
    }
    insta::assert_snapshot!(coloured, @"
    ␛[1mNAME␛[0m  ␛[1mSTATUS␛[0m  ␛[1mGEN␛[0m  ␛[1mSINCE␛[0m  ␛[1mAGE␛[0m
    ␛[1mdev-1␛[0m  ␛[33mReconciling␛[0m  1  ␛[2m[age]␛[0m  [age]
    ␛[1mprod-1␛[0m  ␛[32mReconciled␛[0m  1  ␛[2m[age]␛[0m  [age]
    ");
    insta::assert_snapshot!(cli.transcript("get cluster absent").await.replace('\x1b', "␛"), @"
    --- stderr
    ␛[1;31merror:␛[0m there is no cluster/absent
    --- exit 3
    ");
    assert!(!cli.ok("get clusters --color never").await.contains('\x1b'));
    assert!(!cli.ok("get clusters -o json").await.contains('\x1b'), "data has no colours");
    let cli = cli.env("NO_COLOR", "1");
    assert!(!cli.ok("get clusters").await.contains('\x1b'));
    assert!(cli.ok("get clusters --color always").await.contains('\x1b'));
}

async fn a_closed_pipe_is_not_a_failure(app: &App) {
    let cli = Cli::of(app);
    for n in 0..3 {
        cli.ok(&format!("create network n-{n}")).await;
    }
    for line in ["get networks -o name", "get networks -w", "get networks -o yaml -w"] {
        let session = format!("set -o pipefail; {BINARY} {line} | head -n 1");
        let mut changing = cli.start("get networks");
        let piped = output(cli.program.command("bash", &["-c", &session]));
        let (ended, ()) = tokio::join!(piped, async {
            // A watch notices a closed pipe when it writes.
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
    insta::assert_snapshot!(told, @"
    * GET /openapi → 8 kinds
    * GET /clusters?search=name='prod-1'&size=20&showDeleted=true&total=none → 200 OK
    ");
}

async fn curl_prints_the_request_and_sends_nothing(app: &App) {
    let cli = Cli::of(app).env("HYPERFLEET_TOKEN", "hush");
    insta::assert_snapshot!(without_key(&steady(&cli.ok("create cluster prod-1 --set n=1 --curl").await)), @r#"curl -sS -X POST -H "Authorization: Bearer $HYPERFLEET_TOKEN" -H 'accept: application/json, application/problem+json' -H 'content-type: application/json' -H 'idempotency-key: [key]' --data-binary '{"kind":"Cluster","name":"prod-1","spec":{"n":1}}' 'http://[server]/api/hyperfleet/v1/clusters'"#);
    insta::assert_snapshot!(steady(&cli.ok("get clusters -l a=b --curl").await), @r#"curl -sS -H "Authorization: Bearer $HYPERFLEET_TOKEN" -H 'accept: application/json, application/problem+json' 'http://[server]/api/hyperfleet/v1/clusters?search=labels%5B%27a%27%5D%3D%27b%27&orderBy=name&size=500&total=none'"#);
    assert_eq!(cli.ok("get clusters -o name").await, "");
    // The printed command does the same.
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

async fn hostile_text_is_escaped_on_the_terminal(app: &App) {
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
    insta::assert_snapshot!(cli.transcript("statuses cluster prod-1").await, @r"
    ADAPTER        GEN  AVAILABLE  APPLIED  HEALTH  FINALIZED  REASON    REPORTED
    evil\u{1b}[2J  1    False      True     True    -          Wide世界  [age]
    ");
    let kept = cli.json("get cluster prod-1 -o json").await;
    assert_eq!(kept["spec"]["a"], "\x1b[31m\u{9b}\u{202e}", "and yet data is what it was");
}

#[tokio::test]
async fn an_unreachable_server_is_exit_code_6() {
    let cli = Cli::at("http://127.0.0.1:1");
    insta::assert_snapshot!(cli.transcript("get clusters").await, @"
    --- stderr
    error: GET http://[server]/api/hyperfleet/v1/openapi cannot be reached: client error (Connect): tcp connect error: Connection refused (os error 111)
      check that the server is running, and --server or the context; `hyperfleet up` starts a server
    --- exit 6
    ");
    assert_eq!(cli.run("get clusters --server ftp://x").await.code, Some(2));
    assert_eq!(cli.run("get clusters --server http://user:hush@x").await.code, Some(2));
}

#[tokio::test]
async fn help_needs_no_server_and_has_examples() {
    let cli = Cli::at("http://127.0.0.1:1");
    insta::assert_snapshot!(cli.ok("get -h").await, @r#"
    Show resources: one, many, or all of a kind

    Usage: hyperfleet get [OPTIONS] <WHAT>...

    Arguments:
      <WHAT>...  KIND, KIND NAME..., KIND/NAME... or `all`; an id stands for any name

    Options:
          --in <KIND/NAME>        Only resources below this one, such as clusters/prod-1
      -l, --selector <LABELS>     By labels: key=value, key!=value, key in (a,b), key, !key, with commas
                                  between
          --search <QUERY>        By search, such as "spec.region='us-east-1' and generation > 2"
          --order-by <FIELDS>     Order, such as 'created_time desc,name' [default: name]
          --limit <NUMBER>        At most this many
          --show-deleted          Include finalizing resources
      -w, --watch                 Then follow changes until Ctrl-C
      -L, --label-columns <KEYS>  A column for each of these labels, with commas between
          --no-headers            Tables without their first line
      -o, --output <FORMAT>       table, wide, json, yaml, name or jsonpath=TEMPLATE [default: table]
      -h, --help                  Print help (see more with '--help')

    Connection:
          --server <URL>                The server [default: $HYPERFLEET_SERVER, the current context,
                                        http://localhost:8000]
          --context <NAME>              A server by the name it was given at login
          --token-file <FILE>           File with the token [default: $HYPERFLEET_TOKEN, or as the
                                        context says]
          --ca-file <FILE>              Certificate authorities in PEM, instead of the system's
      -H, --header <NAME: VALUE>        A header of every request, such as one that names a tenant; may
                                        be given again
          --request-timeout <DURATION>  How long one request may take [default: 30s]
      -v, --verbose                     Tell each request, its status and its time on stderr
          --curl                        Print the request as a curl command instead of sending it; names
                                        are still looked up

    Try it:
      hyperfleet get clusters -l environment=production -o wide
      hyperfleet get nodepools --in clusters/prod-1 -w
      hyperfleet get cluster prod-1 -o jsonpath='{.status.conditions[?(@.type=="Reconciled")].status}'
    "#);
}

any_store!(
    config = CATALOG;
    colours_are_absent_in_pipes,
    a_closed_pipe_is_not_a_failure,
    verbose_tells_each_request_on_stderr,
    curl_prints_the_request_and_sends_nothing,
    hostile_text_is_escaped_on_the_terminal,
);
