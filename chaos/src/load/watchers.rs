//! Watchers follow the feed over all replicas. A connection is lost by faults, and now and then left on purpose; the next
//! one, at another replica, goes on after the last version.

use std::time::Duration;

use anyhow::{Context as _, Result};
use hyperfleet_testkit::{Event as Line, Stream};
use tokio::time::{Instant, timeout, timeout_at};

use super::{BASE, Caller, PATIENCE};
use crate::digest::digest;
use crate::feed::{event_kind, id};
use crate::history::{Beginning, Event, View, Watch};

/// A bookmark comes more often than this.
const SILENCE: Duration = Duration::from_secs(25);
/// Between two connections.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection is kept, at most, in seconds.
const STAY: std::ops::Range<u64> = 2..20;

fn path(view: View) -> &'static str {
    match view {
        View::Everything => "/resources?showDeleted=true&watch=true",
        View::Active => "/resources?watch=true",
        View::Red => "/clusters?search=labels.tone%3D'red'&watch=true",
        View::NodePools => "/nodepools?showDeleted=true&watch=true",
    }
}

/// Follows a view from a version until the end of the run.
pub(super) async fn follow(mut caller: Caller, view: View, since: u64) {
    let mut finish = caller.shared.finish.subscribe();
    let mut watch = Watch { view, beginning: Beginning::After(since), events: Vec::new(), upto: since };
    loop {
        // In the end a bookmark may be all that is still to come.
        let stay = if caller.shared.is_stopping() { STAY.end * 3 } else { caller.random.u64(STAY) };
        let until = Instant::now() + Duration::from_secs(stay);
        let path = format!("{BASE}{}&since={}", path(view), watch.upto);
        let is_refused = match open(&mut caller, &path).await {
            Ok(mut stream) => {
                // Connections are lost all the time, and the next one goes on.
                let _ = receive(&caller, &mut stream, &mut watch, until, &finish).await;
                false
            }
            Err(fault) => fault.is::<Refused>(),
        };
        if is_refused || finish.borrow_and_update().is_some_and(|version| watch.upto >= version) {
            caller.shared.history().watches.push(watch);
            return;
        }
        caller.home += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Begins anew with the present state again and again, follows it for a while, and leaves.
pub(super) async fn join_and_leave(mut caller: Caller) {
    let finish = caller.shared.finish.subscribe();
    while !caller.shared.is_stopping() {
        let view = [View::Everything, View::Active, View::Red, View::NodePools][caller.random.usize(..4)];
        let until = Instant::now() + Duration::from_secs(caller.random.u64(2..10));
        if let Ok((mut stream, beginning)) =
            timeout_at(until, join(&mut caller, view)).await.unwrap_or_else(late)
        {
            let upto = beginning.version();
            let mut watch = Watch { view, beginning, events: Vec::new(), upto };
            let _ = receive(&caller, &mut stream, &mut watch, until, &finish).await;
            caller.shared.history().watches.push(watch);
        }
        caller.home += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

fn late<T>(_: tokio::time::error::Elapsed) -> Result<T> {
    anyhow::bail!("late")
}

type Finish = tokio::sync::watch::Receiver<Option<u64>>;

/// A watch that the server will not open at another time either.
#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

/// Opens a watch, which only a fault may prevent.
async fn open(caller: &mut Caller, path: &str) -> Result<Stream> {
    let client = caller.replica();
    let call = client.get(path).header("accept", "application/x-ndjson");
    let stream = timeout(PATIENCE, call.open()).await??;
    if (400..500).contains(&stream.status) {
        caller.shared.unexpected(format!("GET {path}: {}", stream.status));
        return Err(Refused.into());
    }
    anyhow::ensure!(stream.status == 200, "{}", stream.status);
    Ok(stream)
}

/// The present state of a view.
async fn join(caller: &mut Caller, view: View) -> Result<(Stream, Beginning)> {
    let mut stream = open(caller, &format!("{BASE}{}", path(view))).await?;
    let mut objects = Vec::new();
    loop {
        let line = next(&mut stream, Instant::now() + SILENCE).await?;
        match line.kind() {
            "ADDED" => objects.push((id(&line.object()["id"])?, digest(line.object()))),
            "BOOKMARK" => return Ok((stream, Beginning::Present { objects, bookmark: line.version() })),
            _ => anyhow::bail!("{}", line.text),
        }
    }
}

/// Records events until the connection ends, or `until`, or all is there.
async fn receive(
    caller: &Caller,
    stream: &mut Stream,
    watch: &mut Watch,
    until: Instant,
    finish: &Finish,
) -> Result<()> {
    loop {
        if finish.borrow().is_some_and(|version| watch.upto >= version) {
            return Ok(());
        }
        let line = next(stream, until.min(Instant::now() + SILENCE)).await?;
        match line.kind() {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let (kind, digest) = (event_kind(&line.json)?, digest(line.object()));
                watch.events.push(Event { version: line.version(), kind, digest });
            }
            "BOOKMARK" if line.version() >= watch.upto => {}
            // Before anything was sent, a watch that ends has no version to tell.
            "ERROR" if line.version() == 0 || line.version() >= watch.upto => {}
            _ => caller.shared.unexpected(format!("{} after {}", line.text, watch.upto)),
        }
        watch.upto = watch.upto.max(line.version());
        if line.kind() == "ERROR" {
            return Ok(());
        }
    }
}

async fn next(stream: &mut Stream, until: Instant) -> Result<Line> {
    timeout_at(until, stream.next()).await??.context("the stream ended")
}
