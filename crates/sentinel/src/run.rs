//! A running Sentinel: one keeper a kind, one for the leases, and one that asks how the broker is. It stops in the
//! reverse order: first no new event, then those on their way, then the leases, so that nobody else begins before.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_client::{Client, Error, Retry, Settings};
use hyperfleet_events::Broker;
use hyperfleet_service::health::Health;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Work;
use crate::keepers::Keepers;
use crate::lease::LeaseKeeper;
use crate::metrics::Metrics;
use crate::shares::Held;
use crate::surroundings::Surroundings;

const ASK_BROKER: Duration = Duration::from_secs(5);

/// What a Sentinel is made of.
#[derive(Debug)]
pub struct Parts {
    /// Who publishes, and with whom the work is shared.
    pub name: String,
    /// This replica.
    pub replica: String,
    /// How the API is reached.
    pub api: Settings,
    /// What is looked after, and how.
    pub work: Work,
    /// Who carries the events.
    pub broker: Broker,
    /// Where it counts.
    pub metrics: Metrics,
    /// Whom it tells how things are; with [`CHECKS`](crate::CHECKS).
    pub health: Health,
    /// Time for events on their way at shutdown.
    pub grace: Duration,
}

/// Runs until `stop`, and drains.
///
/// # Errors
/// When the settings of the API are of no use. What fails later is tried again for ever.
pub async fn run(parts: Parts, stop: CancellationToken) -> Result<(), Error> {
    let client = Client::new(parts.api.clone())?;
    let for_leases = Client::new(Settings { retry: Retry::NEVER, ..parts.api })?;
    let around = Surroundings {
        client,
        broker: parts.broker,
        source: parts.name.as_str().into(),
        work: Arc::new(parts.work),
        metrics: parts.metrics,
        health: parts.health,
        returned: Arc::default(),
        kinds: Arc::default(),
        troubles: Arc::default(),
    };
    let (tell, held) = watch::channel(Held::NOTHING);
    let leases = LeaseKeeper::new(for_leases, &parts.name, &parts.replica, tell, around.clone());
    let end_leases = CancellationToken::new();
    let leases = tokio::spawn(leases.run(end_leases.clone()));
    let broker = tokio::spawn(ask_broker(around.clone()));

    let mut keepers = Keepers::new(around, held, stop.clone());
    keepers.keep().await;
    if tokio::time::timeout(parts.grace, keepers.drain()).await.is_err() {
        tracing::warn!("events were still on their way; they are published again after the next start");
    }
    end_leases.cancel();
    let _ = leases.await;
    broker.abort();
    Ok(())
}

/// Asks how the broker is, also while there is nothing to publish.
async fn ask_broker(around: Surroundings) {
    let mut ticks = tokio::time::interval(ASK_BROKER);
    loop {
        ticks.tick().await;
        let health = around.broker.health().await;
        around.broker("health", health.as_ref().copied());
    }
}
