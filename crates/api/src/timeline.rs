//! `GET …/timeline`: what happened to a resource, also after it is gone.

use axum::extract::{RawQuery, State};
use http::StatusCode;
use hyperfleet_core::ResourceId;
use hyperfleet_store::TimelineQuery;

use crate::app::App;
use crate::gate::Visitor;
use crate::past::named;
use crate::place::Path;
use crate::query::{TimelineParameters, TimelineToken};
use crate::render;
use crate::resources::{Answer, json};

/// `GET …/timeline`.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
) -> Answer {
    let sight = visitor.sight();
    let route = path.part_name("timeline", sight);
    let list = TimelineParameters::parse(raw.as_deref(), app.contract(), (&app.seal, &route))?;
    let query = TimelineQuery { start: list.start, limit: list.page_size, count: list.count };
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.timeline(sight, id, query).await?,
        None => None,
    };
    let (_, found) = named(&app, &path, sight, found).await?;
    let frame = render::Frame {
        kind: app.contract().names_lists.then_some("TimelineList"),
        page: list.page,
        size: found.items.len(),
        total: found.total,
    };
    let next = match found.items.last().filter(|_| found.more) {
        Some(last) => {
            let page = list.page.saturating_add(1);
            let token = TimelineToken { version: last.version.0, index: last.index, page };
            Some(app.seal.close(&token, &route)?)
        }
        None => None,
    };
    Ok(json(StatusCode::OK, render::timeline(&frame, &found, next.as_deref())?))
}
