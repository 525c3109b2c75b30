//! `GET` of one resource with `waitFor`: responds as soon as a condition holds, without polling and without a stream.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::{HeaderName, HeaderValue, StatusCode};
use hyperfleet_core::search::{Filter, Scope};
use hyperfleet_core::{AccessScope, Error, ErrorKind, Projection, Resource, statuses};
use hyperfleet_store::{EventKind, Follower};

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::lookup::find;
use crate::query::{Awaited, Wait};
use crate::response::{HandlerResult, shown};
use crate::route::Path;

const X_HYPERFLEET_WAIT: HeaderName = HeaderName::from_static("x-hyperfleet-wait");

/// `GET` of one resource with `waitFor`.
pub(crate) async fn read(
    app: &App,
    path: &Path,
    caller: &AdmittedCaller,
    wait: &Wait,
    fields: Option<&Projection>,
) -> HandlerResult {
    let scope = caller.scope();
    let mut roles = caller.role_revisions(&app.gate);
    let _waiting = app.watch_metrics.watching(caller)?;
    let deadline =
        tokio::time::Instant::now() + caller.remaining().map_or(wait.timeout, |r| r.min(wait.timeout));
    let epoch = app.store.epoch();
    // The resource is read at least once, however short the timeout.
    let follower = match look(app, path, scope, &wait.awaited).await? {
        FirstRead::Holds(resource) => return Ok(shown(app, StatusCode::OK, (epoch, &resource), fields)?),
        FirstRead::Gone => return Ok(StatusCode::NO_CONTENT.into_response()),
        FirstRead::NotYet(follower) => follower,
    };
    caller.permit().release();
    let waited = tokio::select! {
        held = until(path, follower, &wait.awaited) => Some(held.map_err(|error| match error.kind {
            ErrorKind::HistoryExpired => {
                Error::new(ErrorKind::Overloaded, "The database was restored. Please ask again.")
            }
            _ => error,
        })?),
        () = tokio::time::sleep_until(deadline) => None,
        () = app.shutdown.begun() => None,
        _ = roles.changed() => {
            let detail = "The roles have changed. Please ask again.";
            return Err(Error::new(ErrorKind::Overloaded, detail).into());
        }
    };
    match waited {
        Some(Some(resource)) => Ok(shown(app, StatusCode::OK, (epoch, &resource), fields)?),
        Some(None) => Ok(StatusCode::NO_CONTENT.into_response()),
        None => {
            let resource = find(app, path, scope).await?;
            let mut response = shown(app, StatusCode::OK, (epoch, &resource), fields)?;
            response.headers_mut().insert(X_HYPERFLEET_WAIT, HeaderValue::from_static("timeout"));
            Ok(response)
        }
    }
}

/// The result of the first read.
enum FirstRead {
    Holds(Arc<Resource>),
    /// The awaited deletion has happened.
    Gone,
    NotYet(Box<Follower>),
}

async fn look(app: &App, path: &Path, scope: &AccessScope, awaited: &Awaited) -> Result<FirstRead, Error> {
    // The feed position is read before the resource, so no change in between is missed.
    let newest = app.store.bounds().await?.newest;
    let resource = match find(app, path, scope).await {
        Ok(resource) => resource,
        Err(Error { kind: ErrorKind::NotFound { .. }, .. }) if *awaited == Awaited::Deleted => {
            return Ok(FirstRead::Gone);
        }
        Err(error) => return Err(error),
    };
    if holds(awaited, &resource) {
        return Ok(FirstRead::Holds(resource));
    }
    let subject =
        Scope { kinds: vec![resource.kind.clone()], owner: None, finalizing: true, referring_to: None };
    let follower = app.store.follow(scope, subject.confine(Some(Filter::with_id(resource.id))), newest)?;
    Ok(FirstRead::NotYet(Box::new(follower)))
}

/// Waits until the condition holds, and returns the resource; `None` after an awaited deletion.
async fn until(
    path: &Path,
    mut follower: Box<Follower>,
    awaited: &Awaited,
) -> Result<Option<Resource>, Error> {
    loop {
        for event in follower.next().await?.events {
            match (event.kind, awaited) {
                (EventKind::Deleted, Awaited::Deleted) => return Ok(None),
                (EventKind::Deleted, Awaited::Condition(..)) => {
                    return Err(Error::not_found(path.route.kind(), path.id()));
                }
                _ if holds(awaited, &event.object) => return Ok(Some((*event.object).clone())),
                _ => {}
            }
        }
    }
}

fn holds(awaited: &Awaited, resource: &Resource) -> bool {
    match awaited {
        Awaited::Condition(kind, status) => {
            statuses(&resource.conditions).any(|(known, is)| known == *kind && is == *status)
        }
        Awaited::Deleted => false,
    }
}
