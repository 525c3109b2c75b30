//! A read that waits: answers as soon as a condition holds, without polling and without a stream.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::{HeaderName, HeaderValue, StatusCode};
use hyperfleet_core::search::{Filter, Scope};
use hyperfleet_core::{Error, ErrorKind, Projection, Resource, Sight, statuses};
use hyperfleet_store::{EventKind, Follower};

use crate::app::App;
use crate::gate::Visitor;
use crate::place::Path;
use crate::query::{Awaited, Wait};
use crate::resources::{Answer, find, shown};

const X_HYPERFLEET_WAIT: HeaderName = HeaderName::from_static("x-hyperfleet-wait");

/// `GET` of one resource with `waitFor`.
pub(crate) async fn read(
    app: &App,
    path: &Path,
    visitor: &Visitor,
    wait: &Wait,
    fields: Option<&Projection>,
) -> Answer {
    let sight = visitor.sight();
    let mut roles = visitor.roles(&app.gate);
    let _waiting = app.watch_metrics.watching(visitor)?;
    let deadline =
        tokio::time::Instant::now() + visitor.remaining().map_or(wait.timeout, |r| r.min(wait.timeout));
    // However short the time, it is looked at once.
    let follower = match look(app, path, sight, &wait.awaited).await? {
        Looked::Holds(resource) => return Ok(shown(app, StatusCode::OK, &resource, fields)?),
        Looked::Gone => return Ok(StatusCode::NO_CONTENT.into_response()),
        Looked::NotYet(follower) => follower,
    };
    visitor.stay().leave();
    let waited = tokio::select! {
        held = until(path, follower, &wait.awaited) => Some(held?),
        () = tokio::time::sleep_until(deadline) => None,
        () = app.shutdown.begun() => None,
        _ = roles.changed() => {
            let detail = "The roles have changed. Please ask again.";
            return Err(Error::new(ErrorKind::Overloaded, detail).into());
        }
    };
    match waited {
        Some(Some(resource)) => Ok(shown(app, StatusCode::OK, &resource, fields)?),
        Some(None) => Ok(StatusCode::NO_CONTENT.into_response()),
        None => {
            let resource = find(app, path, sight).await?;
            let mut response = shown(app, StatusCode::OK, &resource, fields)?;
            response.headers_mut().insert(X_HYPERFLEET_WAIT, HeaderValue::from_static("timeout"));
            Ok(response)
        }
    }
}

/// What was found at first.
enum Looked {
    Holds(Arc<Resource>),
    /// As was awaited.
    Gone,
    NotYet(Box<Follower>),
}

async fn look(app: &App, path: &Path, sight: &Sight, awaited: &Awaited) -> Result<Looked, Error> {
    // First where to follow from, then how it is: nothing can happen unseen in between.
    let (_, newest) = app.store.bounds().await?;
    let resource = match find(app, path, sight).await {
        Ok(resource) => resource,
        Err(Error { kind: ErrorKind::NotFound { .. }, .. }) if *awaited == Awaited::Deleted => {
            return Ok(Looked::Gone);
        }
        Err(error) => return Err(error),
    };
    if holds(awaited, &resource) {
        return Ok(Looked::Holds(resource));
    }
    let scope =
        Scope { kinds: vec![resource.kind.clone()], owner: None, finalizing: true, referring_to: None };
    let follower = app.store.follow(sight, scope.confine(Some(Filter::with_id(resource.id))), newest)?;
    Ok(Looked::NotYet(Box::new(follower)))
}

/// Waits until it holds: the resource as it is then, or none if what was awaited is that there is none.
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
                    return Err(Error::not_found(path.place.kind(), path.id()));
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
