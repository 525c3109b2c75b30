//! How events come in, the same for simulated and real adapters: kinds of the server, one task for each delivery, and a
//! drain. A gate holds back new deliveries while a dependency is away.

use std::time::Duration;

use hyperfleet_client::{Client, Kind};
use hyperfleet_events::{Broker, Delivery, Subscription};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Wait before the API is asked for its kinds again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The server does not have a requested kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server has no kind {name:?}; it has {offered}")]
pub struct UnknownKind {
    name: String,
    offered: String,
}

/// Whether new deliveries are taken. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Gate(watch::Sender<usize>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

/// Keeps a gate closed until it is dropped.
#[derive(Debug)]
pub(crate) struct Closed(Gate);

impl Gate {
    pub(crate) fn close(&self) -> Closed {
        self.0.send_modify(|held| *held += 1);
        Closed(self.clone())
    }

    /// Whether only one holds it closed.
    pub(crate) fn is_held_once(&self) -> bool {
        *self.0.borrow() == 1
    }

    async fn opened(&self) {
        // The sender lives as long as this gate.
        let _ = self.0.subscribe().wait_for(|held| *held == 0).await;
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.0.send_modify(|held| *held = held.saturating_sub(1));
    }
}

/// The adapter's name. Subscriptions of Pub/Sub are not named within a topic, so theirs contains it.
pub(crate) fn subscription_name(broker: &Broker, topic: &str, adapter: &str) -> String {
    if broker.kind() == "googlepubsub" { format!("{topic}-{adapter}") } else { adapter.to_owned() }
}

/// The kinds of the server, with retries.
pub(crate) async fn kinds(client: &Client) -> Vec<Kind> {
    loop {
        match client.kinds().await {
            Ok(kinds) => return kinds,
            Err(error) => {
                tracing::warn!(%error, again_in = ?RETRY_INTERVAL, "cannot list the kinds of the API");
            }
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// The kinds of these names; all of them without names.
pub(crate) fn select(names: &[String], offered: Vec<Kind>) -> Result<Vec<Kind>, UnknownKind> {
    if names.is_empty() {
        return Ok(offered);
    }
    let find = |name: &String| {
        let fits = |kind: &&Kind| [&kind.kind, &kind.plural].iter().any(|one| one.eq_ignore_ascii_case(name));
        offered.iter().find(fits).cloned().ok_or_else(|| UnknownKind {
            name: name.clone(),
            offered: offered.iter().map(|kind| kind.plural.as_str()).collect::<Vec<_>>().join(", "),
        })
    };
    names.iter().map(find).collect()
}

/// Consumes events until `stop`, then waits for running work, and requeues events whose work does not end in time.
pub(crate) async fn consume<F>(
    mut subscription: Subscription,
    work: impl Fn(Delivery, CancellationToken) -> F + Send + 'static,
    gate: Gate,
    stop: CancellationToken,
    grace: Duration,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut running, cancelled) = (JoinSet::new(), CancellationToken::new());
    let mut next = async || {
        gate.opened().await;
        subscription.next().await
    };
    while let Some(Some(delivery)) = stop.run_until_cancelled(next()).await {
        while running.try_join_next().is_some() {}
        running.spawn(work(delivery, cancelled.clone()));
    }
    // Prefetched events are requeued at once for other processes.
    tokio::join!(subscription.drain(), async {
        if tokio::time::timeout(grace, finished(&mut running)).await.is_err() {
            tracing::info!("work did not end in time; its events are requeued");
            cancelled.cancel();
            finished(&mut running).await;
        }
    });
}

async fn finished(work: &mut JoinSet<()>) {
    while work.join_next().await.is_some() {}
}
