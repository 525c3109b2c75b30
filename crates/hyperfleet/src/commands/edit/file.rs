//! The file that the editor opens: readable by its owner alone, removed after success, kept after a failure.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use hyperfleet_service::shutdown::{Signal, Signals};
use tokio::process::Command;

use crate::commands::Failure;
use crate::output::paint::unpainted;

/// Starts the lines with the error of the last attempt; they are removed before the next one.
const COMMENT: &str = "#! ";

/// A text being edited. Its file is removed on drop unless it is to be kept.
#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    kept: bool,
}

impl Draft {
    /// A new file with this text, beside others that were kept.
    pub(super) fn new(name: &str, text: &str) -> Result<Self, Failure> {
        let directory = std::env::temp_dir();
        for number in 1_u64.. {
            let path = directory.join(format!("{name}-{}-{number}.yaml", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let draft = Self { path, kept: false };
                    file.write_all(text.as_bytes()).map_err(|error| cannot("write", &draft.path, &error))?;
                    return Ok(draft);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot("write", &path, &error)),
            }
        }
        Err(Failure::new(format!("cannot create another file in {}", directory.display())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the error at the head of the text; returns the text that the editor will open.
    pub(super) fn show(&self, error: Option<&str>) -> Result<String, Failure> {
        let Some(error) = error else { return self.read() };
        let comment: String = unpainted(error).lines().map(|line| format!("{COMMENT}{line}\n")).collect();
        let text = format!("{comment}{}", without_error(&self.read()?));
        // Written to another file first: a full disk must not destroy the text.
        let temporary = self.path.with_extension("new");
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        written
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &self.path))
            .map_err(|error| cannot("write", &temporary, &error))?;
        Ok(text)
    }

    /// The text as it is now.
    pub(super) fn read(&self) -> Result<String, Failure> {
        fs::read_to_string(&self.path).map_err(|error| cannot("read", &self.path, &error))
    }

    /// Keeps the file, and adds its path to the failure.
    pub(super) fn kept_after(&mut self, mut failure: Failure) -> Failure {
        self.kept = true;
        failure.text.push_str(&format!("\n  your text is kept in {}", self.path.display()));
        failure
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            // The file may be gone already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Runs the editor on the file. An interrupt comes from the terminal and belongs to the editor; a termination ends this
/// process.
pub(super) async fn edit(editor: &str, path: &Path, signals: &mut Signals) -> Result<(), Failure> {
    // By a shell, because an editor may come with arguments; the shell outlives an interrupt, as this process does.
    let line = format!("trap : INT; {editor} \"$1\"");
    let started = Command::new("/bin/sh").args(["-c", &line, "sh"]).arg(path).spawn();
    let mut running = started
        .map_err(|error| Failure::new(format!("the editor ({editor}) could not be started: {error}")))?;
    loop {
        tokio::select! {
            ended = running.wait() => return match ended {
                Ok(status) if status.success() => {
                    // An interrupt during the end of the editor was meant for the editor too.
                    while let Some(signal) = signals.next().now_or_never() {
                        if signal == Signal::Terminate {
                            return Err(stopped(signal));
                        }
                    }
                    Ok(())
                }
                Ok(status) => Err(Failure::new(format!("the editor ({editor}) ended with {status}; nothing was sent"))),
                Err(error) => Err(Failure::new(format!("cannot wait for the editor ({editor}): {error}; nothing was sent"))),
            },
            signal = signals.next() => if signal == Signal::Terminate {
                return Err(stopped(signal));
            },
        }
    }
}

fn stopped(signal: Signal) -> Failure {
    Failure { text: format!("stopped by {signal}; nothing was sent"), code: signal.exit_code() }
}

/// The text without the error of an earlier attempt.
fn without_error(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with(COMMENT.trim_end()))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}
