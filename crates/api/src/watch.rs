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
use hyperfleet_core::{Epoch, Error, FeedPosition, Version};
use hyperfleet_store::{FeedBounds, history_expired, history_replaced, not_kept};

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
    let bounds = app.store.bounds().await?;
    let start = match asked.since {
        None => Start::Snapshot(Box::new(app.store.snapshot(scope, filter.clone()).await?)),
        Some(since) => {
            let name = if last_event.is_some() { "Last-Event-ID" } else { "since" };
            Start::After(checked_since(name, since, &bounds)?)
        }
    };
    let channel = app.channels.join(app, caller, filter.clone(), asked.fields.clone(), bounds.newest)?;
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

/// The position to start after, if the history of the database has it and holds what came after it.
fn checked_since(
    name: &str,
    (version, epoch): (Version, Option<Epoch>),
    bounds: &FeedBounds,
) -> Result<FeedPosition, Error> {
    let FeedBounds { pruned, newest } = *bounds;
    let since = FeedPosition { epoch: epoch.unwrap_or(newest.epoch), version };
    if since.epoch != newest.epoch {
        return Err(history_replaced(name, since));
    }
    if version > newest.version {
        let message = format!(
            "{name} must be a version that has been; the newest is {}, not {version}.",
            newest.version
        );
        return Err(not_kept(name, &version.0.into(), "max", &message));
    }
    // A number of 0 alone stands for all that is kept.
    if epoch.is_none() && version == Version::default() {
        return Ok(FeedPosition { version: pruned, ..since });
    }
    if version < pruned {
        return Err(history_expired(name, version));
    }
    Ok(since)
}
