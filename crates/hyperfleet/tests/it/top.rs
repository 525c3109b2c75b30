//! `hyperfleet top`: in a real terminal, by tmux, and where there is none.

use std::process::Command;
use std::time::Duration;

use hyperfleet_testkit::eventually;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::operations::program::Program;
use crate::support::{self, App};

const DEADLINE: Duration = Duration::from_secs(60);

const CONFIG: &str = "entities: [{kind: Cluster, plural: clusters, required_adapters: [dns]}]";

/// A terminal of its own with one program in it; both end with this value.
struct Terminal {
    directory: TempDir,
}

impl Terminal {
    fn start(command: &str) -> Self {
        let terminal = Self { directory: tempfile::tempdir().unwrap() };
        // Without a configuration of the machine's owner, and in letters that are not only ASCII.
        let started =
            terminal.tmux(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", "110", "-y", "24", command]);
        assert!(started.is_some(), "tmux is not installed: run `make setup`");
        terminal
    }

    /// What tmux prints, if it succeeds.
    fn tmux(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("tmux")
            .args(["-L", "test"])
            .args(arguments)
            .env("TMUX_TMPDIR", self.directory.path())
            .env_remove("TMUX")
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn screen(&self) -> Option<String> {
        self.tmux(&["capture-pane", "-p"])
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).is_some());
    }

    /// The screen, once all of these parts are on it and none of those.
    async fn shows(&self, parts: &[&str], not: &[&str]) -> String {
        eventually(&format!("a screen with {parts:?} and without {not:?}"), DEADLINE, async || {
            let screen = self.screen()?;
            let fits = parts.iter().all(|part| screen.contains(part))
                && !not.iter().any(|part| screen.contains(part));
            fits.then_some(screen)
        })
        .await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

async fn report(app: &App, cluster: &Value, available: &str) {
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "ZoneNotDelegated"});
    let conditions =
        [condition("Applied", "True"), condition("Available", available), condition("Health", "True")];
    let report = json!({"adapter": "dns", "observed_generation": 1, "conditions": conditions});
    app.report(cluster, &report).await.expect_status(201);
}

#[test]
fn the_screen_follows_the_fleet_and_the_keys() {
    support::run(async {
        let app = App::on_sqlite(CONFIG).await;
        let (first, _second) = (app.create_cluster("prod-1").await, app.create_cluster("prod-2").await);
        report(&app, &first, "False").await;
        let binary = env!("CARGO_BIN_EXE_hyperfleet");
        let terminal = Terminal::start(&format!("{binary} top --server http://{}", app.api().authority()));
        let all = [
            "2 resources",
            "● Reconciling 1",
            "● Degraded 1",
            "dns 1",
            "prod-1",
            "prod-2",
            "ZoneNotDelegated",
        ];
        terminal.shows(&all, &["PAUSED"]).await;

        terminal.keys(&["/", "prod-2", "Enter"]);
        terminal.shows(&["prod-2", "filter prod-2", "1/1"], &["prod-1"]).await;
        terminal.keys(&["/", "Escape"]);
        terminal.shows(&["prod-1", "prod-2"], &["filter prod-2"]).await;

        terminal.keys(&["p"]);
        terminal.shows(&["PAUSED", "● Degraded 1"], &[]).await;
        report(&app, &first, "True").await;
        terminal.keys(&["p"]);
        terminal.shows(&["● Reconciled 1", "● Degraded 0", "prod-2"], &["PAUSED", "prod-1"]).await;
        terminal.keys(&["a"]);
        terminal.shows(&["prod-1", "prod-2"], &[]).await;

        terminal.keys(&["q"]);
        eventually("the end of the program", DEADLINE, async || terminal.screen().is_none().then_some(()))
            .await;
    });
}

#[test]
fn without_a_terminal_the_present_state_is_printed_once() {
    support::run(async {
        let app = App::on_sqlite(CONFIG).await;
        let (first, _second) = (app.create_cluster("prod-1").await, app.create_cluster("prod-2").await);
        report(&app, &first, "False").await;
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
    });
}
