//! The handlers of resources. Each decodes, calls the store, and renders; the rules decide.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use http::header::{IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::{Request, StatusCode};
use hyperfleet_core::rules::Outcome;
use hyperfleet_core::search::{Candidate, Options, Position};
use hyperfleet_core::{
    AccessScope, Caller, Command, Delete, Entity, Error, ErrorKind, FeedPosition, ForceDelete, Idempotency,
    Intent, Patch, Reservation, Resource,
};
use hyperfleet_store::{ListQuery, Start};
use tokio::runtime;

use crate::app::App;
use crate::gate::{AdmittedCaller, Identified};
use crate::lookup::{find, owner};
use crate::page_token::Token;
use crate::paging::{self, PageChoice};
use crate::precondition::precondition;
use crate::query::{self, ListParameters, ReadParameters};
use crate::response::{self, HandlerResult, Headers, about, header, shown};
use crate::response_body::Chunks;
use crate::route::{Path, parameter};
use crate::router::BASE;
use crate::{body, decode, history, idempotency, render, spec_check, wait, watch};

/// How often a patched spec is checked while others change the resource.
const MAX_CHECKS: usize = 4;

/// `GET` of a collection.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> HandlerResult {
    if query::is_watch(raw.as_deref()) {
        return watch::open(&app, &path, &caller, raw.as_deref(), &headers).await;
    }
    let asked = Arc::new(ListKey::new(path.list_name(), raw, caller.scope().clone()));
    let here = Arc::new((runtime::Handle::current().id(), asked));
    let page = app.lists.answer(&here, async || page(&app, &path, &caller, &here.1).await).await?;
    Ok(response::page(page.chunks, page.reservation))
}

/// A page of a list with the reservation of its memory. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RenderedPage {
    chunks: Chunks,
    reservation: Reservation,
}

/// What makes two reads of a list equal: the list with its owners, every parameter, and the access scope.
#[derive(PartialEq, Eq)]
pub(crate) struct ListKey {
    list: String,
    raw: Option<String>,
    scope: AccessScope,
}

impl ListKey {
    pub(crate) fn new(list: String, raw: Option<String>, scope: AccessScope) -> Self {
        Self { list, raw, scope }
    }
}

/// Rights are compared only where all else is equal.
impl Hash for ListKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
        self.raw.hash(state);
        self.scope.tenant().hash(state);
    }
}

/// A page of a list.
async fn page(
    app: &App,
    path: &Path,
    caller: &AdmittedCaller,
    asked: &ListKey,
) -> Result<RenderedPage, Error> {
    let (scope, raw) = (&asked.scope, asked.raw.as_deref());
    let route = list_name(path, scope);
    let (epoch, token_signer) = (app.store.epoch(), app.token_signer());
    let (signer_and_route, options) =
        ((&token_signer, route.as_str()), Options { tenancy: app.rulebook.tenancy });
    let any_kind = path.route.entity.is_none();
    let list =
        ListParameters::parse(raw, app.catalog(), app.contract(), options, any_kind, signer_and_route)?;
    let owner = owner(app, path, scope).await?;
    let filter = list.filter(kinds_of(app, path), owner);
    let offset = (list.page - 1).saturating_mul(list.page_size);
    let start = list.after.clone().map_or(Start::Offset(offset), Start::After);
    let store = &app.store;
    let read = |wanted, reservation: Reservation| {
        let (start, count) = match wanted {
            PageChoice::Page => (start.clone(), list.count),
            PageChoice::First => (Start::Offset(0), false),
        };
        let (filter, order) = (filter.clone(), list.order.clone());
        let query = ListQuery { filter, order, start, limit: list.page_size, count };
        async move { store.list(scope, query, &reservation).await }
    };
    let number = list.after.is_none().then_some(list.page);
    let (found, reservation) = paging::read(app, caller, number, read).await?;
    let kind = format!("{}List", path.route.kind());
    let frame = render::Frame::new(app.contract(), &kind, list.page, found.items.len(), found.total);
    let next = match found.items.last().filter(|_| found.more) {
        Some(last) => {
            let after = Position::of(&Candidate::new(app.rulebook.view(), last), &list.order);
            let page = list.page.saturating_add(1);
            Some(token_signer.sign(&Token { criteria: list.criteria, after, page }, &route)?)
        }
        None => None,
    };
    let chunks =
        render::list(app.rulebook.view(), &frame, (epoch, found), next.as_deref(), list.fields.as_ref())?;
    Ok(RenderedPage { chunks, reservation })
}

/// The kinds of a list.
pub(crate) fn kinds_of(app: &App, path: &Path) -> Vec<Arc<str>> {
    match &path.route.entity {
        Some(entity) => vec![entity.kind.clone()],
        None => app.catalog().kinds().map(|e| e.kind.clone()).collect(),
    }
}

/// The route that a page token is bound to: the list and the tenant.
fn list_name(path: &Path, scope: &AccessScope) -> String {
    let tenant = scope.tenant().map(|tenant| format!("{tenant}/")).unwrap_or_default();
    tenant + &path.list_name()
}

/// `POST` to a collection.
pub(crate) async fn create(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    if path.route.lacks_owner() {
        return Err(needs_owner(&app, path.route.entity.as_deref()).into());
    }
    body::require_json(request.headers())?;
    let key = idempotency::key(&request, dry_run)?;
    let bytes = body::read(&app, request).await?;
    let mut members = body::parse_object(&bytes)?;
    let entity = match &path.route.entity {
        Some(entity) => entity,
        None => decode::kind_of(&app.rulebook, &members)?,
    };
    if path.route.entity.is_none() && entity.parent.is_some() {
        return Err(needs_owner(&app, Some(entity)).into());
    }
    let spec_faults = spec_check::faults(&app, entity, &mut members).await?;
    let create = decode::create(&app.rulebook, entity, path.target.ancestors, members, spec_faults)?;
    let idempotency = key.map(|key| key.fingerprints(&caller, &bytes));
    // The body shares the connection's read buffer, which can be reused once it is dropped.
    drop(bytes);
    let epoch = app.store.epoch();
    let (resource, replayed) =
        execute_once(&app, caller, dry_run, Intent::Create(create), idempotency).await?;
    let mut response = shown(&app, StatusCode::CREATED, (epoch, &resource), None)?;
    header(&mut response, LOCATION, &app.rulebook.view().href(&resource));
    Ok(idempotency::mark_replayed(response, replayed))
}

/// `GET` of one resource.
pub(crate) async fn read(
    State(app): State<App>,
    path: Path,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> HandlerResult {
    let ReadParameters { fields, generation, wait } = ReadParameters::parse(raw.as_deref(), app.contract())?;
    let if_none_match = precondition(&headers, &IF_NONE_MATCH)?;
    if let Some(wait) = wait {
        // Rare branches are boxed, so that they do not enlarge the future of every request.
        return Box::pin(wait::read(&app, &path, &caller, &wait, fields.as_ref())).await;
    }
    let scope = caller.scope();
    if let Some(generation) = generation {
        return Ok(Box::pin(history::read(&app, &path, scope, generation, fields.as_ref())).await?);
    }
    let epoch = app.store.epoch();
    let resource = find(&app, &path, scope).await?;
    let position = FeedPosition { epoch, version: resource.version };
    if if_none_match.is_some_and(|tags| tags.matches_weakly(position)) {
        app.store.check_epoch(epoch)?;
        return Ok(about((epoch, &resource), StatusCode::NOT_MODIFIED.into_response()));
    }
    Ok(shown(&app, StatusCode::OK, (epoch, &resource), fields.as_ref())?)
}

/// `PATCH` of one resource.
pub(crate) async fn patch(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let expected = precondition(request.headers(), &IF_MATCH)?;
    let language = body::patch_language(request.headers())?;
    let bytes = body::read(&app, request).await?;
    let body = decode::patch(language, path.route.entity.as_deref(), &bytes)?;
    drop(bytes);
    let mut patch = Patch { target: path.target, expected, body: Arc::new(body), checked: None };
    let epoch = app.store.epoch();
    for _ in 0..MAX_CHECKS {
        let intent = Intent::Patch(patch.clone());
        let command = Command { caller: caller.clone(), dry_run, intent, idempotency: None };
        match app.store.execute(command).await? {
            Outcome::SpecToCheck(kind, spec) => {
                patch.checked = Some(Box::pin(spec_check::checked(&app, &kind, spec)).await?);
            }
            outcome => return Ok(shown(&app, StatusCode::OK, (epoch, &resource_of(outcome)?.0), None)?),
        }
    }
    let detail = "The spec changed each time that it was checked. Please try again.";
    Err(Error::new(ErrorKind::Overloaded, detail).into())
}

/// `DELETE` of one resource.
pub(crate) async fn delete(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> HandlerResult {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let expected = precondition(&headers, &IF_MATCH)?;
    let intent = Intent::Delete(Delete { target: path.target, expected });
    let epoch = app.store.epoch();
    let resource = execute(&app, caller, dry_run, intent).await?;
    Ok(shown(&app, StatusCode::ACCEPTED, (epoch, &resource), None)?)
}

/// `POST …/force-delete`.
pub(crate) async fn force_delete(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let expected = precondition(request.headers(), &IF_MATCH)?;
    body::require_json(request.headers())?;
    let key = idempotency::key(&request, dry_run)?;
    let bytes = body::read(&app, request).await?;
    let reason = decode::force_delete(app.contract(), &bytes)?;
    let idempotency = key.map(|key| key.fingerprints(&caller, &bytes));
    drop(bytes);
    let intent = Intent::ForceDelete(ForceDelete { target: path.target, expected, reason });
    let (_, replayed) = execute_once(&app, caller, dry_run, intent, idempotency).await?;
    Ok(idempotency::mark_replayed(StatusCode::NO_CONTENT.into_response(), replayed))
}

/// Executes a command and returns the changed resource.
async fn execute(app: &App, caller: Caller, dry_run: bool, intent: Intent) -> Result<Box<Resource>, Error> {
    Ok(execute_once(app, caller, dry_run, intent, None).await?.0)
}

/// Executes a command that may have an idempotency key, and returns whether its response is a replay.
async fn execute_once(
    app: &App,
    caller: Caller,
    dry_run: bool,
    intent: Intent,
    idempotency: Option<Idempotency>,
) -> Result<(Box<Resource>, bool), Error> {
    resource_of(app.store.execute(Command { caller, dry_run, intent, idempotency }).await?)
}

/// The resource of an outcome, and whether the response is a replay.
fn resource_of(outcome: Outcome) -> Result<(Box<Resource>, bool), Error> {
    match outcome {
        Outcome::Resource(resource) => Ok((resource, false)),
        Outcome::Replayed(resource) => Ok((resource, true)),
        other => Err(Error::internal(format!("a command about a resource came to {other:?}"))),
    }
}

fn needs_owner(app: &App, entity: Option<&Entity>) -> Error {
    let hint = entity.and_then(|entity| {
        let owner = app.catalog().get(&entity.parent.as_ref()?.kind)?;
        let path = format!("{BASE}/{}/{{{}}}/{}", owner.plural, parameter(owner), entity.plural);
        Some(format!("{} is created below its {}: POST {path}", entity.kind, owner.kind))
    });
    Error::new(
        ErrorKind::Unprocessable,
        hint.unwrap_or_else(|| "This kind is created below its owner".to_owned()),
    )
}
