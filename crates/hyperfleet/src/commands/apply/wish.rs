//! What a document wishes for in the API's terms: owners and targets of references by id, where they are there; by a
//! stand-in where a dry run only pretends to make them, or a request is only printed.

use std::cell::RefCell;

use hyperfleet_client::{Collection, Kind};
use serde_json::{Map, Value, json};

use super::plan::{Known, Place, Step};
use crate::commands::{Exit, Failure};
use crate::output;
use crate::remote::Session;
use crate::remote::target::{self, Prefer, Wanted, called};

/// What a document wishes for, as the API has it: references by id.
pub(crate) struct Wish {
    pub(crate) body: Map<String, Value>,
    /// It refers to something that a dry run only pretended to make, which is there by its name.
    pub(crate) pretended: bool,
}

/// Looks up what the document refers to.
pub(crate) async fn wish(session: &Session, known: &RefCell<Known>, step: &Step) -> Result<Wish, Failure> {
    let mut body = Map::new();
    body.extend(step.document.spec.clone().map(|spec| ("spec".to_owned(), spec)));
    body.extend(step.document.labels.clone().map(|labels| ("labels".to_owned(), labels)));
    let mut pretended = false;
    let Some(references) = &step.document.references else { return Ok(Wish { body, pretended }) };
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
                    match place(session, known, kind, &target.path).await? {
                        Place::Found(found) => json!({"kind": kind.kind, "id": found.resource.id()}),
                        Place::Pretended if session.prints_curl() => {
                            json!({"kind": kind.kind, "id": stand_in(kind, &target.path)})
                        }
                        Place::Pretended => {
                            pretended = true;
                            json!({"kind": kind.kind, "name": target.path.join("/")})
                        }
                    }
                }
            });
        }
        all.insert(ref_type.clone(), Value::Array(ids));
    }
    body.insert("references".to_owned(), Value::Object(all));
    Ok(Wish { body, pretended })
}

/// What a printed request has in place of the id that an earlier one will bring.
fn stand_in(kind: &Kind, path: &[String]) -> String {
    format!("ID_OF_{}", called(&kind.kind, &path.join("/")).replace('/', "_"))
}

/// Where the owner of a document is.
pub(crate) async fn owner(
    session: &Session,
    known: &RefCell<Known>,
    step: &Step,
) -> Result<Option<Place>, Failure> {
    match &step.owner {
        Some((kind, path)) => place(session, known, kind, path).await.map(Some),
        None => Ok(None),
    }
}

/// Where a document's resource is made.
pub(crate) fn collection(step: &Step, owner: Option<&Place>) -> Collection {
    match (owner, &step.owner) {
        (Some(Place::Found(owner)), _) => owner.item().below(&step.kind.plural),
        (Some(Place::Pretended), Some((kind, path))) => {
            kind.collection().item(&stand_in(kind, path)).below(&step.kind.plural)
        }
        _ => step.kind.collection(),
    }
}

/// Where something is that documents name; asked for once. A request that is only printed needs nothing to be there.
pub(super) async fn place(
    session: &Session,
    known: &RefCell<Known>,
    kind: &Kind,
    path: &[String],
) -> Result<Place, Failure> {
    let already = known.borrow().get(kind, path).cloned();
    if let Some(place) = already {
        return Ok(place);
    }
    if let Some(failure) = known.borrow().failure(kind, path) {
        return Err(failure.clone());
    }
    let wanted = Wanted { kind: kind.clone(), path: path.to_vec() };
    let place = match target::resolve(session, &wanted, None, Prefer::Active).await {
        Ok(found) => Place::Found(Box::new(found)),
        Err(failure) if session.prints_curl() && failure.code == u8::from(Exit::NotFound) => {
            output::talk(&format!("{}: {} stands for its id", failure.text, stand_in(kind, path)));
            Place::Pretended
        }
        Err(failure) => {
            if failure.code == u8::from(Exit::NotFound) {
                known.borrow_mut().learn_failure(kind, path, failure.clone());
            }
            return Err(failure);
        }
    };
    known.borrow_mut().learn(kind, path, place.clone());
    Ok(place)
}
