//! Verification in the background: one replica at a time, which holds a lease, verifies the database at every interval.
//! What it finds is in the log and in metrics; readiness tells of damaged pages alone.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hyperfleet_core::rules::Rulebook;
use hyperfleet_core::{AccessScope, Claim, ExpectedVersion, Lease, ResourceId, Timestamp};
use hyperfleet_store::Store;
use hyperfleet_verify::{CHECKS, Verification, verify};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// How long the lease is held without being renewed, and how often it is renewed.
const TTL: Duration = Duration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(20);

/// The group and the name of the lease.
const LEASE: &str = "verify";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    check: &'static str,
}

/// The metrics of the replica that verifies.
#[derive(Debug, Clone, Default)]
pub(crate) struct VerifyMetrics {
    last_run: Gauge<f64, AtomicU64>,
    duration: Gauge<f64, AtomicU64>,
    findings: Family<CheckLabels, Gauge>,
}

impl VerifyMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let verify = registry.sub_registry_with_prefix("hyperfleet_verify");
        verify.register(
            "last_run_timestamp_seconds",
            "When this replica last verified the database; 0 for never",
            metrics.last_run.clone(),
        );
        verify.register(
            "duration_seconds",
            "How long the last verification by this replica took",
            metrics.duration.clone(),
        );
        verify.register(
            "findings",
            "Findings of the last verification by this replica",
            metrics.findings.clone(),
        );
        metrics
    }

    fn set(&self, verification: &Verification, took: Duration) {
        self.last_run.set(Timestamp::now().micros() as f64 / 1e6);
        self.duration.set(took.as_secs_f64());
        for check in CHECKS {
            let count = verification.findings.checks.get(check).copied().unwrap_or_default();
            self.findings.get_or_create(&CheckLabels { check }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Another replica's findings count from now on.
    fn clear(&self) {
        self.findings.clear();
        self.last_run.set(0.0);
    }
}

/// Verifies at every interval for as long as this replica holds the lease.
pub(crate) async fn verify_regularly(
    store: Store,
    rulebook: Arc<Rulebook>,
    interval: Option<Duration>,
    metrics: VerifyMetrics,
) {
    let Some(interval) = interval else { return };
    let holder = format!("verify-{}", ResourceId::generate());
    let (mut lease, mut due) = (None, Instant::now());
    loop {
        lease = hold(&store, &holder, lease).await;
        if lease.is_none() {
            metrics.clear();
            due = Instant::now();
        } else if due <= Instant::now() {
            due = Instant::now() + interval;
            let run = run(&store, &rulebook, &metrics);
            tokio::pin!(run);
            loop {
                tokio::select! {
                    () = &mut run => break,
                    () = tokio::time::sleep(RENEWAL) => lease = hold(&store, &holder, lease).await,
                }
            }
        }
        let pause = due.saturating_duration_since(Instant::now()).min(RENEWAL);
        let pause = if lease.is_some() { pause } else { RENEWAL.min(interval) };
        tokio::time::sleep(pause).await;
    }
}

/// Renews the lease, or acquires it once it is free.
async fn hold(store: &Store, holder: &str, held: Option<Lease>) -> Option<Lease> {
    let expected = held
        .map(|lease| ExpectedVersion::Tags { strong: vec![lease.version.0.to_string()], weak: Vec::new() });
    let (group, name) = (LEASE.to_owned(), LEASE.to_owned());
    let claim = Claim { group, name, holder: holder.to_owned(), ttl: TTL, expected };
    match store.claim(&AccessScope::everything(), &claim).await {
        Ok(lease) => Some(lease),
        Err(error) => {
            tracing::debug!(error = error.chain(), "another replica verifies the database");
            None
        }
    }
}

async fn run(store: &Store, rulebook: &Arc<Rulebook>, metrics: &VerifyMetrics) {
    let begun = Instant::now();
    let inspector = store.inspector();
    let verification = match verify(&inspector, rulebook, |_| {}).await {
        Ok(verification) => verification,
        Err(error) => {
            tracing::warn!(%error, "cannot verify the database");
            return;
        }
    };
    let took = begun.elapsed();
    metrics.set(&verification, took);
    for finding in &verification.findings.findings {
        tracing::error!(
            check = finding.check,
            table = finding.table,
            id = finding.id,
            expected = finding.expected,
            found = finding.found,
            "the database is damaged"
        );
    }
    let findings: u64 = verification.findings.checks.values().sum();
    tracing::info!(findings, duration_ms = took.as_millis() as u64, "verified the database");
    if inspector.is_sqlite()
        && let Some(finding) = verification.findings.of("storage")
    {
        store.stop_writes(&finding.found);
    }
}
