//! The Sentinel as a process: listeners for health and metrics, the broker, and a drain at shutdown. Liveness depends on
//! nothing but the process.

use std::net::SocketAddr;
use std::sync::Arc;

use hyperfleet_events::Broker;
use hyperfleet_service::health::{self, Health};
use hyperfleet_service::listener::{BindError, ListenerOptions};
use hyperfleet_service::metrics;
use hyperfleet_service::shutdown::{Shutdown, Signals};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::context::CHECKS;
use crate::metrics::Metrics;
use crate::run::{Parts, run};

/// Why the Sentinel could not start. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The broker's settings are invalid.
    #[error(transparent)]
    Broker(#[from] hyperfleet_events::BrokerError),
    /// The API's settings are invalid.
    #[error(transparent)]
    Api(#[from] hyperfleet_client::Error),
}

/// Where a running Sentinel listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Health.
    pub health: Vec<SocketAddr>,
    /// Metrics.
    pub metrics: Vec<SocketAddr>,
}

/// Runs until the first signal, and drains. `ready` is called once everything listens.
pub async fn serve(
    config: &Config,
    signals: &mut Signals,
    ready: impl FnOnce(&Addresses),
) -> Result<(), StartError> {
    let mut registry = Registry::default();
    metrics::register_process(&mut registry);
    let counted = Metrics::default();
    counted.register(&mut registry);
    let broker_metrics = hyperfleet_events::Metrics::default();
    broker_metrics.register(&mut registry);
    let health = Health::new(CHECKS);
    let options = || ListenerOptions { max_connections: 256, ..ListenerOptions::default() };
    let health_listener = config.health.open("health", options()).await?;
    let metrics_listener = config.metrics.open("metrics", options()).await?;
    let addresses = Addresses {
        health: health_listener.addresses().to_vec(),
        metrics: metrics_listener.addresses().to_vec(),
    };
    let broker = Broker::open(&config.broker, broker_metrics).await?;
    let listeners_down = Shutdown::new();
    let listeners = [
        tokio::spawn(health_listener.serve(health::router(health.clone()), listeners_down.clone())),
        tokio::spawn(metrics_listener.serve(metrics::router(Arc::new(registry)), listeners_down.clone())),
    ];
    tracing::info!(
        name = config.name,
        replica = config.replica,
        api = config.api.base_url,
        broker = broker.kind(),
        "starting"
    );
    let parts = Parts {
        name: config.name.clone(),
        replica: config.replica.clone(),
        api: config.api.clone(),
        work: config.work.clone(),
        broker,
        metrics: counted,
        health: health.clone(),
        grace: config.shutdown_timeout,
    };
    let stop = CancellationToken::new();
    let mut sentinel = tokio::spawn(run(parts, stop.clone()));
    ready(&addresses);
    let ended = tokio::select! {
        ended = &mut sentinel => ended,
        signal = signals.next() => {
            health.drain();
            tracing::info!(signal = %signal, "draining");
            stop.cancel();
            sentinel.await
        }
    };
    listeners_down.begin();
    for listener in listeners {
        let _ = listener.await;
    }
    tracing::info!("stopped");
    ended.unwrap_or(Ok(())).map_err(StartError::from)
}
