//! The handlers of reports: `GET`, `PUT` and `POST` of `…/statuses`.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use http::{Request, StatusCode};
use hyperfleet_core::rules::{Outcome, Reported};
use hyperfleet_core::{Command, Error, ErrorKind, Intent, Reservation, ResourceId, SubmitReport};

use crate::app::App;
use crate::gate::{AdmittedCaller, Identified};
use crate::lookup::{not_there, owner};
use crate::paging::{self, PageChoice};
use crate::query::{self, SliceParameters};
use crate::response::{HandlerResult, json, page};
use crate::route::Path;
use crate::{body, decode_report, render};

/// `GET …/statuses`.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let scope = caller.scope();
    let route = path.part_name("statuses", scope);
    let token_signer = app.token_signer();
    let signer_and_route = (&token_signer, route.as_str());
    let list = SliceParameters::parse(raw.as_deref(), app.contract(), signer_and_route)?;
    let (store, id) = (&app.store, ResourceId::parse(path.id()));
    let read = |wanted, reservation: Reservation| {
        let slice = if wanted == PageChoice::First { list.slice.first() } else { list.slice.clone() };
        async move {
            let Some(id) = id else { return Ok(None) };
            store.reports(scope, id, &slice, &reservation).await
        }
    };
    let (found, reservation) = paging::read(&app, &caller, list.number(), read).await?;
    let found = found.filter(|(resource, _)| path.names(resource));
    if scope.rights().is_some() {
        owner(&app, &path, scope).await?;
    }
    let Some((_, found)) = found else { return Err(not_there(&app, &path, scope).await.into()) };
    let frame =
        render::Frame::new(app.contract(), "AdapterStatusList", list.page, found.items.len(), found.total);
    let last = found.items.last().filter(|_| found.more);
    let next = list.next(last.map(|report| &*report.adapter), signer_and_route)?;
    Ok(page(render::reports(&frame, found, next.as_deref())?, reservation))
}

/// `PUT` and `POST` of `…/statuses`.
pub(crate) async fn submit(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    body::require_json(request.headers())?;
    let bytes = body::read(&app, request).await?;
    let submission = decode_report::report(app.contract(), app.store.now(), &bytes)?;
    // The body shares the connection's read buffer, which can be reused once it is dropped.
    drop(bytes);
    let scope = caller.scope.clone();
    // Rare branches are boxed, so that they do not enlarge the future of every request.
    if scope.rights().is_some() {
        Box::pin(owner(&app, &path, &scope)).await?;
    }
    let intent = Intent::Report(SubmitReport { target: path.target.clone(), submission });
    let (subject, reported) =
        match app.store.execute(Command { caller, dry_run, intent, idempotency: None }).await {
            Ok(Outcome::Report(subject, reported)) => (subject, reported),
            Ok(other) => return Err(Error::internal(format!("a report came to {other:?}")).into()),
            Err(Error { kind: ErrorKind::NotFound { .. }, .. }) => {
                return Err(Box::pin(not_there(&app, &path, &scope)).await.into());
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
