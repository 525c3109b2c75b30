//! `hyperfleet top`: in a real terminal, by tmux, and where there is none.

use serde_json::Value;

use crate::operations::program::Program;
use crate::support::{App, Terminal, both_stores, report_now, with_reason};

const BINARY: &str = env!("CARGO_BIN_EXE_hyperfleet");
const CONFIG: &str = "entities: [{kind: Cluster, plural: clusters, required_adapters: [dns]}]";

async fn report_as_dns(app: &App, cluster: &Value, available: &str) {
    let report = with_reason(report_now("dns", 1, available), "ZoneNotDelegated", "no name server answers");
    app.report(cluster, &report).await.expect_status(201);
}

/// Two clusters; an adapter fails on the first.
async fn fleet(app: &App) -> Value {
    let (first, _second) = (app.create_cluster("prod-1").await, app.create_cluster("prod-2").await);
    report_as_dns(app, &first, "False").await;
    first
}

/// A view in a terminal of 80 columns.
fn top(app: &App, program: &Program) -> Terminal {
    let terminal = Terminal::open(program, 80, 24);
    terminal.type_line(&format!("{BINARY} top --server http://{}", app.api().authority()));
    terminal
}

async fn the_screen_follows_the_fleet_and_the_keys(app: &App) {
    let (first, program) = (fleet(app).await, Program::new());
    let terminal = top(app, &program);
    let all = [
        "2 resources",
        "● Reconciling 1",
        "● Degraded 1",
        "● Stuck 0",
        "dns 1",
        "prod-1",
        "prod-2",
        "ZoneNotDelegated",
    ];
    terminal.shows_all(&all, &["PAUSED"]).await;

    terminal.keys(&["/", "prod-2", "Enter"]);
    terminal.shows_all(&["prod-2", "filter prod-2", "1/1"], &["prod-1"]).await;
    terminal.keys(&["/", "Escape"]);
    terminal.shows_all(&["prod-1", "prod-2"], &["filter prod-2"]).await;

    terminal.keys(&["p"]);
    terminal.shows_all(&["PAUSED", "● Degraded 1"], &[]).await;
    report_as_dns(app, &first, "True").await;
    terminal.keys(&["p"]);
    terminal.shows_all(&["● Reconciled 1", "● Degraded 0", "prod-2"], &["PAUSED", "prod-1"]).await;
    terminal.keys(&["a"]);
    terminal.shows_all(&["prod-1", "prod-2"], &[]).await;

    terminal.keys(&["q"]);
    terminal.is_idle().await;
}

async fn a_paused_screen_keeps_its_resources_and_takes_keys(app: &App) {
    let (first, program) = (fleet(app).await, Program::new());
    let terminal = top(app, &program);
    let order = |screen: &str| screen.find("prod-1").unwrap() < screen.find("prod-2").unwrap();
    terminal.shows_all(&["prod-1", "prod-2"], &[]).await;
    terminal.keys(&["p", "s", "s"]);
    let screen = terminal.shows_all(&["PAUSED", "by name", "● Degraded 1"], &["reversed"]).await;
    assert!(order(&screen), "{screen}");
    terminal.keys(&["r"]);
    let screen = terminal.shows_all(&["PAUSED", "by name, reversed"], &[]).await;
    assert!(!order(&screen), "{screen}");
    report_as_dns(app, &first, "True").await;
    terminal.keys(&["/", "prod-1", "Enter"]);
    terminal.shows_all(&["PAUSED", "filter prod-1", "1/1", "Degraded"], &["prod-2"]).await;
    terminal.keys(&["/", "Escape"]);
    // A terminal takes an Escape and a letter at once for one key.
    terminal.shows_all(&["PAUSED", "prod-1", "prod-2"], &["filter prod-1"]).await;
    terminal.keys(&["p"]);
    terminal.shows_all(&["prod-2", "● Degraded 0"], &["PAUSED", "prod-1"]).await;
}

async fn a_lost_connection_is_shown_with_its_reason(app: &mut App) {
    fleet(app).await;
    let program = Program::new();
    let terminal = top(app, &program);
    terminal.shows_all(&["prod-1", "prod-2"], &[]).await;
    app.server.kill9();
    terminal.shows_all(&["NOT CONNECTED", "Connection refused", "● Stuck 0", "prod-1", "prod-2"], &[]).await;
}

async fn without_a_terminal_the_present_state_is_printed_once(app: &App) {
    fleet(app).await;
    let server = format!("http://{}", app.api().authority());
    let printed = Program::new().run(&["top", "--server", &server]).await;
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = printed.stdout.lines().map(blank).collect();
    assert_eq!(lines[..2], ["RECONCILED RECONCILING DEGRADED FINALIZING STUCK", "0 1 1 0 0"]);
    assert!(lines[4].starts_with("prod-1 Cluster Degraded"), "{lines:?}");
    assert!(lines[5].starts_with("prod-2 Cluster Reconciling"), "{lines:?}");
    assert_eq!(lines[lines.len() - 1], "dns 1");

    let nowhere = Program::new().run(&["top", "--server", "http://127.0.0.1:1"]).await;
    assert_eq!((nowhere.code, nowhere.stdout.as_str()), (Some(6), ""));
}

both_stores!(
    config = CONFIG;
    the_screen_follows_the_fleet_and_the_keys,
    a_paused_screen_keeps_its_resources_and_takes_keys,
    without_a_terminal_the_present_state_is_printed_once,
);
both_stores!(config = CONFIG; a_lost_connection_is_shown_with_its_reason);
