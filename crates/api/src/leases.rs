//! The handlers of leases: which of several replicas works on what. They need the verb `report` on any kind, because
//! the components that share work are those that report on it. A group belongs to the tenant of its callers, or to the
//! system.

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, RawQuery, State};
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Request, StatusCode};
use hyperfleet_core::{
    Claim, Contract, Error, ExpectedVersion, Fault, FaultKind, Faults, FeedPosition, LEASE_TTL,
    check_lease_holder, check_lease_name, echo, json_text,
};
use hyperfleet_service::settings::parse_duration;
use serde_json::{Map, Value};
use std::time::Duration;

use crate::app::App;
use crate::contract::HttpContract;
use crate::gate::{AdmittedCaller, Identified};
use crate::precondition::precondition;
use crate::query::{self, LeaseListParameters};
use crate::response::{HandlerResult, etag, json};
use crate::{body, render};

/// `GET B/leases`: the held leases of a group.
pub(crate) async fn list(
    State(app): State<App>,
    caller: AdmittedCaller,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let scope = caller.scope();
    let token_signer = app.token_signer();
    let list = LeaseListParameters::parse(raw.as_deref(), app.contract(), &token_signer, scope)?;
    let found = app.store.leases(scope, &list.group, &list.page.slice).await?;
    let frame =
        render::Frame::new(app.contract(), "LeaseList", list.page.page, found.items.len(), found.total);
    let last = found.items.last().filter(|_| found.more).map(|lease| lease.name.as_str());
    let next = list.page.next(last, (&token_signer, &list.route))?;
    Ok(json(StatusCode::OK, render::leases(&frame, found, next.as_deref())?.into_body()))
}

/// `PUT B/leases/{group}/{name}`: acquires, renews or releases a lease.
pub(crate) async fn put(
    State(app): State<App>,
    path: Result<RawPathParams, RawPathParamsRejection>,
    Identified(caller): Identified,
    RawQuery(raw): RawQuery,
    request: Request<Body>,
) -> HandlerResult {
    query::none(raw.as_deref(), app.contract())?;
    body::require_json(request.headers())?;
    let headers = request.headers().clone();
    let members = body::parse_object(&body::read(&app, request).await?)?;
    let claim = claim(app.contract(), path.ok().as_ref(), &headers, members)?;
    let epoch = app.store.epoch();
    let lease = app.store.claim(&caller.scope, &claim).await?;
    let mut response = json(StatusCode::OK, json_text(&lease));
    response.headers_mut().insert(ETAG, etag(FeedPosition { epoch, version: lease.version }));
    Ok(response)
}

/// Decodes a claim and reports every fault of path, preconditions and body.
fn claim(
    contract: Contract,
    path: Option<&RawPathParams>,
    headers: &HeaderMap,
    members: Map<String, Value>,
) -> Result<Claim, Error> {
    let mut faults = Faults::default();
    let mut named = |wanted: &'static str| {
        // A name that is not UTF-8 is not valid.
        let given =
            path.and_then(|path| path.iter().find(|(name, _)| *name == wanted)).map_or("", |(_, v)| v);
        faults.extend(check_lease_name(FaultKind::Identifier, wanted, given));
        given.to_owned()
    };
    let (group, name) = (named("group"), named("name"));
    let expected = preconditions(headers, &mut faults);
    let (mut holder, mut ttl) = (None, None);
    for (member, value) in members {
        match (member.as_str(), value) {
            ("holder" | "ttl", Value::Null) => {}
            ("holder", Value::String(text)) => {
                faults.extend(check_lease_holder(&text));
                holder = Some(text);
            }
            ("holder", other) => {
                faults.push(Fault::wrong_type("holder", "a string", &other));
                holder = Some(String::new());
            }
            ("ttl", value) => ttl = Some(check_ttl(&value, &mut faults)),
            _ if HttpContract::of(contract).refuses_unknown => faults.push(Fault::unknown_member(member)),
            _ => {}
        }
    }
    for (member, there) in [("holder", holder.is_some()), ("ttl", ttl.is_some())] {
        if !there {
            faults.push(Fault::missing(member));
        }
    }
    faults.or(Claim {
        group,
        name,
        holder: holder.unwrap_or_default(),
        ttl: ttl.unwrap_or_default(),
        expected,
    })
}

/// `If-None-Match: *` means the same as no precondition: the lease must be free.
fn preconditions(headers: &HeaderMap, faults: &mut Faults) -> Option<ExpectedVersion> {
    let mut read = |name| {
        precondition(headers, name).unwrap_or_else(|error| {
            faults.extend(error.faults);
            None
        })
    };
    let (if_match, if_none_match) = (read(&IF_MATCH), read(&IF_NONE_MATCH));
    match if_none_match {
        Some(ExpectedVersion::Tags { .. }) => {
            let message = "If-None-Match must be * here: only a lease that nobody has";
            faults.push(Fault::new(FaultKind::Value, "If-None-Match", message).rule("enum").allowed(["*"]));
        }
        Some(ExpectedVersion::Any) if if_match.is_some() => {
            let message = "If-Match and If-None-Match exclude each other";
            faults.push(Fault::new(FaultKind::Value, "If-None-Match", message).rule("exclusive"));
        }
        _ => {}
    }
    if_match
}

fn check_ttl(value: &Value, faults: &mut Faults) -> Duration {
    let Value::String(text) = value else {
        faults.push(Fault::wrong_type("ttl", "a string", value));
        return Duration::ZERO;
    };
    let ttl = parse_duration(text);
    if !ttl.is_some_and(|ttl| ttl.is_zero() || LEASE_TTL.contains(&ttl)) {
        let message = format!(
            "ttl must be a duration such as 10s, from 1s to 1h, or 0s to give the lease back, not '{}'",
            echo(text)
        );
        let rule = match ttl {
            None => "format",
            Some(ttl) if ttl < *LEASE_TTL.start() => "min",
            Some(_) => "max",
        };
        faults.push(Fault::value("ttl", message, value).rule(rule));
    }
    ttl.unwrap_or_default()
}
