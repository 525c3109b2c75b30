//! Liveness and readiness. Whoever watches a dependency says here how it is; a probe only reads that, so
//! it never waits for the database and never adds to its load. Reasons are shown to anyone who asks:
//! callers pass safe texts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyperfleet_core::{Error, ErrorKind};
use serde::Serialize;
use serde_json::{Map, json};

use crate::problem::{Failed, Members};
use crate::surface;

/// How one thing that the service depends on is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "reason", rename_all = "snake_case")]
pub enum Check {
    /// Not known yet.
    Pending,
    /// It works.
    Ok,
    /// It does not, and why.
    Failing(String),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Ok => f.write_str("ok"),
            Self::Failing(reason) => f.write_str(reason),
        }
    }
}

/// The health of the process. Clones share it.
#[derive(Debug, Clone)]
pub struct Health(Arc<RwLock<Known>>);

#[derive(Debug)]
struct Known {
    checks: BTreeMap<&'static str, Check>,
    draining: bool,
}

impl Health {
    /// A process that is ready once all these checks are [`Check::Ok`].
    pub fn new(checks: impl IntoIterator<Item = &'static str>) -> Self {
        let checks = checks.into_iter().map(|name| (name, Check::Pending)).collect();
        Self(Arc::new(RwLock::new(Known { checks, draining: false })))
    }

    /// Says how `check` is. Changes are logged, repetitions are not.
    pub fn set<E: Into<String>>(&self, check: &'static str, outcome: Result<(), E>) {
        let now = match outcome {
            Ok(()) => Check::Ok,
            Err(reason) => Check::Failing(reason.into()),
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.checks.insert(check, now.clone());
        drop(known);
        match (before, now) {
            (before, now) if before.as_ref() == Some(&now) => {}
            (_, Check::Failing(reason)) => tracing::warn!(check, reason, "health check fails"),
            (Some(Check::Failing(_)), _) => tracing::info!(check, "health check recovered"),
            _ => tracing::debug!(check, "health check passes"),
        }
    }

    /// The process is stopping: from here on it is not ready, whatever the checks say.
    pub fn drain(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).draining = true;
    }

    /// Whether the process is stopping.
    pub fn is_draining(&self) -> bool {
        self.read(|known| known.draining)
    }

    /// Whether requests can be served.
    pub fn is_ready(&self) -> bool {
        self.read(Known::is_ready)
    }

    /// Why requests cannot be served, in one sentence; nothing when they can.
    pub fn not_ready_because(&self) -> Option<String> {
        self.read(Known::not_ready_because)
    }

    fn read<T>(&self, view: impl FnOnce(&Known) -> T) -> T {
        view(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    fn is_ready(&self) -> bool {
        !self.draining && self.checks.values().all(|check| *check == Check::Ok)
    }

    fn not_ready_because(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        if self.draining {
            return Some("draining: the service is shutting down".to_owned());
        }
        let failing = self.checks.iter().filter(|(_, check)| **check != Check::Ok);
        Some(failing.map(|(name, check)| format!("{name}: {check}")).collect::<Vec<_>>().join("; "))
    }
}

/// `GET /healthz` and `GET /readyz`.
pub fn router(health: Health) -> Router {
    surface::complete(
        Router::new()
            .route("/healthz", get(healthz))
            .route("/healthz/", get(healthz))
            .route("/readyz", get(readyz))
            .route("/readyz/", get(readyz))
            .with_state(health),
    )
}

async fn healthz() -> Response {
    answer(&json!({"status": "ok"}))
}

async fn readyz(State(health): State<Health>) -> Response {
    let (because, draining, checks) =
        health.read(|known| (known.not_ready_because(), known.draining, json!(known.checks)));
    let Some(because) = because else {
        return answer(&json!({"status": "ok", "checks": checks}));
    };
    let kind = if draining { ErrorKind::Overloaded } else { ErrorKind::DependencyUnavailable };
    let members = Map::from_iter([("checks".to_owned(), checks), ("draining".to_owned(), json!(draining))]);
    let mut response = Failed::from(Error::new(kind, because)).into_response();
    response.extensions_mut().insert(Members(members));
    response
}

fn answer(body: &serde_json::Value) -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Result<(), &str> = Ok(());

    #[test]
    fn ready_means_every_check_passes_and_no_drain_began() {
        let health = Health::new(["database", "migrations"]);
        assert_eq!(health.not_ready_because().as_deref(), Some("database: pending; migrations: pending"));
        health.set("database", FINE);
        assert_eq!(health.not_ready_because().as_deref(), Some("migrations: pending"));
        health.set("migrations", FINE);
        assert!(health.is_ready());
        health.set("database", Err("cannot be reached"));
        assert_eq!(health.not_ready_because().as_deref(), Some("database: cannot be reached"));
        health.set("database", FINE);
        assert!(health.is_ready());
        health.clone().drain();
        assert!(!health.is_ready());
        assert_eq!(health.not_ready_because().as_deref(), Some("draining: the service is shutting down"));
    }
}
