//! Watches: a list that goes on. The present state if it is asked for, and then every change of it, at once, for as
//! long as the caller reads. Whatever one event shows has passed the caller's sight, as a list would.

mod channel;
mod form;
mod metrics;
mod places;
mod watcher;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use hyperfleet_core::search::Options;
use hyperfleet_core::{Error, Fault, FaultKind, Faults, Version};
use hyperfleet_store::no_longer_kept;

use crate::app::App;
use crate::gate::Visitor;
use crate::place::Path;
use crate::query::WatchParameters;
use crate::resources::{Answer, kinds_of, owner};

pub(crate) use channel::Channels;
use form::Form;
pub(crate) use metrics::WatchMetrics;
use watcher::{Start, Watcher};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to wait for more.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET` of a collection with `watch=true`.
pub(crate) async fn open(
    app: &App,
    path: &Path,
    visitor: &Visitor,
    raw: Option<&str>,
    headers: &HeaderMap,
) -> Answer {
    let last_event = headers.get(LAST_EVENT_ID).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let last_event = last_event.as_deref().filter(|value| !value.trim().is_empty());
    let options = Options { tenancy: app.rulebook.tenancy };
    let any_kind = path.place.entity.is_none();
    let asked = WatchParameters::parse(raw, last_event, app.catalog(), app.contract(), options, any_kind)?;
    let form = Form::negotiate(headers)?;
    let sight = visitor.sight();
    let owner = owner(app, path, sight).await?;
    let filter = asked.filter(kinds_of(app, path), owner);
    let (forgotten, newest) = app.store.bounds().await?;
    let start = match asked.since {
        None => Start::Present(Box::new(app.store.present(sight, filter.clone()).await?)),
        Some(since) => {
            let name = if last_event.is_some() { "Last-Event-ID" } else { "since" };
            Start::After(since_kept(name, since, forgotten, newest)?)
        }
    };
    let channel = app.channels.join(app, visitor, filter.clone(), asked.fields.clone(), newest)?;
    let watcher = Watcher::new(app, visitor, filter, asked.fields, start, channel, form)?;
    let events = stream::unfold(watcher, async |mut watcher| {
        let chunk = watcher.next().await?;
        Some((Ok::<_, std::convert::Infallible>(chunk), watcher))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Where to begin: behind `since`, as far as that is kept and has been.
fn since_kept(name: &str, since: Version, forgotten: Version, newest: Version) -> Result<Version, Error> {
    if since > newest {
        let message = format!("{name} must be a version that has been; the newest is {newest}, not {since}");
        let fault = Fault::new(FaultKind::Query, name, message).given(&since.0.into()).rule("max");
        return Err(Faults::one(fault).into_error());
    }
    if since == Version::default() {
        return Ok(forgotten);
    }
    if since < forgotten {
        return Err(no_longer_kept(since));
    }
    Ok(since)
}
