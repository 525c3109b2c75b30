//! The handler that says why a resource is not done, and what would help. It reads once and lets the rules explain.

use axum::extract::{RawQuery, State};
use http::StatusCode;
use hyperfleet_core::rules::{Subject, explain};
use hyperfleet_core::{Error, ResourceId, Timestamp};

use crate::app::App;
use crate::gate::Visitor;
use crate::place::Path;
use crate::query;
use crate::resources::{Answer, json, owner};
use crate::statuses::not_there;

/// `GET …/explain`.
pub(crate) async fn explain(
    State(app): State<App>,
    path: Path,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
) -> Answer {
    query::none(raw.as_deref(), app.contract())?;
    let sight = visitor.sight();
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.surroundings(sight, id).await?,
        None => None,
    };
    let found = found.filter(|around| path.names(&around.resource));
    if sight.rights().is_some() {
        owner(&app, &path, sight).await?;
    }
    let Some(around) = found else { return Err(not_there(&app, &path, sight).await.into()) };
    let explanation = explain::explain(app.rulebook.view(), &around, Timestamp::now(), app.stuck_after)?;
    let body = serde_json::to_vec(&explanation).map_err(Error::internal)?;
    let mut response = json(StatusCode::OK, body.into());
    response.extensions_mut().insert(Subject::of(&around.resource));
    Ok(response)
}
