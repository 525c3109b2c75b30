//! The handlers of reports: adapters send what they found, and everyone may read it.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use http::{Request, StatusCode};
use hyperfleet_core::rules::{Outcome, Reported};
use hyperfleet_core::{Command, Error, ErrorKind, Intent, ResourceId, Sight, SubmitReport, Timestamp};

use crate::app::App;
use crate::gate::{Identified, Visitor};
use crate::place::Path;
use crate::query::{self, SliceParameters};
use crate::resources::{Answer, find, json, owner};
use crate::{body, decode_report, render};

/// `GET …/statuses`.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
) -> Answer {
    let sight = visitor.sight();
    let route = path.part_name("statuses", sight);
    let sealed = (&app.seal, route.as_str());
    let list = SliceParameters::parse(raw.as_deref(), app.contract(), sealed)?;
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.reports(sight, id, &list.slice).await?,
        None => None,
    };
    let found = found.filter(|(resource, _)| path.names(resource));
    if sight.rights().is_some() {
        owner(&app, &path, sight).await?;
    }
    let Some((_, found)) = found else { return Err(not_there(&app, &path, sight).await.into()) };
    let frame = render::Frame {
        kind: app.contract().names_lists.then_some("AdapterStatusList"),
        page: list.page,
        size: found.items.len(),
        total: found.total,
    };
    let last = found.items.last().filter(|_| found.more);
    let next = list.next(last.map(|report| &*report.adapter), sealed)?;
    Ok(json(StatusCode::OK, render::reports(&frame, &found, next.as_deref())?))
}

/// `PUT` and `POST` of `…/statuses`.
pub(crate) async fn submit(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> Answer {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    body::require_json(request.headers())?;
    let bytes = body::read(&app, request).await?;
    let submission = decode_report::report(app.contract(), Timestamp::now(), &bytes)?;
    // It is a part of what the connection has read, which could not be read into again meanwhile.
    drop(bytes);
    let sight = caller.sight.clone();
    // What is rare is kept in a box of its own, or every request would carry the room for it along.
    if sight.rights().is_some() {
        Box::pin(owner(&app, &path, &sight)).await?;
    }
    let intent = Intent::Report(SubmitReport { target: path.target(), submission });
    let (subject, reported) = match app.store.execute(Command { caller, dry_run, intent, retry: None }).await
    {
        Ok(Outcome::Report(subject, reported)) => (subject, reported),
        Ok(other) => return Err(Error::internal(format!("a report came to {other:?}")).into()),
        Err(Error { kind: ErrorKind::NotFound { .. }, .. }) => {
            return Err(Box::pin(not_there(&app, &path, &sight)).await.into());
        }
        Err(error) => return Err(error.into()),
    };
    let mut response = match reported {
        Reported::Stored(report) | Reported::Unchanged(report) => {
            json(StatusCode::CREATED, render::report(&report)?)
        }
        Reported::FutureGeneration | Reported::Stale | Reported::Unknown => {
            StatusCode::NO_CONTENT.into_response()
        }
    };
    response.extensions_mut().insert(subject);
    Ok(response)
}

/// The error that names the first part of the path that is not there.
pub(crate) async fn not_there(app: &App, path: &Path, sight: &Sight) -> Error {
    find(app, path, sight).await.err().unwrap_or_else(|| Error::not_found(path.place.kind(), path.id()))
}
