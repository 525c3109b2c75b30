//! `GET …/timeline`: the history of a resource, also after its removal.

use axum::extract::{RawQuery, State};
use http::StatusCode;
use hyperfleet_core::ResourceId;
use hyperfleet_store::TimelineQuery;

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::history::named;
use crate::query::{TimelineParameters, TimelineToken};
use crate::render;
use crate::response::{HandlerResult, json};
use crate::route::Path;

/// `GET …/timeline`.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let scope = caller.scope();
    let route = path.part_name("timeline", scope);
    let list = TimelineParameters::parse(raw.as_deref(), app.contract(), (&app.token_signer, &route))?;
    let query = TimelineQuery { start: list.start, limit: list.page_size, count: list.count };
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.timeline(scope, id, query).await?,
        None => None,
    };
    let (_, found) = named(&app, &path, scope, found).await?;
    let frame = render::Frame::new(app.contract(), "TimelineList", list.page, found.items.len(), found.total);
    let next = match found.items.last().filter(|_| found.more) {
        Some(last) => {
            let page = list.page.saturating_add(1);
            let token = TimelineToken { version: last.version.0, index: last.index, page };
            Some(app.token_signer.sign(&token, &route)?)
        }
        None => None,
    };
    Ok(json(StatusCode::OK, render::timeline(&frame, &found, next.as_deref())?))
}
