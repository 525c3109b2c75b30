//! A running Sentinel: one keeper a kind, one for the leases, and one that asks how the broker is. It stops in the
//! reverse order: first no new event, then those on their way, then the leases, so that nobody else begins before.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_client::{Client, Error, Retry, Settings};
use hyperfleet_core::Timestamp;
use hyperfleet_events::Broker;
use hyperfleet_service::health::Health;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::after_failures;
use crate::config::Work;
use crate::keeper::Keeper;
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
        troubles: Arc::default(),
    };
    let (tell, held) = watch::channel(Held::NOTHING);
    let leases = LeaseKeeper::new(for_leases, &parts.name, &parts.replica, tell, around.clone());
    let end_leases = CancellationToken::new();
    let leases = tokio::spawn(leases.run(end_leases.clone()));
    let broker = tokio::spawn(ask_broker(around.clone()));

    let mut keepers = JoinSet::new();
    if let Some(kinds) = kinds(&around, &stop).await {
        tracing::info!(resource_types = kinds.join(","), topic = around.work.topic, "looks after");
        for plural in kinds {
            keepers.spawn(Keeper::new(&plural, around.clone(), held.clone()).run(stop.clone()));
        }
    }
    stop.cancelled().await;
    let drained = async { while keepers.join_next().await.is_some() {} };
    if tokio::time::timeout(parts.grace, drained).await.is_err() {
        tracing::warn!("events were still on their way; they are published again after the next start");
    }
    end_leases.cancel();
    let _ = leases.await;
    broker.abort();
    Ok(())
}

/// What to look after. Nothing when it is time to stop before the API has told.
async fn kinds(around: &Surroundings, stop: &CancellationToken) -> Option<Vec<String>> {
    if let Some(kinds) = &around.work.kinds {
        return Some(kinds.clone());
    }
    let mut failures = 0;
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return None,
            asked = around.client.kinds() => asked,
        };
        around.api("kinds", asked.as_ref().map(|_| ()));
        let error = match asked {
            Ok(kinds) => return Some(kinds.into_iter().map(|kind| kind.plural).collect()),
            Err(error) => error,
        };
        failures += 1;
        let chance = f64::from(Timestamp::now().micros() as u8) / 255.0;
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(after_failures(failures, chance, error.retry_after())) => {}
        }
    }
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
