//! The command line that people use, as processes against a running server: what goes to stdout and what to stderr, how
//! it ends, and that names work wherever ids do.

mod applying;
mod changing;
mod completing;
mod conventions;
mod deleting;
mod describing;
mod editing;
mod events;
mod examining;
mod first_use;
mod large_apply;
mod listing;
mod logging_in;
mod lookups;
mod naming;
mod proxy;
mod reporting;
mod terminal;
mod waiting;

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::operations::program::{Ended, Program, Running};
use crate::support::{App, redacted_text};

const BINARY: &str = env!("CARGO_BIN_EXE_hyperfleet");

/// Exceeded only by a failing test.
const DEADLINE: Duration = Duration::from_secs(60);

/// The command line, configured for one server.
struct Cli {
    program: Program,
}

impl Cli {
    fn of(app: &App) -> Self {
        Self::at(&format!("http://{}", app.api().authority()))
    }

    fn at(server: &str) -> Self {
        let program = Program::new();
        let contexts = program.directory().join("contexts.yaml");
        let program = program
            .env("HYPERFLEET_SERVER", server)
            .env("HYPERFLEET_CONTEXTS", contexts.to_str().unwrap())
            .env("CLICOLOR_FORCE", "")
            .env("TERM", "xterm");
        Self { program }
    }

    fn env(self, name: &str, value: &str) -> Self {
        Self { program: self.program.env(name, value) }
    }

    fn file(self, path: &str, text: &str) -> Self {
        Self { program: self.program.file(path, text) }
    }

    /// Calls it with the words of a line; a word in quotes may hold spaces.
    async fn run(&self, line: &str) -> Ended {
        let words = words(line);
        self.program.run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// Calls it and leaves it at work.
    fn start(&self, line: &str) -> Running {
        let words = words(line);
        self.program.start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Calls it with something on stdin.
    async fn run_with(&self, line: &str, input: &str) -> Ended {
        let words = words(line);
        let mut command = self.program.command(BINARY, &words.iter().map(String::as_str).collect::<Vec<_>>());
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let (_, ended) = tokio::join!(
            async {
                // A command that does not read its input is no fault of this side.
                let _ = stdin.write_all(input.as_bytes()).await;
                drop(stdin);
            },
            child.wait_with_output()
        );
        let ended = ended.unwrap();
        Ended {
            code: ended.status.code(),
            stdout: String::from_utf8(ended.stdout).unwrap(),
            stderr: String::from_utf8(ended.stderr).unwrap(),
        }
    }

    /// The data of a call that must succeed.
    #[track_caller]
    fn ok(&self, line: &str) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        let line = line.to_owned();
        async move {
            let ended = self.run(&line).await;
            assert_eq!(ended.code, Some(0), "{caller}: {line}: {ended:?}");
            ended.stdout
        }
    }

    /// The data of a call that must succeed, as JSON.
    async fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(line).await).unwrap()
    }

    /// Everything about a call, for a snapshot.
    async fn transcript(&self, line: &str) -> String {
        transcript(&self.run(line).await)
    }
}

/// Words of a line as a shell would split it, as far as these tests need it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// What a call printed and how it ended, with what differs from run to run left out.
fn transcript(ended: &Ended) -> String {
    let mut out = ended.stdout.clone();
    if !ended.stderr.is_empty() {
        out.push_str("--- stderr\n");
        out.push_str(&ended.stderr);
    }
    if ended.code != Some(0) {
        out.push_str(&format!("--- exit {}\n", ended.code.unwrap()));
    }
    steady(&out)
}

/// Text without ids, times, ages, ports and traces.
fn steady(text: &str) -> String {
    let text = redacted_text(text);
    let mut out = String::new();
    for line in text.lines() {
        let line = match line.split_once("trace id: ") {
            Some((before, _)) => format!("{before}trace id: [trace]"),
            None => line.to_owned(),
        };
        out.push_str(&without_ports(&without_ages(&line)));
        out.push('\n');
    }
    out
}

/// `7s` becomes `[age]`, and the room behind it two spaces.
fn without_ages(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let begins = out.ends_with("\x1b[2m")
            || out.chars().next_back().is_none_or(|before| !before.is_ascii_alphanumeric() && before != '-');
        let tail = &rest[digits..];
        let ends =
            tail.strip_prefix('s').is_some_and(|tail| !tail.starts_with(|c: char| c.is_ascii_alphanumeric()));
        if digits > 0 && begins && ends {
            out.push_str("[age]");
            rest = &tail[1..];
            let spaces = rest.bytes().take_while(|byte| *byte == b' ').count();
            if spaces > 1 {
                out.push_str("  ");
                rest = &rest[spaces..];
            }
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// `127.0.0.1:40123` becomes `[server]`.
fn without_ports(line: &str) -> String {
    let mut parts = line.split("127.0.0.1:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("[server]");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    out
}

/// Waits until the deletion of a resource is under way.
async fn until_finalizing(cli: &Cli, what: &str) {
    hyperfleet_testkit::eventually(what, DEADLINE, async || {
        let shown = cli.ok(&format!("get {what} -o jsonpath={{.deleted_time}}")).await;
        (shown != "\n").then_some(())
    })
    .await;
}
