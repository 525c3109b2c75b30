//! Liveness and readiness. The component that watches a dependency sets its check; a probe only reads the checks, so it
//! never waits for the database and adds no load to it. Reasons are public, so callers must pass texts without
//! internals.

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

use crate::fallbacks;
use crate::http_error::HttpError;
use crate::problem::Members;

/// The state of one dependency of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", content = "reason", rename_all = "snake_case")]
pub enum Check {
    /// Not state yet.
    Pending,
    /// The component works.
    Ok,
    /// The component works, but something is wrong.
    Warning(String),
    /// The component fails, with the reason.
    Failing(String),
}

impl Check {
    fn is_passed(&self) -> bool {
        matches!(self, Self::Ok | Self::Warning(_))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::Ok => f.write_str("ok"),
            Self::Warning(reason) | Self::Failing(reason) => f.write_str(reason),
        }
    }
}

/// The health of the process. Clones share it.
#[derive(Debug, Clone)]
pub struct Health(Arc<RwLock<HealthState>>);

#[derive(Debug)]
struct HealthState {
    checks: BTreeMap<&'static str, Check>,
    draining: bool,
}

impl Health {
    /// A process that is ready once all these checks are [`Check::Ok`].
    pub fn new(checks: impl IntoIterator<Item = &'static str>) -> Self {
        let checks = checks.into_iter().map(|name| (name, Check::Pending)).collect();
        Self(Arc::new(RwLock::new(HealthState { checks, draining: false })))
    }

    /// Sets the state of `check`. Changes are logged, repetitions are not.
    pub fn set<E: Into<String>>(&self, check: &'static str, outcome: Result<(), E>) {
        let now = match outcome {
            Ok(()) => Check::Ok,
            Err(reason) => Check::Failing(reason.into()),
        };
        self.insert(check, now);
    }

    /// Sets a warning of `check`, with which the process is ready, or that there is none.
    pub fn warn(&self, check: &'static str, warning: Option<String>) {
        self.insert(check, warning.map_or(Check::Ok, Check::Warning));
    }

    fn insert(&self, check: &'static str, now: Check) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = state.checks.insert(check, now.clone());
        drop(state);
        match (before, now) {
            (before, now) if before.as_ref() == Some(&now) => {}
            (Some(Check::Warning(_)), Check::Warning(_)) => {}
            (_, Check::Failing(reason)) => tracing::warn!(check, reason, "health check fails"),
            (_, Check::Warning(reason)) => tracing::warn!(check, reason, "health check warns"),
            (Some(Check::Failing(_) | Check::Warning(_)), _) => {
                tracing::info!(check, "health check recovered");
            }
            _ => tracing::debug!(check, "health check passes"),
        }
    }

    /// The process is stopping: from here on it is not ready, whatever the checks say.
    pub fn drain(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).draining = true;
    }

    /// Whether the process is stopping.
    pub fn is_draining(&self) -> bool {
        self.read(|state| state.draining)
    }

    /// Why requests cannot be served, in one sentence; nothing when they can.
    pub fn not_ready_because(&self) -> Option<String> {
        self.read(HealthState::not_ready_because)
    }

    fn read<T>(&self, view: impl FnOnce(&HealthState) -> T) -> T {
        view(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HealthState {
    fn is_ready(&self) -> bool {
        !self.draining && self.checks.values().all(Check::is_passed)
    }

    fn not_ready_because(&self) -> Option<String> {
        if self.is_ready() {
            return None;
        }
        if self.draining {
            return Some("draining: the service is shutting down".to_owned());
        }
        let failing = self.checks.iter().filter(|(_, check)| !check.is_passed());
        Some(failing.map(|(name, check)| format!("{name}: {check}")).collect::<Vec<_>>().join("; "))
    }
}

/// `GET /healthz` and `GET /readyz`.
pub fn router(health: Health) -> Router {
    fallbacks::add_to(
        Router::new()
            .route("/healthz", get(healthz))
            .route("/healthz/", get(healthz))
            .route("/readyz", get(readyz))
            .route("/readyz/", get(readyz))
            .with_state(health),
    )
}

async fn healthz() -> Response {
    response(&json!({"status": "ok"}))
}

async fn readyz(State(health): State<Health>) -> Response {
    let (because, draining, checks) =
        health.read(|state| (state.not_ready_because(), state.draining, json!(state.checks)));
    let Some(because) = because else {
        return response(&json!({"status": "ok", "checks": checks}));
    };
    let kind = if draining { ErrorKind::Overloaded } else { ErrorKind::DependencyUnavailable };
    let members = Map::from_iter([("checks".to_owned(), checks), ("draining".to_owned(), json!(draining))]);
    let mut response = HttpError::from(Error::new(kind, because)).into_response();
    response.extensions_mut().insert(Members(members));
    response
}

fn response(body: &serde_json::Value) -> Response {
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
        assert!(health.not_ready_because().is_none());
        health.set("database", Err("cannot be reached"));
        assert_eq!(health.not_ready_because().as_deref(), Some("database: cannot be reached"));
        health.set("database", FINE);
        assert!(health.not_ready_because().is_none());
        health.warn("clock", Some("it is wrong".to_owned()));
        assert!(health.not_ready_because().is_none(), "a warning");
        health.clone().drain();
        assert!(health.not_ready_because().is_some());
        assert_eq!(health.not_ready_because().as_deref(), Some("draining: the service is shutting down"));
    }
}
