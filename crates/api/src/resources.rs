//! The handlers of resources. Each decodes, calls the store, and renders; whatever is decided is
//! decided by the rules.

use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use hyperfleet_core::rules::{Outcome, Subject};
use hyperfleet_core::search::{Candidate, Options, Position};
use hyperfleet_core::{
    BASE, Caller, Command, Delete, Entity, Error, ErrorKind, Fault, FaultKind, Faults, ForceDelete, IfMatch,
    Intent, Patch, Projection, Resource, ResourceId, Retry, Sight, Version, echo,
};
use hyperfleet_store::{ListQuery, Start};
use tokio::runtime;

use crate::app::App;
use crate::gate::{Identified, Visitor};
use crate::page_token::Token;
use crate::place::{Path, parameter};
use crate::query::{self, ListParameters, ReadParameters};
use crate::{body, decode, past, render, retry, wait, watch};
use hyperfleet_service::problem::Failed;

pub(crate) type Answer = Result<Response, Failed>;

/// The headers of a request of which nothing else is wanted any more: they are taken, not copied.
pub(crate) struct Headers(pub(crate) HeaderMap);

impl<S: Send + Sync> FromRequest<S> for Headers {
    type Rejection = Infallible;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Infallible> {
        Ok(Self(request.into_parts().0.headers))
    }
}

/// `GET` of a collection.
pub(crate) async fn list(
    State(app): State<App>,
    path: Path,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> Answer {
    if query::is_watch(raw.as_deref()) {
        return watch::open(&app, &path, &visitor, raw.as_deref(), &headers).await;
    }
    let asked = Arc::new(ListKey::new(path.list_name(), raw, visitor.sight().clone()));
    if let Some((made, page)) = app.pages.get(&asked)
        && app.store.moment().await? == made
    {
        return Ok(json(StatusCode::OK, page));
    }
    let here = Arc::new((runtime::Handle::current().id(), asked));
    let page = app.lists.answer(&here, async || page(&app, &path, &here.1).await).await?;
    Ok(json(StatusCode::OK, page))
}

/// What makes two lists the same: the list with its owners, every parameter, and who sees.
#[derive(PartialEq, Eq)]
pub(crate) struct ListKey {
    list: String,
    raw: Option<String>,
    sight: Sight,
}

impl ListKey {
    pub(crate) fn new(list: String, raw: Option<String>, sight: Sight) -> Self {
        Self { list, raw, sight }
    }

    /// About how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.list.len() + self.raw.as_ref().map_or(0, String::len)
    }
}

/// Rights are compared only where all else is equal.
impl Hash for ListKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
        self.raw.hash(state);
        self.sight.tenant().hash(state);
    }
}

/// A page of a list, as it is answered.
async fn page(app: &App, path: &Path, asked: &Arc<ListKey>) -> Result<Bytes, Error> {
    let (sight, raw) = (&asked.sight, asked.raw.as_deref());
    let route = list_name(path, sight);
    let (sealed, options) = ((&app.seal, route.as_str()), Options { tenancy: app.rulebook.tenancy });
    let any_kind = path.place.entity.is_none();
    let list = ListParameters::parse(raw, app.catalog(), app.contract(), options, any_kind, sealed)?;
    let owner = owner(app, path, sight).await?;
    let kinds = kinds_of(app, path);
    let offset = (list.page - 1).saturating_mul(list.page_size);
    let found = app
        .store
        .list(
            sight,
            ListQuery {
                filter: list.filter(kinds, owner),
                order: list.order.clone(),
                start: list.after.clone().map_or(Start::Offset(offset), Start::After),
                limit: list.page_size,
                count: list.count,
            },
        )
        .await?;
    let kind = format!("{}List", path.place.kind());
    let frame = render::Frame {
        kind: app.contract().names_lists.then_some(&kind),
        page: list.page,
        size: found.items.len(),
        total: found.total,
    };
    let next = match found.items.last().filter(|_| found.more) {
        Some(last) => {
            let after = Position::of(&Candidate::new(app.rulebook.view(), last), &list.order);
            let page = list.page.saturating_add(1);
            Some(app.seal.close(&Token { criteria: list.criteria, after, page }, &route)?)
        }
        None => None,
    };
    let page = render::list(app.rulebook.view(), &frame, &found, next.as_deref(), list.fields.as_ref())?;
    // Its owners were looked at before it was read, so what it says of them is of no moment.
    if path.owners.is_empty() {
        app.pages.keep(asked, found.moment, &page);
    }
    Ok(page)
}

/// The kinds that a list is of.
pub(crate) fn kinds_of(app: &App, path: &Path) -> Vec<Arc<str>> {
    match &path.place.entity {
        Some(entity) => vec![entity.kind.clone()],
        None => app.catalog().kinds().map(|e| e.kind.clone()).collect(),
    }
}

/// What a page token is bound to: the list, and the tenant that sees it.
fn list_name(path: &Path, sight: &Sight) -> String {
    let tenant = sight.tenant().map(|tenant| format!("{tenant}/")).unwrap_or_default();
    tenant + &path.list_name()
}

/// `POST` to a collection.
pub(crate) async fn create(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> Answer {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    if path.place.lacks_owner() {
        return Err(needs_owner(&app, path.place.entity.as_deref()).into());
    }
    body::require_json(request.headers())?;
    let key = retry::key(&request, dry_run)?;
    let bytes = body::read(&app, request).await?;
    let members = body::parse_object(&bytes)?;
    let entity = match &path.place.entity {
        Some(entity) => entity,
        None => decode::kind_of(&app.rulebook, &members)?,
    };
    if path.place.entity.is_none() && entity.parent.is_some() {
        return Err(needs_owner(&app, Some(entity)).into());
    }
    let create = decode::create(&app.rulebook, entity, path.owners, members)?;
    let retry = key.map(|key| key.of(&caller, &bytes));
    // It is a part of what the connection has read, which could not be read into again meanwhile.
    drop(bytes);
    let (resource, again) = execute_once(&app, caller, dry_run, Intent::Create(create), retry).await?;
    let mut response = shown(&app, StatusCode::CREATED, &resource, None)?;
    header(&mut response, LOCATION, &app.rulebook.view().href(&resource));
    Ok(retry::mark(response, again))
}

/// `GET` of one resource.
pub(crate) async fn read(
    State(app): State<App>,
    path: Path,
    visitor: Visitor,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> Answer {
    let ReadParameters { fields, generation, wait } = ReadParameters::parse(raw.as_deref(), app.contract())?;
    let if_none_match = precondition(&headers, &IF_NONE_MATCH)?;
    if let Some(wait) = wait {
        // What is rare is kept in a box of its own, or every request would carry the room for it along.
        return Box::pin(wait::read(&app, &path, &visitor, &wait, fields.as_ref())).await;
    }
    let sight = visitor.sight();
    if let Some(generation) = generation {
        return Ok(Box::pin(past::read(&app, &path, sight, generation, fields.as_ref())).await?);
    }
    let resource = find(&app, &path, sight).await?;
    if if_none_match.is_some_and(|tags| tags.matches_weakly(resource.version)) {
        return Ok(about(&resource, StatusCode::NOT_MODIFIED.into_response()));
    }
    Ok(shown(&app, StatusCode::OK, &resource, fields.as_ref())?)
}

/// `PATCH` of one resource.
pub(crate) async fn patch(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> Answer {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let if_match = precondition(request.headers(), &IF_MATCH)?;
    let language = body::patch_language(request.headers())?;
    let bytes = body::read(&app, request).await?;
    let body = decode::patch(language, path.place.entity.as_deref(), &bytes)?;
    drop(bytes);
    let intent = Intent::Patch(Patch { target: path.target(), if_match, body });
    let resource = execute(&app, caller, dry_run, intent).await?;
    Ok(shown(&app, StatusCode::OK, &resource, None)?)
}

/// `DELETE` of one resource.
pub(crate) async fn delete(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    Headers(headers): Headers,
) -> Answer {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let if_match = precondition(&headers, &IF_MATCH)?;
    let intent = Intent::Delete(Delete { target: path.target(), if_match });
    let resource = execute(&app, caller, dry_run, intent).await?;
    Ok(shown(&app, StatusCode::ACCEPTED, &resource, None)?)
}

/// `POST …/force-delete`.
pub(crate) async fn force_delete(
    State(app): State<App>,
    path: Path,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> Answer {
    let dry_run = query::write(raw.as_deref(), app.contract())?;
    let if_match = precondition(request.headers(), &IF_MATCH)?;
    body::require_json(request.headers())?;
    let key = retry::key(&request, dry_run)?;
    let bytes = body::read(&app, request).await?;
    let reason = decode::force_delete(app.contract(), &bytes)?;
    let retry = key.map(|key| key.of(&caller, &bytes));
    drop(bytes);
    let intent = Intent::ForceDelete(ForceDelete { target: path.target(), if_match, reason });
    let (_, again) = execute_once(&app, caller, dry_run, intent, retry).await?;
    Ok(retry::mark(StatusCode::NO_CONTENT.into_response(), again))
}

/// Carries out what changes a resource, and returns it as it is then.
async fn execute(app: &App, caller: Caller, dry_run: bool, intent: Intent) -> Result<Box<Resource>, Error> {
    Ok(execute_once(app, caller, dry_run, intent, None).await?.0)
}

/// The same for what may be asked again; and whether it was.
async fn execute_once(
    app: &App,
    caller: Caller,
    dry_run: bool,
    intent: Intent,
    retry: Option<Retry>,
) -> Result<(Box<Resource>, bool), Error> {
    match app.store.execute(Command { caller, dry_run, intent, retry }).await? {
        Outcome::Resource(resource) => Ok((resource, false)),
        Outcome::Again(resource) => Ok((resource, true)),
        other => Err(Error::internal(format!("a command about a resource came to {other:?}"))),
    }
}

/// The resource that the path names.
pub(crate) async fn find(app: &App, path: &Path, sight: &Sight) -> Result<Arc<Resource>, Error> {
    let found = match ResourceId::parse(path.id()) {
        Some(id) => app.store.get(sight, id).await?,
        None => None,
    };
    if let Some(resource) = found.filter(|resource| path.names(resource)) {
        // Where roles may hide an owner, nothing is below it.
        if sight.rights().is_some() {
            Box::pin(owner(app, path, sight)).await?;
        }
        return Ok(resource);
    }
    // Only now is it worth knowing which part of the path is wrong.
    Box::pin(owner(app, path, sight)).await?;
    Err(Error::not_found(path.place.kind(), path.id()))
}

/// The direct owner that the path names, checked up to the outermost.
pub(crate) async fn owner(app: &App, path: &Path, sight: &Sight) -> Result<Option<ResourceId>, Error> {
    let mut owner: Option<ResourceId> = None;
    for (kind, id) in &path.owners {
        let found = match ResourceId::parse(id) {
            Some(id) => app.store.get(sight, id).await?,
            None => None,
        };
        let found = found.filter(|r| r.kind == *kind && (owner.is_none() || r.owner() == owner));
        owner = Some(found.ok_or_else(|| Error::not_found(kind, id))?.id);
    }
    Ok(owner)
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

pub(crate) fn precondition(headers: &HeaderMap, name: &HeaderName) -> Result<Option<IfMatch>, Error> {
    if !headers.contains_key(name) {
        return Ok(None);
    }
    let values = headers.get_all(name).iter();
    let text = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect::<Vec<_>>().join(", ");
    IfMatch::parse(&text).map(Some).ok_or_else(|| {
        let title = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
        let message =
            format!("{title} must be * or a list of entity tags such as \"42\", not {}", echo(&text));
        let fault = Fault::new(FaultKind::Value, title, message).given(&text.into()).format("entity-tag");
        Faults::one(fault).into_error()
    })
}

/// An answer that shows a resource, or parts of it.
pub(crate) fn shown(
    app: &App,
    status: StatusCode,
    resource: &Resource,
    fields: Option<&Projection>,
) -> Result<Response, Error> {
    Ok(about(resource, json(status, render::resource(app.rulebook.view(), resource, fields)?)))
}

/// An answer that is about one resource: its tag for the caller, its name for the log.
fn about(resource: &Resource, mut response: Response) -> Response {
    response.headers_mut().insert(ETAG, etag(resource.version));
    response.extensions_mut().insert(Subject::of(resource));
    response
}

/// The tag of a resource or a lease: its version.
pub(crate) fn etag(version: Version) -> HeaderValue {
    let tag = ["\"", itoa::Buffer::new().format(version.0), "\""].concat();
    HeaderValue::from_maybe_shared(Bytes::from(tag)).expect("digits between quotes")
}

pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
