//! The command line on a terminal, which tmux plays: questions, colours, progress.

use super::{BINARY, Cli};
use crate::support::{App, CATALOG, Terminal, any_store};

fn open(cli: &Cli) -> Terminal {
    Terminal::open(&cli.program, 100, 40)
}

async fn delete_shows_a_preview_and_asks(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create nodepool prod-1/workers").await;
    let terminal = open(&cli);
    terminal.type_line(&format!("{BINARY} delete cluster prod-1"));
    let screen = terminal.shows("Delete these 2 resources? [y/N]").await;
    assert!(
        screen.contains("cluster/prod-1") && screen.contains("└─ ") && screen.contains("nodepool/workers"),
        "{screen}"
    );
    terminal.type_line("n");
    terminal.shows("nothing was deleted").await;
    assert_eq!(cli.ok("get clusters -o name").await, "cluster/prod-1\n");

    terminal.type_line("clear");
    terminal.type_line(&format!("{BINARY} delete cluster prod-1"));
    terminal.shows("[y/N]").await;
    terminal.type_line("y");
    terminal.shows("cluster/prod-1 deletion requested").await;
    assert_eq!(cli.ok("get clusters -o name").await, "");
}

async fn a_terminal_gets_colours_and_a_bar(app: &App) {
    let documents: String = (0..300).map(|n| format!("kind: Network\nname: n-{n}\n---\n")).collect();
    let cli = Cli::of(app).file("many.yaml", &documents);
    cli.ok("create cluster prod-1").await;
    let terminal = open(&cli);
    terminal.type_line(&format!("{BINARY} get clusters"));
    let screen = terminal.shows("Reconciling").await;
    assert!(screen.contains("\x1b[33mReconciling"), "{screen:?}");
    terminal.type_line(&format!("clear; {BINARY} apply -f many.yaml --parallel 1 >/dev/null"));
    terminal.shows("/300").await;
    terminal.shows_all(&["300 created, 0 changed, 0 unchanged, 0 failed"], &["/300", "━"]).await;
}

async fn ctrl_c_removes_the_progress_bar_of_an_apply(app: &App) {
    let documents: String = (0..5_000).map(|n| format!("kind: Network\nname: n-{n}\n---\n")).collect();
    let cli = Cli::of(app).file("many.yaml", &documents);
    let terminal = open(&cli);
    terminal.type_line(&format!("clear; {BINARY} apply -f many.yaml --parallel 1 >/dev/null"));
    terminal.shows_all(&["Applying ", "/5000", "left"], &[]).await;
    terminal.keys(&["C-c"]);
    let screen = terminal.shows_all(&["run it again to continue"], &["/5000", "━", "─"]).await;
    assert!(screen.contains("SIGINT: waiting for the requests under way"), "{screen}");
    // Lines of data and the bar share a screen without a trace of each other.
    terminal.type_line(&format!("clear; {BINARY} apply -f many.yaml --parallel 1"));
    terminal.shows_all(&["Applying ", "/5000"], &[]).await;
    terminal.keys(&["C-c"]);
    let screen = terminal.shows_all(&["run it again to continue"], &["/5000", "━", "─"]).await;
    let is_clean = |line: &str| line.split(' ').count() == 2;
    assert!(screen.lines().filter(|line| line.starts_with("network/")).all(is_clean), "{screen}");
}

async fn a_watch_goes_on_until_ctrl_c(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let terminal = open(&cli);
    terminal.type_line(&format!("clear; {BINARY} get clusters -w"));
    terminal.shows("Reconciling").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter}")).await;
    }
    let screen = terminal.shows("Reconciled").await;
    assert!(screen.contains("\x1b[32mReconciled"), "{screen:?}");
    terminal.keys(&["C-c"]);
    terminal.is_idle().await;
}

async fn the_editor_receives_ctrl_c(app: &App) {
    let script = "trap '' INT; echo now what; read size; sed -i \"s/size: 3/size: $size/\" \"$1\"";
    let cli = Cli::of(app).file("editor.sh", script).env("VISUAL", "sh editor.sh");
    cli.ok("create cluster prod-1 --set size=3").await;
    let terminal = open(&cli);
    terminal.type_line(&format!("{BINARY} edit cluster prod-1"));
    terminal.shows("now what").await;
    terminal.keys(&["C-c"]);
    terminal.type_line("7");
    terminal.shows("cluster/prod-1 changed").await;
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath={.spec.size}").await, "7\n");
}

any_store!(
    config = CATALOG;
    delete_shows_a_preview_and_asks,
    a_terminal_gets_colours_and_a_bar,
    ctrl_c_removes_the_progress_bar_of_an_apply,
    a_watch_goes_on_until_ctrl_c,
    the_editor_receives_ctrl_c,
);

#[test]
fn ctrl_c_removes_the_progress_bar_of_a_demo() {
    crate::support::run(async {
        let cli = Cli::at("http://127.0.0.1:1");
        let terminal = open(&cli);
        let flags = "--demo --demo-clusters 20000 --port 0 --health-port 0 --metrics-port 0";
        terminal.type_line(&format!("clear; {BINARY} up {flags}"));
        terminal.shows_all(&["Ctrl-C stops it.", "Creating the fleet ", "/20000", "left"], &[]).await;
        terminal.keys(&["C-c"]);
        // Nothing is typed before: its line would take the cursor off the bar's.
        terminal.shows_all(&["Ctrl-C stops it."], &["Creating the fleet", "/20000", "━", "─"]).await;
        terminal.is_idle().await;
    });
}
