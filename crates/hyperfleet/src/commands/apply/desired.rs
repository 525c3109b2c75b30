//! The desired state of a document in the terms of the API: owners and targets of references by id. A resource that a dry
//! run or a printed request only plans is named by a placeholder.

use std::cell::RefCell;

use hyperfleet_client::{Collection, Kind};
use serde_json::{Map, Value, json};

use super::plan::{Lookup, Lookups, Step};
use crate::commands::{Exit, Failure};
use crate::output;
use crate::remote::Session;
use crate::remote::target::{self, NamedTarget, Prefer, display_name};

/// The desired state of a document, with references by id.
pub(crate) struct Desired {
    pub(crate) body: Map<String, Value>,
    /// Whether a reference names a resource that a dry run only plans.
    pub(crate) planned: bool,
}

/// Looks up what the document refers to.
pub(crate) async fn desired(
    session: &Session,
    lookups: &RefCell<Lookups>,
    step: &Step,
) -> Result<Desired, Failure> {
    let mut body = Map::new();
    body.extend(step.document.spec.clone().map(|spec| ("spec".to_owned(), spec)));
    body.extend(step.document.labels.clone().map(|labels| ("labels".to_owned(), labels)));
    let mut planned = false;
    let Some(references) = &step.document.references else { return Ok(Desired { body, planned }) };
    let mut all = Map::new();
    for (ref_type, targets) in references {
        let mut ids = Vec::new();
        for target in targets {
            let id =
                target.path.last().filter(|name| target.path.len() == 1 && target::looks_like_an_id(name));
            ids.push(match (id, target.kind.as_str()) {
                (Some(id), "") => json!({"id": id}),
                (Some(id), kind) => json!({"kind": session.kinds().await?.find(kind)?.kind, "id": id}),
                (None, kind) => {
                    let kind = session.kinds().await?.find(kind)?;
                    match lookup(session, lookups, kind, &target.path).await? {
                        Lookup::FoundResource(found) => json!({"kind": kind.kind, "id": found.resource.id()}),
                        Lookup::Planned if session.prints_curl() => {
                            json!({"kind": kind.kind, "id": stand_in(kind, &target.path)})
                        }
                        Lookup::Planned => {
                            planned = true;
                            json!({"kind": kind.kind, "name": target.path.join("/")})
                        }
                    }
                }
            });
        }
        all.insert(ref_type.clone(), Value::Array(ids));
    }
    body.insert("references".to_owned(), Value::Object(all));
    Ok(Desired { body, planned })
}

/// The placeholder in a printed request for the id that an earlier request will return.
fn stand_in(kind: &Kind, path: &[String]) -> String {
    format!("ID_OF_{}", display_name(&kind.kind, &path.join("/")).replace('/', "_"))
}

/// Where the owner of a document is.
pub(crate) async fn owner(
    session: &Session,
    lookups: &RefCell<Lookups>,
    step: &Step,
) -> Result<Option<Lookup>, Failure> {
    match &step.owner {
        Some((kind, path)) => lookup(session, lookups, kind, path).await.map(Some),
        None => Ok(None),
    }
}

/// Where a document's resource is made.
pub(crate) fn collection(step: &Step, owner: Option<&Lookup>) -> Collection {
    match (owner, &step.owner) {
        (Some(Lookup::FoundResource(owner)), _) => owner.item().below(&step.kind.plural),
        (Some(Lookup::Planned), Some((kind, path))) => {
            kind.collection().item(&stand_in(kind, path)).below(&step.kind.plural)
        }
        _ => step.kind.collection(),
    }
}

/// Looks up a resource that documents name, once. A request that is only printed needs nothing to be there.
pub(super) async fn lookup(
    session: &Session,
    lookups: &RefCell<Lookups>,
    kind: &Kind,
    path: &[String],
) -> Result<Lookup, Failure> {
    let already = lookups.borrow().get(kind, path).cloned();
    if let Some(lookup) = already {
        return Ok(lookup);
    }
    if let Some(failure) = lookups.borrow().failure(kind, path) {
        return Err(failure.clone());
    }
    let wanted = NamedTarget { kind: kind.clone(), path: path.to_vec() };
    let lookup = match target::resolve(session, &wanted, None, Prefer::Active).await {
        Ok(found) => Lookup::FoundResource(Box::new(found)),
        Err(failure) if session.prints_curl() && failure.code == u8::from(Exit::NotFound) => {
            output::message(&format!("{}: {} stands for its id", failure.text, stand_in(kind, path)));
            Lookup::Planned
        }
        Err(failure) => {
            if failure.code == u8::from(Exit::NotFound) {
                lookups.borrow_mut().record_failure(kind, path, failure.clone());
            }
            return Err(failure);
        }
    };
    lookups.borrow_mut().record(kind, path, lookup.clone());
    Ok(lookup)
}
