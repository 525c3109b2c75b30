//! This program again, in a process of its own, to serve something that is measured or needed: the bare handler, the
//! stand-in of Pub/Sub. It tells its address in its first line, and goes when the process that started it goes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

/// Tells where we serve.
pub(crate) fn tell(address: SocketAddr) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{address}")?)
}

/// Waits until whoever started us has gone: then our standard input ends.
pub(crate) async fn until_alone() {
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
}

/// The other process; it goes with this value.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Aside {
    /// Starts this program with these arguments, and reads where it serves.
    pub(crate) fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("the output of our other process")?;
        BufReader::new(output).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("the address of our other process")?, child })
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
