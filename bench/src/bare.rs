//! The limit of reads: a handler that does nothing but answer, on the same HTTP stack and allocator as the server,
//! in a process of its own as the server is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::header;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::workload::{Target, Workload};

/// Paths of the two bodies.
pub(crate) const ONE: &str = "/one";
pub(crate) const LIST: &str = "/list";

/// Serves two bodies of these sizes until standard input ends, so that it goes with the process that started it.
pub(crate) async fn serve(one: usize, list: usize) -> Result<()> {
    let answer = |size: usize| {
        let body: &'static [u8] = vec![b' '; size].leak();
        get(move || async move { ([(header::CONTENT_TYPE, "application/json")], body) })
    };
    let router = Router::new().route(ONE, answer(one)).route(LIST, answer(list));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        // Without it answers are merely slower to leave.
        let _ = stream.set_nodelay(true);
    });
    let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        _ = parent => Ok(()),
    }
}

/// A running bare handler.
#[derive(Debug)]
pub(crate) struct Bare {
    address: SocketAddr,
    child: Child,
}

impl Bare {
    /// Starts this program again as the bare handler.
    pub(crate) fn start(one: usize, list: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bare", &one.to_string(), &list.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child.stdout.take().context("the output of the bare handler")?;
        BufReader::new(output).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("the address of the bare handler")?, child })
    }
}

impl Bare {
    /// One of its bodies as a target.
    pub(crate) fn target(&self, path: &'static str) -> Target {
        Target { address: self.address, process: Some(self.child.id()), workload: Workload::Path(path) }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
