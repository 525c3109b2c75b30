//! What every task of a Sentinel shares: how it reaches the API and the broker, where it counts, and whom it tells how
//! the two are. A dependency fails as long as one task says so.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use hyperfleet_client::{Client, Error};
use hyperfleet_events::{Broker, BrokerError};
use hyperfleet_service::health::Health;
use tokio::sync::Notify;

use crate::config::Work;
use crate::metrics::{Metrics, OfError};

/// The checks of a Sentinel's readiness.
pub const CHECKS: [&str; 3] = [API, BROKER, SHARE];
const API: &str = "api";
const BROKER: &str = "broker";
const SHARE: &str = "share";

/// What every task shares.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) client: Client,
    pub(crate) broker: Broker,
    pub(crate) source: Arc<str>,
    pub(crate) work: Arc<Work>,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    /// A watch came up, or a kind is not there: perhaps the server is another than before.
    pub(crate) returned: Arc<Notify>,
    /// How many kinds are looked after.
    pub(crate) kinds: Arc<AtomicU32>,
    pub(crate) troubles: Arc<Mutex<BTreeMap<(&'static str, String), String>>>,
}

impl Surroundings {
    /// The API answered, or did not.
    pub(crate) fn api(&self, who: &str, outcome: Result<(), &Error>) {
        if let Err(error) = outcome {
            self.metrics.api_errors.get_or_create(&OfError { error_type: api_error(error) }).inc();
            tracing::debug!(who, error = %error, "the API did not answer well");
        }
        self.tell(API, who, outcome.map_err(describe));
    }

    /// The broker took something, or did not.
    pub(crate) fn broker(&self, who: &str, outcome: Result<(), &BrokerError>) {
        if let Err(error) = outcome {
            self.metrics.broker_errors.get_or_create(&OfError { error_type: error.kind() }).inc();
        }
        self.tell(BROKER, who, outcome.map_err(ToString::to_string));
    }

    /// What this one said does not count any more.
    pub(crate) fn forget(&self, who: &str) {
        for check in [API, BROKER] {
            self.tell(check, who, Ok(()));
        }
    }

    /// This replica has begun with its share. Until then one that it replaces should stay, or there is a long gap;
    /// should it lapse later, that is the API's trouble.
    pub(crate) fn has_begun(&self) {
        self.health.set(SHARE, Ok::<(), String>(()));
    }

    fn tell(&self, check: &'static str, who: &str, outcome: Result<(), String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => drop(troubles.remove(&(check, who.to_owned()))),
            Err(why) => drop(troubles.insert((check, who.to_owned()), why)),
        }
        let first = troubles.iter().find(|((of, _), _)| *of == check).map(|(_, why)| why.clone());
        drop(troubles);
        self.health.set(check, first.map_or(Ok(()), Err));
    }
}

/// Of a small fixed set.
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

/// For anyone who asks for readiness: no address and nothing of the answer.
fn describe(error: &Error) -> String {
    match error {
        Error::Problem(problem) => format!("the API answers {}", problem.status),
        Error::Unreachable { .. } => "the API cannot be reached".to_owned(),
        Error::TimedOut { .. } => "the API does not answer in time".to_owned(),
        _ => "the API gives an answer that cannot be read".to_owned(),
    }
}
