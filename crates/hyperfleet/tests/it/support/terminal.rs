//! A terminal in tmux with a shell in it: what a person would see, and the keys that they would press.

use std::process::Command;

use hyperfleet_testkit::eventually;

use crate::operations::program::Program;

use super::DEADLINE;

/// A terminal of so many columns; its tmux ends with this value.
pub(crate) struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a shell in the program's directory, with its environment.
    pub(crate) fn open(program: &Program, columns: u16, lines: u16) -> Self {
        let terminal = Self { socket: super::unique(&format!("hf-{}", std::process::id())) };
        let mut tmux = Command::new("tmux");
        // Without a configuration of the machine's owner, and in letters that are not only ASCII.
        tmux.args(["-L", &terminal.socket, "-f", "/dev/null", "-u", "new-session", "-d"]);
        tmux.args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        let command = program.command("tmux", &[]);
        for (name, value) in command.as_std().get_envs() {
            if let Some(value) = value {
                tmux.arg("-e").arg(format!("{}={}", name.display(), value.display()));
            }
        }
        tmux.args(["-e", "PS1=$ ", "sh"]).current_dir(program.directory()).env_remove("TMUX");
        assert!(tmux.status().expect("these tests need tmux: install it").success());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses keys by the names that tmux has for them.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.keys(&["Enter"]);
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen with its escape sequences, once it shows this.
    pub(crate) async fn shows(&self, text: &str) -> String {
        self.shows_all(&[text], &[]).await;
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// The screen, once all of these are on it and none of those.
    pub(crate) async fn shows_all(&self, parts: &[&str], not: &[&str]) -> String {
        let wanted = format!("a screen with {parts:?} and without {not:?}");
        eventually(&wanted, DEADLINE, async || {
            let screen = self.screen();
            let fits = parts.iter().all(|part| screen.contains(part))
                && !not.iter().any(|part| screen.contains(part));
            fits.then_some(screen)
        })
        .await
    }

    /// Waits until the shell takes commands again.
    pub(crate) async fn is_idle(&self) {
        // Whatever is typed before would be read by the program that is about to end.
        eventually("a shell in the foreground", DEADLINE, async || {
            let foreground = self.tmux(&["display-message", "-p", "#{pane_current_command}"]);
            (foreground.trim() == "sh").then_some(())
        })
        .await;
        self.type_line("echo the shell is $((40 + 2)) again");
        self.shows("the shell is 42 again").await;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A server survives the end of its terminal.
        self.keys(&["C-c"]);
        self.tmux(&["kill-server"]);
    }
}
