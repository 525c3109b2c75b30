//! A running adapter: listeners for health and metrics, the broker, the targets, and a drain at shutdown. Liveness depends
//! on nothing but the process.

mod driver;
mod lanes;
mod metrics;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyperfleet_client::Client;
use hyperfleet_events::Broker;
use hyperfleet_service::health::{self, Health};
use hyperfleet_service::listener::{BindError, ListenerOptions};
use hyperfleet_service::settings;
use hyperfleet_service::shutdown::{Shutdown, Signals};
use prometheus_client::registry::Registry;
use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use driver::Driver;
pub use metrics::Metrics;

use crate::config::Config;
use crate::engine::Program;
use crate::intake::{self, Gate, UnknownKind};
use crate::targets::TargetError;
use crate::task::{TargetClient, Task};
use lanes::Lanes;

const CHECKS: [&str; 4] = ["subscription", "api", "broker", "targets"];
/// Time between two looks at what the adapter depends on.
const PROBES: Duration = Duration::from_secs(5);

/// Why an adapter could not start. The text is for the operator.
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
    /// The server does not have a kind.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// The settings of a target are invalid.
    #[error("{0}")]
    Target(TargetError),
    /// The task needs a target that there is not.
    #[error("the task uses the transport client maestro, which this version does not have; use kubernetes")]
    Maestro,
}

/// Where a running adapter listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Health.
    pub health: Vec<SocketAddr>,
    /// Metrics.
    pub metrics: Vec<SocketAddr>,
}

impl Program {
    /// The program of a task under a configuration. `environment` is that of the process.
    pub fn new(config: &Config, task: Task, environment: &BTreeMap<String, String>) -> Self {
        let named = task.environment().iter().chain(&config.environment);
        let environment =
            named.filter_map(|name| Some((name.clone(), Value::from(environment.get(name)?.as_str()))));
        Self {
            adapter: config.name.clone(),
            version: config.version.clone(),
            config: config.as_value(),
            environment: environment.collect::<Map<_, _>>(),
            base_url: config.api.base_url.clone(),
            api_version: config.api_version.clone(),
            guards_finalized: config.guards_finalized,
            task,
        }
    }
}

impl Driver {
    /// Connects to what a task needs.
    ///
    /// # Errors
    /// When a target is not configured as it must be. One that is away is no error.
    pub async fn connect(
        config: &Config,
        client: Client,
        task: &Task,
        file: &Path,
    ) -> Result<Self, StartError> {
        if task.uses(TargetClient::Maestro) {
            return Err(StartError::Maestro);
        }
        Ok(Self {
            client,
            adapter: config.name.clone(),
            attempts: config.api.retry.attempts,
            backoff: config.backoff,
            first_pause: config.api.retry.first_pause,
            longest_pause: config.api.retry.longest_pause,
            timeout: config.api.timeout,
            file_roots: config.roots_of(file),
            types: task.object_types(),
            #[cfg(feature = "kubernetes")]
            kubernetes: match task.uses(TargetClient::Kubernetes) {
                true => {
                    let settings = config.kubernetes();
                    let connected = crate::targets::kubernetes::Kubernetes::connect(&settings).await;
                    Some(connected.map_err(StartError::Target)?)
                }
                false => None,
            },
        })
    }

    /// Whether every target answers.
    async fn probe(&self) -> Result<(), String> {
        #[cfg(feature = "kubernetes")]
        if let Some(kubernetes) = &self.kubernetes {
            return kubernetes.probe().await.map_err(|error| format!("kubernetes: {}", error.reason));
        }
        Ok(())
    }
}

/// Runs until the first signal, and drains. `ready` is called once everything listens.
pub async fn serve(
    config: &Config,
    task: Task,
    file: &Path,
    signals: &mut Signals,
    ready: impl FnOnce(&Addresses),
) -> Result<(), StartError> {
    let mut registry = Registry::default();
    hyperfleet_service::metrics::register_process(&mut registry);
    let metrics = Metrics::default();
    metrics.register(&mut registry, &config.name, env!("CARGO_PKG_VERSION"));
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
    let client = Client::new(config.api.clone())?;
    let driver = Driver::connect(config, client.clone(), &task, file).await?;
    let program = Program::new(config, task, &settings::environment());
    let listeners_down = Shutdown::new();
    let listeners = [
        tokio::spawn(health_listener.serve(health::router(health.clone()), listeners_down.clone())),
        tokio::spawn(
            metrics_listener
                .serve(hyperfleet_service::metrics::router(Arc::new(registry)), listeners_down.clone()),
        ),
    ];
    tracing::info!(
        adapter = config.name,
        task = %file.display(),
        api = client.base_url(),
        broker = broker.kind(),
        subscription = config.subscription,
        "starting"
    );
    ready(&addresses);
    let parts = Running {
        program: Arc::new(program),
        driver,
        client,
        broker,
        subscription: config.subscription.clone(),
        topic: config.topic.clone(),
        kinds: config.kinds.clone(),
        deadline: config.deadline,
        grace: config.shutdown_timeout,
        metrics,
        health: health.clone(),
    };
    let stop = CancellationToken::new();
    let running = run(parts, stop.clone());
    tokio::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => ended,
        signal = signals.next() => {
            health.drain();
            tracing::info!(signal = %signal, "draining");
            stop.cancel();
            running.await
        }
    };
    listeners_down.begin();
    for listener in listeners {
        let _ = listener.await;
    }
    tracing::info!("stopped");
    ended.map_err(StartError::from)
}

/// The parts of a running adapter.
#[derive(Debug)]
pub struct Running {
    /// What to do.
    pub program: Arc<Program>,
    /// The world.
    pub driver: Driver,
    /// The API.
    pub client: Client,
    /// The broker of events.
    pub broker: Broker,
    /// The subscription.
    pub subscription: String,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Kinds to work on when there is no topic; empty for all.
    pub kinds: Vec<String>,
    /// Time for one execution.
    pub deadline: Duration,
    /// Time for work under way at shutdown.
    pub grace: Duration,
    /// What is counted.
    pub metrics: Metrics,
    /// Where readiness is told.
    pub health: Health,
}

/// Takes events until `stop`, and finishes its work.
pub async fn run(parts: Running, stop: CancellationToken) -> Result<(), UnknownKind> {
    let topics = match &parts.topic {
        Some(topic) => BTreeSet::from([topic.clone()]),
        None => {
            let Some(offered) = stop.run_until_cancelled(intake::kinds(&parts.client)).await else {
                return Ok(());
            };
            let kinds = intake::select(&parts.kinds, offered)?;
            kinds.iter().map(|kind| format!("hyperfleet-{}", kind.plural)).collect()
        }
    };
    let gate = Gate::default();
    let options = parts.broker.options();
    let lanes = Arc::new(Lanes {
        program: parts.program,
        driver: parts.driver,
        client: parts.client,
        attempts: options.max_deliveries,
        deadline: parts.deadline,
        gate: gate.clone(),
        metrics: parts.metrics,
        memory: Mutex::new(HashMap::new()),
        stop: stop.clone(),
    });
    let (health, broker) = (parts.health, parts.broker);
    let mut others = JoinSet::new();
    others.spawn(probe(lanes.clone(), health.clone(), broker.clone()));
    #[cfg(feature = "kubernetes")]
    others.spawn(watch(lanes.clone()));
    let mut subscriptions = Vec::new();
    for topic in &topics {
        let name = intake::subscription_name(&broker, topic, &parts.subscription);
        let mut subscription = broker.subscribe(topic, &name, options.clone());
        if stop.run_until_cancelled(subscription.ready()).await.is_none() {
            return Ok(());
        }
        tracing::info!(adapter = lanes.program.adapter, topic, subscription = name, "subscribed");
        subscriptions.push(subscription);
    }
    health.set("subscription", Ok::<(), String>(()));
    lanes.metrics.up.set(1);
    let mut consumers = JoinSet::new();
    for subscription in subscriptions {
        let lanes = lanes.clone();
        let work = move |delivery, cancelled| lanes.clone().handle(delivery, cancelled);
        consumers.spawn(intake::consume(subscription, work, gate.clone(), stop.clone(), parts.grace));
    }
    while consumers.join_next().await.is_some() {}
    lanes.metrics.up.set(0);
    Ok(())
}

/// Tells readiness what the adapter depends on.
async fn probe(lanes: Arc<Lanes>, health: Health, broker: Broker) {
    loop {
        health.set("api", lanes.client.metadata().await.map(drop).map_err(|error| error.to_string()));
        health.set("broker", broker.health().await.map_err(|error| error.to_string()));
        health.set("targets", lanes.driver.probe().await);
        tokio::time::sleep(PROBES).await;
    }
}

/// Looks at resources whose objects moved.
#[cfg(feature = "kubernetes")]
async fn watch(lanes: Arc<Lanes>) {
    use crate::targets::kubernetes::{Kind, What};

    /// Changes that come close together are one.
    const DEBOUNCE: Duration = Duration::from_millis(100);
    let Some(kubernetes) = lanes.driver.kubernetes.clone() else { return };
    let types = lanes.driver.types.iter();
    let kinds: Vec<_> = types
        .map(|(api_version, kind)| Kind { api_version: api_version.clone(), kind: kind.clone() })
        .collect();
    let mut watches = match kubernetes.watch(&kinds, &lanes.program.adapter) {
        Ok(watches) => watches,
        Err(error) => {
            tracing::warn!(%error, "objects cannot be watched; they are looked at with each event");
            return;
        }
    };
    while let Some(change) = watches.changes.recv().await {
        // What was there when the watch began is looked at with its next event.
        if !matches!(change.what, What::Listed { .. }) && !kubernetes.has_seen(&change) {
            lanes.look_again(change.owner.resource_id.to_string(), DEBOUNCE);
        }
    }
}
