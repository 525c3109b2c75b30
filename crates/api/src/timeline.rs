//! `GET …/timeline`: the history of a resource, also after its removal.

use axum::extract::{RawQuery, State};
use hyperfleet_core::{Reservation, ResourceId};
use hyperfleet_store::{TimelineQuery, TimelineStart};

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::history::named;
use crate::paging::{self, PageChoice};
use crate::query::{TimelineParameters, TimelineToken};
use crate::render;
use crate::response::{HandlerResult, page};
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
    let token_signer = app.token_signer();
    let list = TimelineParameters::parse(raw.as_deref(), app.contract(), (&token_signer, &route))?;
    let (store, id, limit) = (&app.store, ResourceId::parse(path.id()), list.page_size);
    let read = |wanted, reservation: Reservation| {
        let query = match wanted {
            PageChoice::Page => TimelineQuery { start: list.start, limit, count: list.count },
            PageChoice::First => TimelineQuery { start: TimelineStart::Offset(0), limit, count: false },
        };
        async move {
            let Some(id) = id else { return Ok(None) };
            store.timeline(scope, id, query, &reservation).await
        }
    };
    let number = matches!(list.start, TimelineStart::Offset(_)).then_some(list.page);
    let (found, reservation) = paging::read(&app, &caller, number, read).await?;
    let (_, found) = named(&app, &path, scope, found).await?;
    let frame = render::Frame::new(app.contract(), "TimelineList", list.page, found.items.len(), found.total);
    let next = match found.items.last().filter(|_| found.more) {
        Some(last) => {
            let token = TimelineToken {
                version: last.version.0,
                index: last.index,
                page: list.page.saturating_add(1),
            };
            Some(token_signer.sign(&token, &route)?)
        }
        None => None,
    };
    Ok(page(render::timeline(&frame, found, next.as_deref())?, reservation))
}
