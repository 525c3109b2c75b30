//! One document carried out: what is there is compared with what is wished, and only the difference is sent.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use hyperfleet_client::{ListQuery, Page, Request, Resource};
use hyperfleet_core::{merge, same};
use serde_json::{Map, Value, json};

use super::plan::{Known, Place, Step};
use super::wish::{Wish, collection, owner, place, wish};
use crate::commands::{Exit, Failure};
use crate::remote::Session;
use crate::remote::change::{self, Changed, present};
use crate::remote::target::{self, Found, Prefer, Wanted, quoted};

/// A search may be 4096 bytes long; this leaves room for what stands around the names.
const MAX_SEARCH: usize = 3_400;

/// How to carry out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) dry_run: bool,
    pub(crate) replace: bool,
}

/// What became of a document.
#[derive(Debug)]
pub(crate) enum Outcome {
    Created,
    Changed,
    Unchanged,
    /// It was printed as a curl command.
    Printed,
    Failed(Failure),
}

/// What is there before a level is carried out.
#[derive(Debug, Default)]
pub(crate) struct Situation {
    /// Resources by kind, owner's id and name.
    there: HashMap<(String, String, String), Resource>,
}

impl Situation {
    pub(crate) fn resource(&self, step: &Step, owner: Option<&Place>) -> Option<&Resource> {
        let owner = match owner {
            Some(Place::Found(found)) => found.resource.id(),
            Some(Place::Pretended) => return None,
            None => "",
        };
        self.there.get(&(step.kind.kind.clone(), owner.to_owned(), step.document.name.clone()))
    }
}

/// Looks up the owners of these steps and what of them is there, many at a time.
pub(crate) async fn situation(
    session: &Session,
    known: &RefCell<Known>,
    steps: &[Step],
) -> Result<Situation, Failure> {
    let mut situation = Situation::default();
    let mut by_kind: HashMap<&str, Vec<(&Step, String)>> = HashMap::new();
    for step in steps {
        let owner = match &step.owner {
            None => String::new(),
            Some((kind, path)) => match place(session, known, kind, path).await {
                Ok(Place::Found(found)) => found.resource.id().to_owned(),
                Ok(Place::Pretended) => continue,
                // One without its owner fails by itself, not all with it.
                Err(failure)
                    if failure.code == u8::from(Exit::NotFound) || failure.code == u8::from(Exit::Usage) =>
                {
                    continue;
                }
                Err(failure) => return Err(failure),
            },
        };
        by_kind.entry(step.kind.kind.as_str()).or_default().push((step, owner));
    }
    for steps in by_kind.values() {
        for search in searches(steps) {
            let query = ListQuery { search: Some(search), page_size: Some(500), ..ListQuery::default() };
            let list = steps[0].0.kind.collection();
            let page: Page<Resource> = session.pages(Request::list(&list, &query), None).await?;
            for resource in page.items.into_iter().filter(|resource| !resource.is_finalizing()) {
                let owner = resource.owner().map(|owner| owner.id).unwrap_or_default();
                situation
                    .there
                    .insert((resource.kind().to_owned(), owner, resource.name().to_owned()), resource);
            }
        }
    }
    Ok(situation)
}

/// Searches that together find all of these, each short enough.
fn searches(steps: &[(&Step, String)]) -> Vec<String> {
    let mut searches = Vec::new();
    let (mut names, mut owners) = (BTreeSet::new(), BTreeSet::new());
    let mut length = 0;
    for (at, (step, owner)) in steps.iter().enumerate() {
        let (name, owner) = (quoted(&step.document.name), quoted(owner));
        length += name.len() + 1 + if owners.contains(&owner) { 0 } else { owner.len() + 1 };
        names.insert(name);
        owners.insert(owner);
        let is_last = at + 1 == steps.len();
        if length > MAX_SEARCH - 400 || is_last {
            let join = |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(",");
            let mut search = format!("name in [{}]", join(&names));
            if !owners.contains("''") {
                search.push_str(&format!(" and owner_id in [{}]", join(&owners)));
            }
            searches.push(search);
            names.clear();
            owners.clear();
            length = 0;
        }
    }
    searches
}

/// Carries out one document.
pub(crate) async fn one(
    session: &Session,
    known: &RefCell<Known>,
    situation: &Situation,
    step: &Step,
    way: Way,
) -> Outcome {
    match attempt(session, known, situation, step, way).await {
        Ok(outcome) => outcome,
        Err(failure) => Outcome::Failed(failure),
    }
}

async fn attempt(
    session: &Session,
    known: &RefCell<Known>,
    situation: &Situation,
    step: &Step,
    way: Way,
) -> Result<Outcome, Failure> {
    let owner = owner(session, known, step).await?;
    if matches!(owner, Some(Place::Pretended)) && !session.prints_curl() {
        known.borrow_mut().learn(&step.kind, &step.path(), Place::Pretended);
        return Ok(Outcome::Created);
    }
    let Wish { body, pretended } = wish(session, known, step).await?;
    if pretended && way.dry_run && !session.prints_curl() {
        known.borrow_mut().learn(&step.kind, &step.path(), Place::Pretended);
        return Ok(Outcome::Created);
    }
    if let Some(resource) = situation.resource(step, owner.as_ref()) {
        return change(session, known, step, resource, &body, way).await;
    }
    let collection = collection(step, owner.as_ref());
    let mut whole = json!({"kind": step.kind.kind, "name": step.document.name, "spec": {}});
    if let Some(members) = whole.as_object_mut() {
        members.extend(body.clone());
    }
    without_nulls(&mut whole["spec"]);
    without_nulls(&mut whole["labels"]);
    if whole["labels"].is_null()
        && let Some(members) = whole.as_object_mut()
    {
        members.remove("labels");
    }
    match session.call(Request::create(&collection, &whole, way.dry_run)).await {
        Ok(None) => {
            known.borrow_mut().learn(&step.kind, &step.path(), Place::Pretended);
            Ok(Outcome::Printed)
        }
        Ok(Some(answer)) => {
            let place = if way.dry_run {
                Place::Pretended
            } else {
                Place::Found(Box::new(Found { kind: step.kind.clone(), resource: answer.resource()? }))
            };
            known.borrow_mut().learn(&step.kind, &step.path(), place);
            Ok(Outcome::Created)
        }
        // Somebody made it since we looked; then it is changed like any other.
        Err(error) if error.problem().is_some_and(|problem| problem.code.ends_with("CNF-001")) => {
            let wanted = Wanted { kind: step.kind.clone(), path: vec![step.document.name.clone()] };
            let owner = match &owner {
                Some(Place::Found(found)) => Some(&**found),
                _ => None,
            };
            let found = target::resolve(session, &wanted, owner, Prefer::Active).await?;
            change(session, known, step, &found.resource, &body, way).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn change(
    session: &Session,
    known: &RefCell<Known>,
    step: &Step,
    resource: &Resource,
    body: &Map<String, Value>,
    way: Way,
) -> Result<Outcome, Failure> {
    let found = Found { kind: step.kind.clone(), resource: resource.clone() };
    known.borrow_mut().learn(&step.kind, &step.path(), Place::Found(Box::new(found.clone())));
    let wished = |there: &Resource| patch(there, body, way.replace);
    Ok(match change::carry_out(session, &found, way.dry_run, wished).await? {
        Changed::No(_) => Outcome::Unchanged,
        Changed::Yes(_) => Outcome::Changed,
        Changed::Printed => Outcome::Printed,
    })
}

/// The merge patch that makes the resource as wished; empty if it is so already.
pub(crate) fn patch(resource: &Resource, body: &Map<String, Value>, replace: bool) -> Map<String, Value> {
    let mut patch = Map::new();
    for (member, wished) in body {
        let there = present(resource, member);
        let wished = if replace { replacement(&there, wished) } else { wished.clone() };
        let mut merged = there.clone();
        merge(&mut merged, &wished);
        if !same(&there, &merged) {
            patch.insert(member.clone(), wished);
        }
    }
    patch
}

/// The merge patch from one value to another, with a null for whatever the other does not have.
fn replacement(there: &Value, wished: &Value) -> Value {
    let (Value::Object(there), Value::Object(wished)) = (there, wished) else { return wished.clone() };
    let mut patch = Map::new();
    for (member, value) in wished {
        let value = there.get(member).map_or_else(|| value.clone(), |old| replacement(old, value));
        patch.insert(member.clone(), value);
    }
    for member in there.keys().filter(|member| !wished.contains_key(*member)) {
        patch.insert(member.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// A null in a document means "not there", for a new resource as for an old one.
fn without_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, value| !value.is_null());
        members.values_mut().for_each(without_nulls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        Resource::from_value(json!({"id": "1", "spec": {"a": 1, "b": {"c": 2, "d": 3}}, "labels": {"x": "y"},
            "references": {"dns": [{"kind": "Zone", "id": "z", "href": "/z"}]}}))
        .unwrap()
    }

    fn patched(body: &Value, replace: bool) -> Value {
        Value::Object(patch(&resource(), body.as_object().unwrap(), replace))
    }

    #[test]
    fn only_what_differs_is_sent() {
        assert_eq!(patched(&json!({"spec": {"a": 1.0, "b": {"c": 2}}, "labels": {}}), false), json!({}));
        assert_eq!(patched(&json!({"references": {"dns": [{"kind": "Zone", "id": "z"}]}}), false), json!({}));
        assert_eq!(
            patched(&json!({"spec": {"a": 2}, "labels": {"x": "y"}}), false),
            json!({"spec": {"a": 2}})
        );
        assert_eq!(patched(&json!({"spec": {"b": {"d": null}}}), false), json!({"spec": {"b": {"d": null}}}));
        assert_eq!(patched(&json!({"spec": {"gone": null}}), false), json!({}));
    }

    #[test]
    fn replacing_removes_what_is_not_written() {
        assert_eq!(
            patched(&json!({"spec": {"b": {"c": 5}}, "labels": {}}), true),
            json!({"spec": {"b": {"c": 5, "d": null}, "a": null}, "labels": {"x": null}})
        );
        assert_eq!(patched(&json!({"spec": {"a": 1, "b": {"c": 2, "d": 3}}}), true), json!({}));
    }
}
