//! `whoami` and `authz/check`: the identity of the caller, and what the caller's roles allow.

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::Request;
use hyperfleet_core::{
    AccessDecision, Contract, Error, Fault, Faults, Labels, RawJson, ResourceId, Verb, echo,
};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::gate::AdmittedCaller;
use crate::response::HandlerResult;
use crate::{body, query};

/// `GET B/whoami`.
pub(crate) async fn whoami(caller: AdmittedCaller, RawQuery(raw): RawQuery) -> HandlerResult {
    query::none(raw.as_deref(), Contract::Documented)?;
    let tenant: Option<Value> =
        caller.tenant().map(|tenant| RawJson::from_stored(tenant.as_str()).parse()).transpose()?;
    let mut document = json!({"identity": caller.identity(), "system": caller.is_system()});
    if let Some(tenant) = tenant {
        document["tenant"] = tenant;
    }
    if let Some(rights) = caller.rights() {
        document["roles"] = rights.roles().collect::<Value>();
    }
    Ok(Json(document).into_response())
}

/// `POST B/authz/check`: whether the caller may do this, and by which role.
pub(crate) async fn check(
    State(app): State<App>,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    query::none(raw.as_deref(), Contract::Documented)?;
    body::require_json(request.headers())?;
    let question = body::parse_object(&body::read(&app, request).await?)?;
    let (verb, kind, id) = read(&app, &question)?;
    let scope = caller.scope();
    let decision = match id {
        None => caller.rights().map(|rights| rights.on_some(verb, &kind)),
        Some(id) => {
            let found = match ResourceId::parse(&id) {
                Some(id) => app.store.get(scope, id).await?.filter(|resource| *resource.kind == *kind),
                None => None,
            };
            let resource = found.ok_or_else(|| Error::not_found(&kind, &id))?;
            let labels: Labels = resource.labels.parse()?;
            caller.rights().map(|rights| rights.on(verb, &kind, &labels))
        }
    };
    let reserved = caller.is_system() && !matches!(verb, Verb::Read | Verb::Report);
    Ok(response(decision, reserved))
}

fn response(decision: Option<AccessDecision>, reserved: bool) -> Response {
    let (allowed, rule) = match decision {
        _ if reserved => (false, "a system caller may write nothing but reports and leases".to_owned()),
        None => (true, "roles are off".to_owned()),
        Some(AccessDecision::Granted(role)) => (true, format!("role {role}")),
        Some(AccessDecision::NotThisResource) => {
            (false, "no rule that grants this covers the labels".to_owned())
        }
        Some(AccessDecision::NotThisVerb) => (false, "no rule grants this verb on this kind".to_owned()),
    };
    Json(json!({"allowed": allowed, "rule": rule})).into_response()
}

fn read(app: &App, question: &Map<String, Value>) -> Result<(Verb, String, Option<String>), Error> {
    let mut faults = Vec::new();
    let mut text = |member: &str| match question.get(member) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => {
            faults.push(Fault::wrong_type(member, "a string", other));
            None
        }
    };
    let (verb, kind, id) = (text("verb"), text("kind"), text("id"));
    for (member, given) in [("verb", &verb), ("kind", &kind)] {
        if given.is_none() && !faults.iter().any(|fault| fault.field == member) {
            faults.push(Fault::missing(member));
        }
    }
    if let Some(verb) = verb.as_ref().filter(|verb| Verb::parse(verb).is_none()) {
        let names = Verb::ALL.map(|(name, _)| name);
        let message = format!("verb must be one of {}, not '{}'", names.join(", "), echo(verb));
        faults.push(Fault::value("verb", message, &verb.as_str().into()).rule("enum").allowed(names));
    }
    if let Some(kind) = kind.as_ref().filter(|kind| app.catalog().get(kind).is_none()) {
        let kinds: Vec<&str> = app.catalog().kinds().map(|entity| &*entity.kind).collect();
        let message = format!("kind must be one of {}, not '{}'", kinds.join(", "), echo(kind));
        faults.push(Fault::value("kind", message, &kind.as_str().into()).rule("enum").allowed(kinds));
    }
    for member in question.keys().filter(|member| !["verb", "kind", "id"].contains(&member.as_str())) {
        faults.push(Fault::unknown_member(echo(member)));
    }
    Faults::from(faults).or(())?;
    let verb = verb.as_deref().and_then(Verb::parse).ok_or_else(|| Error::internal("an unchecked verb"))?;
    Ok((verb, kind.unwrap_or_default(), id))
}
