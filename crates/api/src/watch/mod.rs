//! Watches: the present state if requested, and then every change of it, for as long as the caller reads. Every event
//! passes the caller's access scope, as a list would.

mod channel;
mod format;
mod metrics;
mod quota;
mod watcher;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_core::search::Options;
use hyperfleet_core::{Error, Fault, FaultKind, Faults, Version};
use hyperfleet_store::history_expired;

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::lookup::owner;
use crate::query::WatchParameters;
use crate::resources::kinds_of;
use crate::response::HandlerResult;
use crate::route::Path;

pub(crate) use channel::Channels;
use format::Format;
pub(crate) use metrics::WatchMetrics;
use watcher::{Start, Watcher};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Turns off buffering in proxies.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET` of a collection with `watch=true`.
pub(crate) async fn open(
    app: &App,
    path: &Path,
    caller: &AdmittedCaller,
    raw: Option<&str>,
    headers: &HeaderMap,
) -> HandlerResult {
    let last_event = headers.get(LAST_EVENT_ID).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let last_event = last_event.as_deref().filter(|value| !value.trim().is_empty());
    let options = Options { tenancy: app.rulebook.tenancy };
    let any_kind = path.route.entity.is_none();
    let asked = WatchParameters::parse(raw, last_event, app.catalog(), app.contract(), options, any_kind)?;
    let format = Format::negotiate(headers)?;
    let scope = caller.scope();
    let owner = owner(app, path, scope).await?;
    let filter = asked.filter(kinds_of(app, path), owner);
    let (forgotten, newest) = app.store.bounds().await?;
    let start = match asked.since {
        None => Start::Snapshot(Box::new(app.store.snapshot(scope, filter.clone()).await?)),
        Some(since) => {
            let name = if last_event.is_some() { "Last-Event-ID" } else { "since" };
            Start::After(checked_since(name, since, forgotten, newest)?)
        }
    };
    let channel = app.channels.join(app, caller, filter.clone(), asked.fields.clone(), newest)?;
    let watcher = Watcher::new(app, caller, filter, asked.fields, start, channel, format)?;
    let events = stream::unfold(watcher, async |mut watcher| {
        let chunk = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The version to start after, if history still holds it and it is not in the future.
fn checked_since(name: &str, since: Version, forgotten: Version, newest: Version) -> Result<Version, Error> {
    if since > newest {
        let message = format!("{name} must be a version that has been; the newest is {newest}, not {since}");
        let fault = Fault::new(FaultKind::Parameter, name, message).given(&since.0.into()).rule("max");
        return Err(Faults::one(fault).into_error());
    }
    if since == Version::default() {
        return Ok(forgotten);
    }
    if since < forgotten {
        return Err(history_expired(since));
    }
    Ok(since)
}
