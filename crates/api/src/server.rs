//! The API as a process: opens the store and the three listeners, watches the database, and drains at shutdown. Health
//! is served from the beginning of the start to the end of the drain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyperfleet_auth::{KeyMetrics, RefreshSchedule, Verifier};
use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{Error, ResponseBudget, SpecSchemas};
use hyperfleet_service::build_info::BuildInfo;
use hyperfleet_service::health::{self, Health};
use hyperfleet_service::listener::{BindError, ListenerOptions};
use hyperfleet_service::metrics;
use hyperfleet_service::settings::Sources;
use hyperfleet_service::shutdown::{Shutdown, Signals};
use hyperfleet_store::{Metrics, OpenError, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::allowed_hosts::AllowedHosts;
use crate::app::{App, Parts};
use crate::coalesced_reads::CoalescedReads;
use crate::config::{Access, Config};
use crate::gate::{ConcurrencyLimiter, Gate};
use crate::observe::Observer;
use crate::open_files;
use crate::page_token::TokenSigner;
use crate::response_body;
use crate::router;
use crate::spec_check;
use crate::verify::{VerifyMetrics, verify_regularly};
use crate::watch::{Channels, WatchMetrics};

const DATABASE: &str = "database";
const CLOCK: &str = "clock";

/// With the time of a ping, a replica that is cut off turns unready within three seconds.
const PING_INTERVAL: Duration = Duration::from_millis(500);
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// Why the API could not start. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The spec schemas cannot be used.
    #[error("the configuration has faults:\n{0}")]
    Schemas(String),
    /// A signal came before the server was up.
    #[error("stopped by {0} before the start was complete")]
    Interrupted(hyperfleet_service::shutdown::Signal),
}

/// Where a running server listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The API.
    pub api: Vec<SocketAddr>,
    /// Health.
    pub health: Vec<SocketAddr>,
    /// Metrics.
    pub metrics: Vec<SocketAddr>,
}

/// A running server, for components in the same process.
#[derive(Debug)]
pub struct Started {
    /// Where it listens.
    pub addresses: Addresses,
    /// The router with every check. A component can call it without a socket, under the same rules as any caller.
    pub router: Router,
}

/// The options of the store from the configuration.
pub fn store_options(config: &Config) -> Options {
    let pool = &config.database.pool;
    Options {
        backend: config.database.backend().clone(),
        max_connections: pool.max_connections,
        request_timeout: pool.request_timeout,
        connect_attempts: pool.conn_retry_attempts,
        connect_interval: pool.conn_retry_interval,
        queue_limit: config.server.limits.queue,
        migrate: config.database.migrate_at_start,
        tenants: config.access.tenancy.is_some(),
    }
}

/// Runs until the first signal, and drains. `ready` is called once everything listens. The future that it returns is
/// awaited at the signal, before the API stops, so that components in the same process can finish their requests. The
/// metrics endpoint also serves what the registry holds already.
pub async fn run<L: Future<Output = ()>>(
    config: &Config,
    build: BuildInfo,
    mut registry: Registry,
    signals: &mut Signals,
    ready: impl FnOnce(&Started) -> L,
) -> Result<(), StartError> {
    let rulebook = Arc::new(rulebook(config)?);
    let options = store_options(config);
    tracing::info!(database = %options.backend, kinds = rulebook.catalog.kinds().count(), "starting");
    metrics::register_process(&mut registry);
    let observer = Observer::register(&mut registry, &build);
    let concurrency = ConcurrencyLimiter::register(&mut registry, config.server.limits.requests_in_flight);
    let key_metrics = KeyMetrics::default();
    key_metrics.register(&mut registry);
    let store_metrics = Metrics::default();
    store_metrics.register(&mut registry);
    let verify_metrics = VerifyMetrics::register(&mut registry);
    let watch_metrics = WatchMetrics::register(&mut registry);
    let responses = ResponseBudget::new(config.server.limits.unsent_bytes);
    response_body::register(&mut registry, &responses);

    let health = Health::new([DATABASE]);
    let small = || ListenerOptions { max_connections: 256, ..ListenerOptions::default() };
    // Health answers in time however busy the process is, because its listener has a thread of its own.
    let alone = ListenerOptions { threads: 1, ..small() };
    let health_listener = config.health.bind.open("health", alone).await?;
    let metrics_listener = config.metrics.bind.open("metrics", small()).await?;
    let (api_down, rest_down) = (Shutdown::new(), Shutdown::new());
    let mut addresses = Addresses {
        api: Vec::new(),
        health: health_listener.addresses().to_vec(),
        metrics: metrics_listener.addresses().to_vec(),
    };
    let small_ones = [
        tokio::spawn(health_listener.serve(health::router(health.clone()), rest_down.clone())),
        tokio::spawn(metrics_listener.serve(metrics::router(Arc::new(registry)), rest_down.clone())),
    ];

    let store = tokio::select! {
        store = Store::open(&options, rulebook.clone(), store_metrics) => store?,
        signal = signals.next() => return Err(StartError::Interrupted(signal)),
    };
    let app = App::new(Parts {
        gate: gate(config, concurrency, &key_metrics, &rest_down)?,
        lists: CoalescedReads::default(),
        channels: Channels::default(),
        watch_metrics,
        shutdown: api_down.clone(),
        token_signer: TokenSigner::new(store.page_token_key()),
        store: store.clone(),
        rulebook: rulebook.clone(),
        health: health.clone(),
        build,
        body_limit: config.server.limits.body_bytes,
        page_limit: config.server.limits.response_bytes,
        responses,
        stuck_after: config.metrics.reconciliation_stuck_threshold,
        read_timeout: config.server.timeouts.read,
        long_checks: spec_check::permits(),
    });
    let api_options = ListenerOptions {
        read_timeout: config.server.timeouts.read,
        write_timeout: config.server.timeouts.write,
        max_connections: config.server.limits.connections,
        grace: config.health.shutdown_timeout,
        threads: Handle::current().metrics().num_workers(),
        ..ListenerOptions::default()
    };
    open_files::raise_limit(config.server.limits.connections + config.database.pool.max_connections);
    let api_listener = config.server.bind.open("api", api_options).await?;
    addresses.api = api_listener.addresses().to_vec();
    check_database(&store, &health, config.health.db_ping_timeout).await;
    let router = router::router(&app, observer, allowed_hosts(config));
    let api = tokio::spawn(api_listener.serve(router.clone(), api_down.clone()));
    let watch = tokio::spawn(watch_database(store.clone(), health.clone(), config.health.db_ping_timeout));
    let background = [
        tokio::spawn(prune_history(store.clone(), config.history.retention)),
        tokio::spawn(measure_pending(store.clone(), config.metrics.reconciliation_stuck_threshold)),
        tokio::spawn(verify_regularly(store.clone(), rulebook, config.verify_interval, verify_metrics)),
        tokio::spawn(check_pages(store.clone())),
        tokio::spawn(async move { store.recompute_conditions().await }),
        tokio::spawn(follow_roles(app.clone(), config.sources.clone())),
    ];
    let leave = ready(&Started { addresses, router });

    let signal = signals.next().await;
    health.drain();
    tracing::info!(signal = %signal, "draining");
    leave.await;
    api_down.begin();
    let cut = api.await.unwrap_or_default();
    watch.abort();
    background.iter().for_each(tokio::task::JoinHandle::abort);
    rest_down.begin();
    for task in small_ones {
        let _ = task.await;
    }
    tracing::info!(connections_cut = cut, "stopped");
    Ok(())
}

/// The rules of this configuration: its kinds and their compiled spec schemas.
pub fn rulebook(config: &Config) -> Result<Rulebook, StartError> {
    let document = config.server.openapi_schema_path.as_ref().map(|path| {
        let fault = |what: String| {
            StartError::Schemas(format!("  server.openapi_schema_path {}: {what}", path.display()))
        };
        let text =
            std::fs::read_to_string(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
        serde_saphyr::from_str::<Value>(&text)
            .map_err(|error| fault(format!("is neither YAML nor JSON: {error}")))
    });
    let document = document.transpose()?;
    let schemas = SpecSchemas::compile(&config.catalog, document.as_ref()).map_err(|faults| {
        StartError::Schemas(faults.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n"))
    })?;
    Ok(Rulebook {
        catalog: config.catalog.clone(),
        schemas,
        max_member_bytes: config.server.limits.body_bytes,
        contract: config.compatibility.contract,
        legacy_conditions: config.compatibility.legacy_conditions,
        tenancy: config.access.tenancy.is_some(),
        href_prefix: router::BASE,
        report_limits: config.server.limits.reports,
    })
}

/// The hosts that requests may name. Tokens protect what a foreign page can reach, so hosts matter without them.
fn allowed_hosts(config: &Config) -> AllowedHosts {
    if config.access.issuers.is_some() {
        return AllowedHosts::any();
    }
    let allowed = AllowedHosts::new(config.server.allowed_hosts.iter().cloned());
    match allowed.names() {
        Some(hosts) => tracing::info!(hosts, "no tokens are required; server.allowed_hosts adds hosts"),
        None => tracing::warn!("no tokens are required, and requests may name any host"),
    }
    allowed
}

/// The gate of this configuration.
fn gate(
    config: &Config,
    concurrency: Arc<ConcurrencyLimiter>,
    key_metrics: &KeyMetrics,
    shutdown: &Shutdown,
) -> Result<Gate, StartError> {
    let access = &config.access;
    let verifier = access.issuers.as_ref().map(|issuers| {
        Verifier::start(issuers, RefreshSchedule::default(), key_metrics, &shutdown.child()).map_err(
            |faults| {
                let faults = faults
                    .iter()
                    .map(|f| format!("  server.jwt.configs[{}].{}: {}", f.index, f.field, f.message));
                StartError::Schemas(faults.collect::<Vec<_>>().join("\n"))
            },
        )
    });
    Ok(Gate::new(
        concurrency,
        verifier.transpose()?,
        access.tenancy.clone(),
        access.policy.clone(),
        access.budgets,
    ))
}

/// Reloads the roles at every SIGHUP. Requests continue; a configuration with faults changes nothing.
async fn follow_roles(app: App, sources: Sources) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    while hangups.recv().await.is_some() {
        match Config::load(&sources) {
            // An empty file has no faults, and no roles either.
            Ok(Config { access: Access { policy: None, .. }, .. }) if app.gate.has_policy() => {
                tracing::error!("roles stay as they were: turning them off takes a restart");
            }
            Ok(config) => {
                app.gate.set_policy(config.access.policy);
                tracing::info!("roles were read again");
            }
            Err(faults) => {
                tracing::error!(error = %faults, "roles stay as they were: the configuration has faults");
            }
        }
    }
}

async fn watch_database(store: Store, health: Health, timeout: Duration) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    loop {
        ticks.tick().await;
        check_database(&store, &health, timeout).await;
    }
}

async fn check_database(store: &Store, health: &Health, timeout: Duration) {
    let answer = store.ping(timeout).await;
    health.set(DATABASE, answer.map_err(|error| error.detail));
    health.warn(CLOCK, store.clock_skew().map(skewed));
}

/// The warning of a process whose clock is that many seconds ahead. It serves on, because no time of it is stored.
fn skewed(seconds: f64) -> String {
    let (seconds, direction) = (seconds.abs().round(), if seconds > 0.0 { "ahead of" } else { "behind" });
    format!("the clock of this process is {seconds} s {direction} the database's, so it prunes nothing")
}

/// Updates the metrics of resources that wait for their adapters.
async fn measure_pending(store: Store, threshold: Duration) {
    let mut ticks = tokio::time::interval(MEASURE_INTERVAL);
    loop {
        ticks.tick().await;
        if let Err(error) = store.measure_pending(threshold).await {
            tracing::debug!(error = error.chain(), "cannot measure what waits");
        }
    }
}

/// Finds damaged pages of a SQLite file before a request comes upon them.
async fn check_pages(store: Store) {
    store.check_pages().await;
}

/// Keeps history to its retention and forgets old answers and leases, in small steps that never hold up a writer for long.
async fn prune_history(store: Store, retention: Duration) {
    // A short retention needs a short interval.
    let mut ticks = tokio::time::interval((retention / 10).clamp(Duration::from_secs(1), PRUNE_INTERVAL));
    loop {
        ticks.tick().await;
        if store.clock_skew().is_some() {
            continue;
        }
        while is_more("history", store.prune_history(retention).await) {}
        while is_more("idempotency records", store.prune_idempotency_records().await) {}
        while is_more("leases", store.prune_leases().await) {}
    }
}

/// Whether a step removed rows, so that another step may too.
fn is_more(what: &str, pruned: Result<u64, Error>) -> bool {
    match pruned {
        Ok(rows) => tracing::debug!(rows, "pruned {what}"),
        Err(ref error) => tracing::warn!(error = error.chain(), "cannot prune {what}"),
    }
    pruned.is_ok_and(|rows| rows > 0)
}
