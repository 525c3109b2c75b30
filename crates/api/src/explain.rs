//! `GET …/explain`: why a resource is not reconciled, and what would help. The handler reads once; the rules explain.

use axum::extract::{RawQuery, State};
use http::StatusCode;
use hyperfleet_core::rules::ResourceKey;
use hyperfleet_core::rules::explain::{Remedy, explain as explain_resource};
use hyperfleet_core::{Error, ResourceId};

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::lookup::{not_there, owner};
use crate::query;
use crate::response::{HandlerResult, json};
use crate::route::Path;

/// `GET …/explain`.
pub(crate) async fn explain(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    query::none(raw.as_deref(), app.contract())?;
    let scope = caller.scope();
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.related_resources(scope, id).await?,
        None => None,
    };
    let found = found.filter(|related| path.names(&related.resource));
    if scope.rights().is_some() {
        owner(&app, &path, scope).await?;
    }
    let Some(related) = found else { return Err(not_there(&app, &path, scope).await.into()) };
    let explanation =
        explain_resource(app.rulebook.view(), request, &related, app.store.now(), app.stuck_after)?;
    let body = serde_json::to_vec(&explanation).map_err(Error::internal)?;
    let mut response = json(StatusCode::OK, body);
    response.extensions_mut().insert(ResourceKey::of(&related.resource));
    Ok(response)
}

/// The request that an explanation advises for the resource at `href`.
fn request(remedy: Remedy<'_>, href: &str) -> String {
    match remedy {
        Remedy::ReadReports => format!("GET {href}/statuses"),
        Remedy::Explain => format!("GET {href}/explain"),
        Remedy::ListChildren(plural) => format!("GET {href}/{plural}?showDeleted=true"),
        Remedy::Patch => format!("PATCH {href}"),
        Remedy::Delete => format!("DELETE {href}"),
        Remedy::ForceDelete => format!("POST {href}/force-delete with a reason"),
    }
}
