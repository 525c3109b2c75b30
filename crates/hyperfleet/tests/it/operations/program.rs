//! The binary as a person calls it: in a directory of its own, with its output kept apart by stream. The testkit's
//! `Server` is for a server that should become ready; this is for everything else.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use hyperfleet_testkit::{Client, eventually};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::{BINARY, DEADLINE};

/// An empty directory to call the binary in, and the environment of the calls.
pub(crate) struct Program {
    directory: TempDir,
    environment: Vec<(String, String)>,
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a file into the directory.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Another program in the same directory and environment, such as a shell.
    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        // A developer's own settings and terminal must not show.
        let foreign = |name: &str| name.starts_with("HYPERFLEET_") || name == "COLUMNS" || name == "NO_COLOR";
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(foreign)) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Calls the binary and waits for its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        output(self.command(BINARY, arguments)).await
    }

    /// Calls the binary and leaves it at work.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let mut child = self.command(BINARY, arguments).spawn().unwrap();
        let (stdout, first) = collect(child.stdout.take().unwrap());
        let (stderr, second) = collect(child.stderr.take().unwrap());
        Running { child, stdout, stderr, readers: vec![first, second] }
    }
}

/// Runs a command to its end.
pub(crate) async fn output(mut command: Command) -> Ended {
    let ended = tokio::time::timeout(DEADLINE, command.output()).await.expect("the call must end").unwrap();
    Ended {
        code: ended.status.code(),
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A call at work; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
    readers: Vec<JoinHandle<()>>,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Running {
    pub(crate) fn stdout(&self) -> Vec<String> {
        self.stdout.lock().unwrap().clone()
    }

    pub(crate) fn stderr(&self) -> Vec<String> {
        self.stderr.lock().unwrap().clone()
    }

    /// The ports at the other ends of its connections, and 0 for each socket that listens.
    pub(crate) fn connected_to(&self) -> Vec<u16> {
        let process = format!("/proc/{}", self.child.id().unwrap());
        let open = std::fs::read_dir(format!("{process}/fd")).unwrap().flatten();
        let open: Vec<_> = open.filter_map(|file| std::fs::read_link(file.path()).ok()).collect();
        let table = |name: &str| std::fs::read_to_string(format!("{process}/net/{name}")).unwrap_or_default();
        let mut ports = Vec::new();
        for line in (table("tcp") + &table("tcp6")).lines() {
            let columns: Vec<_> = line.split_whitespace().collect();
            let [_, _, remote, _, _, _, _, _, _, inode, ..] = columns[..] else { continue };
            if open.iter().any(|file| file.as_os_str() == format!("socket:[{inode}]").as_str()) {
                ports
                    .extend(remote.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok()));
            }
        }
        ports
    }

    /// Waits for a log line, in JSON on stdout, with this message.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        self.find(message, |line| line["message"] == message).await
    }

    /// A client of a listener, once the log tells its address.
    pub(crate) async fn client(&self, listener: &str) -> Client {
        let told = |line: &Value| line["message"] == "listening" && line["listener"] == listener;
        let line = self.find(listener, told).await;
        Client::new(line["address"].as_str().unwrap())
    }

    async fn find(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(what, DEADLINE, async || {
            let lines = self.stdout();
            lines.iter().filter_map(|line| serde_json::from_str(line).ok()).find(&fits)
        })
        .await
    }

    /// Sends a signal by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("/bin/sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid]).status();
        assert!(sent.await.unwrap().success());
    }

    /// Waits for the end and for its last words, and returns the exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(DEADLINE, self.child.wait()).await.expect("the process must end");
        for reader in self.readers.drain(..) {
            // What it started may live on and keep a stream open.
            let _ = tokio::time::timeout(DEADLINE, reader).await;
        }
        ended.unwrap().code()
    }
}

fn collect(pipe: impl AsyncRead + Unpin + Send + 'static) -> (Lines, JoinHandle<()>) {
    let lines = Lines::default();
    let kept = Arc::clone(&lines);
    let reader = tokio::spawn(async move {
        let mut pipe = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = pipe.next_line().await {
            kept.lock().unwrap().push(line);
        }
    });
    (lines, reader)
}
