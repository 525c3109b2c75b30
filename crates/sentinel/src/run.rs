//! A running Sentinel: a controller for each kind, the lease renewer, and a health check of the broker. It stops new events
//! first, then waits for events in flight, then releases the lease, so that no other replica begins before.

use std::sync::Arc;
use std::time::Duration;

use hyperfleet_client::{Client, Error, Retry, Settings};
use hyperfleet_events::Broker;
use hyperfleet_service::health::Health;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::Work;
use crate::context::Context;
use crate::controllers::Controllers;
use crate::lease::LeaseRenewer;
use crate::membership::Assignment;
use crate::metrics::Metrics;

const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The parts of a Sentinel.
#[derive(Debug)]
pub struct Parts {
    /// The source of events, and the group of replicas.
    pub name: String,
    /// This replica.
    pub replica: String,
    /// How the API is reached.
    pub api: Settings,
    /// What to publish events for, and how.
    pub work: Work,
    /// The broker.
    pub broker: Broker,
    /// Its metrics.
    pub metrics: Metrics,
    /// With [`CHECKS`](crate::CHECKS).
    pub health: Health,
    /// Time for events in flight at shutdown.
    pub grace: Duration,
}

/// Runs until `stop`, and drains.
///
/// # Errors
/// When the settings of the API are invalid. Later failures are retried.
pub async fn run(parts: Parts, stop: CancellationToken) -> Result<(), Error> {
    let client = Client::new(parts.api.clone())?;
    let for_leases = Client::new(Settings { retry: Retry::NEVER, ..parts.api })?;
    let context = Context {
        client,
        clock: Clock::start(),
        broker: parts.broker,
        source: parts.name.as_str().into(),
        work: Arc::new(parts.work),
        metrics: parts.metrics,
        health: parts.health,
        returned: Arc::default(),
        kinds: Arc::default(),
        failures: Arc::default(),
    };
    let (tell, assignment) = watch::channel(Assignment::NOTHING);
    let leases = LeaseRenewer::new(for_leases, &parts.name, &parts.replica, tell, context.clone());
    let end_leases = CancellationToken::new();
    let leases = tokio::spawn(leases.run(end_leases.clone()));
    let broker = tokio::spawn(check_broker(context.clone()));

    let mut controllers = Controllers::new(context, assignment, stop.clone());
    controllers.keep().await;
    if tokio::time::timeout(parts.grace, controllers.drain()).await.is_err() {
        tracing::warn!("stopping with events in flight; they are published again after the next start");
    }
    end_leases.cancel();
    let _ = leases.await;
    broker.abort();
    Ok(())
}

/// Checks the broker while there is nothing to publish.
async fn check_broker(context: Context) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        ticks.tick().await;
        let health = context.broker.health().await;
        context.record_broker("health", health.as_ref().copied());
    }
}
