//! Reads of history: a resource as it was at the end of a generation, and the difference between two generations. A
//! deleted resource can be read for as long as its history is kept, by callers who could see it when it was deleted.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use hyperfleet_core::rules::ResourceKey;
use hyperfleet_core::{
    AccessScope, Error, ErrorKind, FieldChange, Projection, Resource, ResourceId, ResourcePath,
    desired_state_changes, json_text,
};
use serde::Serialize;

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::query::DiffParameters;
use crate::render;
use crate::response::{HandlerResult, json};
use crate::route::Path;

/// `GET …?generation=N`. A past state has no entity tag, because no write can be conditional on it.
pub(crate) async fn read(
    app: &App,
    path: &Path,
    scope: &AccessScope,
    generation: i64,
    fields: Option<&Projection>,
) -> Result<Response, Error> {
    let (newest, states) = states(app, path, scope, vec![generation]).await?;
    let [state] = reached(&newest, [generation], states)?;
    let body = render::resource(app.rulebook.view(), &state, fields)?;
    Ok(about(&newest, json(StatusCode::OK, body)))
}

/// What differs between the ends of two generations.
#[derive(Serialize)]
struct Diff {
    kind: String,
    id: ResourceId,
    from: i64,
    to: i64,
    changes: Vec<FieldChange>,
}

/// `GET …/diff`.
pub(crate) async fn diff(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let asked = DiffParameters::parse(raw.as_deref(), app.contract())?;
    let scope = caller.scope();
    let present = states(&app, &path, scope, Vec::new()).await?.0.generation;
    let to = asked.to.unwrap_or(present);
    let from = asked.from.unwrap_or_else(|| (to - 1).max(1));

    let wanted = [from.max(to), from.min(to)];
    let (newest, states) = states(&app, &path, scope, wanted.to_vec()).await?;
    let [newer, older] = reached(&newest, wanted, states)?;
    let changes = if from < to {
        desired_state_changes(&older, &newer)?
    } else {
        desired_state_changes(&newer, &older)?
    };
    let diff = Diff { kind: format!("{}Diff", newest.kind), id: newest.id, from, to, changes };
    Ok(about(&newest, json(StatusCode::OK, json_text(&diff))))
}

/// The resource that the path names as it is or was when it went, and at the ends of generations, newest first.
async fn states(
    app: &App,
    path: &Path,
    scope: &AccessScope,
    generations: Vec<i64>,
) -> Result<(Resource, Vec<Result<Resource, i64>>), Error> {
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.past_generations(scope, id, generations).await?,
        None => None,
    };
    named(app, path, scope, found.map(|past| (past.newest, past.at))).await
}

/// The states, if all of them were reached.
fn reached<const N: usize>(
    newest: &Resource,
    generations: [i64; N],
    states: Vec<Result<Resource, i64>>,
) -> Result<[Resource; N], Error> {
    let Resource { kind, id, generation: present, .. } = newest;
    let mut found = Vec::with_capacity(N);
    for (generation, state) in generations.into_iter().zip(states) {
        found.push(state.map_err(|reached| match generation > *present {
            true => Error::new(
                ErrorKind::NotFound { kind: kind.to_string() },
                format!("{kind} '{id}' has no generation {generation}: its newest is {present}"),
            ),
            false => Error::new(
                ErrorKind::HistoryExpired,
                format!(
                    "Generation {generation} of {kind} '{id}' is not kept any more: the oldest that is, is {reached}"
                ),
            ),
        })?);
    }
    found.try_into().map_err(|_| Error::internal("a generation that nobody looked for"))
}

/// The result of a read, if the path names its resource.
pub(crate) async fn named<T>(
    app: &App,
    path: &Path,
    scope: &AccessScope,
    found: Option<(Resource, T)>,
) -> Result<(Resource, T), Error> {
    let found = found.filter(|(resource, _)| path.names(resource));
    // Roles may hide an owner, and with it everything below it. Without roles the owners matter only for the error.
    if found.is_none() || scope.rights().is_some() {
        check_owners(app, path, scope).await?;
    }
    found.ok_or_else(|| Error::not_found(path.route.kind(), path.id()))
}

/// Checks that the owners which the path names exist or existed. An owner is removed after the resources that it owns, so
/// history holds the owners of every resource that it holds.
async fn check_owners(app: &App, path: &Path, scope: &AccessScope) -> Result<(), Error> {
    let mut owner = None;
    for named in &path.target.ancestors {
        let found = match ResourceId::parse(&named.1) {
            Some(id) => app.store.past_generations(scope, id, Vec::new()).await?,
            None => None,
        };
        owner = Some(ResourcePath::check_owner(named, owner, found.as_ref().map(|past| &past.newest))?);
    }
    Ok(())
}

/// Adds the subject for the log.
fn about(resource: &Resource, mut response: Response) -> Response {
    response.extensions_mut().insert(ResourceKey::of(resource));
    response
}
