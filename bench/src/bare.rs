//! The limit of reads: a handler that does nothing but answer, on the same HTTP stack and allocator as the server,
//! in a process of its own as the server is.

use anyhow::Result;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::aside::{Aside, tell, until_alone};
use crate::workload::{Target, Workload};

/// Paths of the two bodies.
pub(crate) const ONE: &str = "/one";
pub(crate) const LIST: &str = "/list";

/// Serves two bodies of these sizes until whoever started it has gone.
pub(crate) async fn serve(one: usize, list: usize) -> Result<()> {
    let answer = |size: usize| {
        let body: &'static [u8] = vec![b' '; size].leak();
        get(move || async move { ([(header::CONTENT_TYPE, "application/json")], body) })
    };
    let router = Router::new().route(ONE, answer(one)).route(LIST, answer(list));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    tell(listener.local_addr()?)?;
    let listener = listener.tap_io(|stream| {
        // Without it answers are merely slower to leave.
        let _ = stream.set_nodelay(true);
    });
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        () = until_alone() => Ok(()),
    }
}

/// A running bare handler.
#[derive(Debug)]
pub(crate) struct Bare(Aside);

impl Bare {
    /// Starts this program again as the bare handler.
    pub(crate) fn start(one: usize, list: usize) -> Result<Self> {
        Ok(Self(Aside::start(&["bare", &one.to_string(), &list.to_string()])?))
    }

    /// One of its bodies as a target.
    pub(crate) fn target(&self, path: &'static str) -> Target {
        let process = Some(self.0.process());
        Target { address: self.0.address, process, workload: Workload::Path(path) }
    }
}
