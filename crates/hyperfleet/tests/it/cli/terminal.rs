//! The command line on a terminal, which tmux plays: questions, colours, progress.

use std::process::Command;

use hyperfleet_testkit::eventually;

use super::{BINARY, Cli, DEADLINE};
use crate::support::{App, CATALOG, both_stores, unique};

/// A terminal of 100 columns; its server ends with this value.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a shell in the command line's directory, with its environment.
    fn open(cli: &Cli) -> Self {
        let terminal = Self { socket: unique(&format!("hf-{}", std::process::id())) };
        let command = cli.program.command("tmux", &[]);
        let mut started = Command::new("tmux");
        let known = command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
        started.args([
            "-L",
            &terminal.socket,
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "40",
        ]);
        for (name, value) in known {
            started.arg("-e").arg(format!("{}={}", name.display(), value.display()));
        }
        started.args(["-e", "PS1=$ ", "sh"]).current_dir(cli.program.directory());
        assert!(started.status().expect("these tests need tmux: install it").success());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    /// The screen with its escape sequences, once it shows this.
    async fn shows(&self, text: &str) -> String {
        let mut last = String::new();
        let wanted = format!("{text:?} on the screen");
        eventually(&wanted, DEADLINE, async || {
            last = self.tmux(&["capture-pane", "-p"]);
            last.contains(text).then(|| self.tmux(&["capture-pane", "-p", "-e"]))
        })
        .await
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

async fn a_deletion_shows_what_goes_and_asks(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    cli.ok("create nodepool prod-1/workers").await;
    let terminal = Terminal::open(&cli);
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
    let terminal = Terminal::open(&cli);
    terminal.type_line(&format!("{BINARY} get clusters"));
    let screen = terminal.shows("Reconciling").await;
    assert!(screen.contains("\x1b[33mReconciling"), "{screen:?}");
    terminal.type_line(&format!("clear; {BINARY} apply -f many.yaml --parallel 1 >/dev/null"));
    terminal.shows("/300").await;
    terminal.shows("300 created, 0 changed, 0 unchanged, 0 failed").await;
}

async fn a_watch_goes_on_until_ctrl_c(app: &App) {
    let cli = Cli::of(app);
    cli.ok("create cluster prod-1").await;
    let terminal = Terminal::open(&cli);
    terminal.type_line(&format!("clear; {BINARY} get clusters -w"));
    terminal.shows("Reconciling").await;
    for adapter in ["validator", "dns"] {
        cli.ok(&format!("report cluster prod-1 --adapter {adapter}")).await;
    }
    let screen = terminal.shows("Reconciled").await;
    assert!(screen.contains("\x1b[32mReconciled"), "{screen:?}");
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.type_line("echo the shell is $((40 + 2)) again");
    terminal.shows("the shell is 42 again").await;
}

async fn an_editor_has_the_terminal_and_its_ctrl_c(app: &App) {
    let script = "trap '' INT; echo now what; read size; sed -i \"s/size: 3/size: $size/\" \"$1\"";
    let cli = Cli::of(app).file("editor.sh", script).env("VISUAL", "sh editor.sh");
    cli.ok("create cluster prod-1 --set size=3").await;
    let terminal = Terminal::open(&cli);
    terminal.type_line(&format!("{BINARY} edit cluster prod-1"));
    terminal.shows("now what").await;
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.type_line("7");
    terminal.shows("cluster/prod-1 changed").await;
    assert_eq!(cli.ok("get cluster prod-1 -o jsonpath={.spec.size}").await, "7\n");
}

both_stores!(
    config = CATALOG;
    a_deletion_shows_what_goes_and_asks,
    a_terminal_gets_colours_and_a_bar,
    a_watch_goes_on_until_ctrl_c,
    an_editor_has_the_terminal_and_its_ctrl_c,
);
