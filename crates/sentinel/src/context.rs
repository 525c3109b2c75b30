//! What the tasks of a Sentinel share: clients of API and broker, metrics, and health. A dependency is unhealthy while one
//! task reports a failure of it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use hyperfleet_client::{Client, Error};
use hyperfleet_events::{Broker, BrokerError};
use hyperfleet_service::health::Health;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::config::Work;
use crate::metrics::{Metrics, OfError};

/// The checks of a Sentinel's readiness.
pub const CHECKS: [&str; 3] = [API, BROKER, SHARE];
const API: &str = "api";
const BROKER: &str = "broker";
const SHARE: &str = "share";

/// What the tasks share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) broker: Broker,
    pub(crate) source: Arc<str>,
    pub(crate) work: Arc<Work>,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    /// Notified when a watch connects or a kind is missing: the API may have been restarted with other kinds.
    pub(crate) returned: Arc<Notify>,
    /// How many controllers run.
    pub(crate) kinds: Arc<AtomicU32>,
    pub(crate) failures: Arc<Mutex<BTreeMap<(&'static str, String), String>>>,
}

impl Context {
    /// By how many microseconds the API's clock is ahead of ours.
    pub(crate) fn api_ahead(&self) -> i64 {
        let ours = self.clock.now().micros();
        self.client.server_time().map_or(0, |theirs| theirs.micros() - ours)
    }

    /// Records the outcome of a request to the API.
    pub(crate) fn record_api(&self, who: &str, outcome: Result<(), &Error>) {
        if let Err(error) = outcome {
            self.metrics.api_errors.get_or_create(&OfError { error_type: api_error(error) }).inc();
            tracing::debug!(who, error = %error, "a request to the API failed");
        }
        self.set_health(API, who, outcome.map_err(describe));
    }

    /// Records the outcome of a publish.
    pub(crate) fn record_broker(&self, who: &str, outcome: Result<(), &BrokerError>) {
        if let Err(error) = outcome {
            self.metrics.broker_errors.get_or_create(&OfError { error_type: error.kind() }).inc();
        }
        self.set_health(BROKER, who, outcome.map_err(ToString::to_string));
    }

    /// Removes the failures of a task that ended.
    pub(crate) fn forget(&self, who: &str) {
        for check in [API, BROKER] {
            self.set_health(check, who, Ok(()));
        }
    }

    /// This replica owns its ranges. Until then a rolling update should not stop the one that it replaces. A lapse later on
    /// shows as a failure of the API.
    pub(crate) fn started(&self) {
        self.health.set(SHARE, Ok::<(), String>(()));
    }

    fn set_health(&self, check: &'static str, who: &str, outcome: Result<(), String>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => drop(failures.remove(&(check, who.to_owned()))),
            Err(why) => drop(failures.insert((check, who.to_owned()), why)),
        }
        let first = failures.iter().find(|((of, _), _)| *of == check).map(|(_, why)| why.clone());
        drop(failures);
        self.health.set(check, first.map_or(Ok(()), Err));
    }
}

/// A label of a small fixed set.
fn api_error(error: &Error) -> &'static str {
    match error {
        Error::Problem(problem) if problem.status >= 500 => "server_error",
        Error::Problem(problem) if problem.status == 429 => "rate_limited",
        Error::Problem(_) if error.is_denied() => "denied",
        Error::Problem(_) => "refused",
        Error::Unreachable { .. } => "unreachable",
        Error::TimedOut { .. } => "timeout",
        _ => "malformed",
    }
}

/// For the readiness endpoint, without addresses and answers of the API.
fn describe(error: &Error) -> String {
    match error {
        Error::Problem(problem) => format!("the API answers {}", problem.status),
        Error::Unreachable { .. } => "the API cannot be reached".to_owned(),
        Error::TimedOut { .. } => "the API does not answer in time".to_owned(),
        _ => "the API gives an answer that cannot be read".to_owned(),
    }
}
