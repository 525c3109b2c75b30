//! The limit of reads: a handler that answers a constant, on the server's HTTP stack and allocator, in a process of its
//! own as the server is.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::header;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::workload::{Servers, Workload};

/// The path of a body of the size of one cluster, and that of a page.
pub(crate) const CLUSTER: &str = "/cluster";
pub(crate) const PAGE: &str = "/page";

/// Serves bodies of these sizes until the process that started this one has ended.
pub(crate) async fn serve(cluster: usize, page: usize) -> Result<()> {
    let constant = |size: usize| {
        let body: &'static [u8] = vec![b' '; size].leak();
        get(move || async move { ([(header::CONTENT_TYPE, "application/json")], body) })
    };
    let router = Router::new().route(CLUSTER, constant(cluster)).route(PAGE, constant(page));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        // Without it responses merely leave later.
        let _ = stream.set_nodelay(true);
    });
    let parent_has_ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        _ = parent_has_ended => Ok(()),
    }
}

/// The running process; it ends with this value.
#[derive(Debug)]
pub(crate) struct Baseline {
    address: SocketAddr,
    child: Child,
}

impl Baseline {
    /// Starts this program again.
    pub(crate) fn start(cluster: usize, page: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["baseline", &cluster.to_string(), &page.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
        Ok(Self { address: line.trim().parse().context("no address of the baseline")?, child })
    }

    pub(crate) fn target(&self, path: &'static str) -> Servers {
        Servers { addresses: vec![self.address], processes: Vec::new(), workload: Workload::Path(path) }
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
