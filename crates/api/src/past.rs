//! Reads of the past: a resource as it was at the end of a generation, and what differs between two. What is gone can
//! still be read for as long as its history is kept, by whoever could see it when it went.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use hyperfleet_core::rules::Subject;
use hyperfleet_core::{
    Error, ErrorKind, FieldChange, Projection, Resource, ResourceId, Sight, json_text, wish_changes,
};
use serde::Serialize;

use crate::app::App;
use crate::gate::Visitor;
use crate::place::Path;
use crate::query::DiffParameters;
use crate::render;
use crate::resources::{Answer, json};

/// `GET …?generation=N`. The tag of an answer is what a write may be bound to, so the past has none.
pub(crate) async fn read(
    app: &App,
    path: &Path,
    sight: &Sight,
    generation: i64,
    fields: Option<&Projection>,
) -> Result<Response, Error> {
    let (newest, states) = states(app, path, sight, vec![generation]).await?;
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
    visitor: Visitor,
    RawQuery(raw): RawQuery,
) -> Answer {
    let asked = DiffParameters::parse(raw.as_deref(), app.contract())?;
    let sight = visitor.sight();
    let present = states(&app, &path, sight, Vec::new()).await?.0.generation;
    let to = asked.to.unwrap_or(present);
    let from = asked.from.unwrap_or_else(|| (to - 1).max(1));

    let wanted = [from.max(to), from.min(to)];
    let (newest, states) = states(&app, &path, sight, wanted.to_vec()).await?;
    let [newer, older] = reached(&newest, wanted, states)?;
    let changes = if from < to { wish_changes(&older, &newer)? } else { wish_changes(&newer, &older)? };
    let diff = Diff { kind: format!("{}Diff", newest.kind), id: newest.id, from, to, changes };
    Ok(about(&newest, json(StatusCode::OK, json_text(&diff).into())))
}

/// The resource that the path names as it is or was when it went, and at the ends of generations, newest first.
async fn states(
    app: &App,
    path: &Path,
    sight: &Sight,
    generations: Vec<i64>,
) -> Result<(Resource, Vec<Result<Resource, i64>>), Error> {
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.past(sight, id, generations).await?,
        None => None,
    };
    named(app, path, sight, found.map(|past| (past.newest, past.at))).await
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
                ErrorKind::NoLongerKept,
                format!(
                    "Generation {generation} of {kind} '{id}' is not kept any more: the oldest that is, is {reached}"
                ),
            ),
        })?);
    }
    found.try_into().map_err(|_| Error::internal("a generation that nobody looked for"))
}

/// What was found, if it is about the resource that the path names.
pub(crate) async fn named<T>(
    app: &App,
    path: &Path,
    sight: &Sight,
    found: Option<(Resource, T)>,
) -> Result<(Resource, T), Error> {
    let found = found.filter(|(resource, _)| path.names(resource));
    // Where roles may hide an owner, nothing is below it. Else it is worth looking only to tell what is wrong.
    if found.is_none() || sight.rights().is_some() {
        check_owners(app, path, sight).await?;
    }
    found.ok_or_else(|| Error::not_found(path.place.kind(), path.id()))
}

/// That the owners which the path names are there, or were, up to the outermost. Owners go after what they own, so
/// whatever is still known has owners of whom that is true too.
async fn check_owners(app: &App, path: &Path, sight: &Sight) -> Result<(), Error> {
    let mut owner: Option<ResourceId> = None;
    for (kind, id) in &path.owners {
        let found = match ResourceId::parse(id) {
            Some(id) => app.store.past(sight, id, Vec::new()).await?.map(|past| past.newest),
            None => None,
        };
        let found = found.filter(|r| r.kind == *kind && (owner.is_none() || r.owner() == owner));
        owner = Some(found.ok_or_else(|| Error::not_found(kind, id))?.id);
    }
    Ok(())
}

/// An answer that is about one resource: its name for the log.
fn about(resource: &Resource, mut response: Response) -> Response {
    response.extensions_mut().insert(Subject::of(resource));
    response
}
