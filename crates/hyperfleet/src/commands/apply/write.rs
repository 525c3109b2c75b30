//! Applies one document: the resource is compared with the desired state, and only the difference is sent.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use hyperfleet_client::{ListQuery, Page, Request, Resource};
use hyperfleet_core::{merge, same};
use serde_json::{Map, Value, json};

use super::desired::{Desired, collection, desired, lookup, owner};
use super::plan::{Lookup, Lookups, Step};
use crate::commands::{Exit, Failure};
use crate::remote::Session;
use crate::remote::change::{self, Changed, present};
use crate::remote::target::{self, FoundResource, NamedTarget, Prefer, quoted};

/// A search may be 4096 bytes long; this leaves space for the rest of the query.
const MAX_SEARCH: usize = 3_400;

/// The code of a name that is taken.
const NAME_TAKEN: &str = "HYPERFLEET-CNF-001";

/// Options of `apply`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) replace: bool,
}

/// The outcome of a document.
#[derive(Debug)]
pub(crate) enum Applied {
    Created,
    Changed,
    Unchanged,
    /// The request was printed as a curl command.
    Printed,
    Failed(Failure),
}

/// The resources that exist before a level is applied.
#[derive(Debug, Default)]
pub(crate) struct Existing {
    /// Resources by kind, owner's id and name.
    there: HashMap<(String, String, String), Resource>,
}

impl Existing {
    pub(crate) fn resource(&self, step: &Step, owner: Option<&Lookup>) -> Option<&Resource> {
        let owner = match owner {
            Some(Lookup::FoundResource(found)) => found.resource.id(),
            Some(Lookup::Planned) => return None,
            None => "",
        };
        self.there.get(&(step.kind.kind.clone(), owner.to_owned(), step.document.name.clone()))
    }
}

/// Looks up the owners of these steps and their existing resources, in batches.
pub(crate) async fn existing(
    session: &Session,
    lookups: &RefCell<Lookups>,
    steps: &[Step],
) -> Result<Existing, Failure> {
    let mut existing = Existing::default();
    let mut by_kind: HashMap<&str, Vec<(&Step, String)>> = HashMap::new();
    for step in steps {
        let owner = match &step.owner {
            None => String::new(),
            Some((kind, path)) => match lookup(session, lookups, kind, path).await {
                Ok(Lookup::FoundResource(found)) => found.resource.id().to_owned(),
                Ok(Lookup::Planned) => continue,
                // A step without its owner fails alone.
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
                existing
                    .there
                    .insert((resource.kind().to_owned(), owner, resource.name().to_owned()), resource);
            }
        }
    }
    Ok(existing)
}

/// Searches that together find all of these, each short enough.
fn searches(steps: &[(&Step, String)]) -> Vec<String> {
    let mut searches = Vec::new();
    let (mut names, mut owners) = (BTreeSet::new(), BTreeSet::new());
    let mut has_root = false;
    let mut length = 0;
    for (at, (step, owner)) in steps.iter().enumerate() {
        has_root |= owner.is_empty();
        let (name, owner) = (quoted(&step.document.name), quoted(owner));
        length += name.len() + 1 + if owners.contains(&owner) { 0 } else { owner.len() + 1 };
        names.insert(name);
        owners.insert(owner);
        let is_last = at + 1 == steps.len();
        if length > MAX_SEARCH - 400 || is_last {
            let join = |words: &BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(",");
            let mut search = format!("name in [{}]", join(&names));
            if !has_root {
                search.push_str(&format!(" and owner_id in [{}]", join(&owners)));
            }
            searches.push(search);
            names.clear();
            owners.clear();
            has_root = false;
            length = 0;
        }
    }
    searches
}

/// Applies one document.
pub(crate) async fn one(
    session: &Session,
    lookups: &RefCell<Lookups>,
    existing: &Existing,
    step: &Step,
    options: WriteOptions,
) -> Applied {
    match attempt(session, lookups, existing, step, options).await {
        Ok(outcome) => outcome,
        Err(failure) => Applied::Failed(failure),
    }
}

async fn attempt(
    session: &Session,
    lookups: &RefCell<Lookups>,
    existing: &Existing,
    step: &Step,
    options: WriteOptions,
) -> Result<Applied, Failure> {
    let owner = owner(session, lookups, step).await?;
    if matches!(owner, Some(Lookup::Planned)) && !session.prints_curl() {
        lookups.borrow_mut().record(&step.kind, &step.path(), Lookup::Planned);
        return Ok(Applied::Created);
    }
    let Desired { body, planned } = desired(session, lookups, step).await?;
    if planned && options.dry_run && !session.prints_curl() {
        lookups.borrow_mut().record(&step.kind, &step.path(), Lookup::Planned);
        return Ok(Applied::Created);
    }
    if let Some(resource) = existing.resource(step, owner.as_ref()) {
        return change(session, lookups, step, resource, &body, options).await;
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
    match session.call(Request::create(&collection, &whole, options.dry_run)).await {
        Ok(None) => {
            lookups.borrow_mut().record(&step.kind, &step.path(), Lookup::Planned);
            Ok(Applied::Printed)
        }
        Ok(Some(answer)) => {
            let lookup = if options.dry_run {
                Lookup::Planned
            } else {
                Lookup::FoundResource(Box::new(FoundResource {
                    kind: step.kind.clone(),
                    resource: answer.resource()?,
                }))
            };
            lookups.borrow_mut().record(&step.kind, &step.path(), lookup);
            Ok(Applied::Created)
        }
        // The resource was created since the lookup, so it is changed like any other.
        Err(error) if error.problem().is_some_and(|problem| problem.code == NAME_TAKEN) => {
            let wanted = NamedTarget { kind: step.kind.clone(), path: vec![step.document.name.clone()] };
            let owner = match &owner {
                Some(Lookup::FoundResource(found)) => Some(&**found),
                _ => None,
            };
            let found = target::resolve(session, &wanted, owner, Prefer::Active).await?;
            change(session, lookups, step, &found.resource, &body, options).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn change(
    session: &Session,
    lookups: &RefCell<Lookups>,
    step: &Step,
    resource: &Resource,
    body: &Map<String, Value>,
    options: WriteOptions,
) -> Result<Applied, Failure> {
    let found = FoundResource { kind: step.kind.clone(), resource: resource.clone() };
    lookups.borrow_mut().record(&step.kind, &step.path(), Lookup::FoundResource(Box::new(found.clone())));
    let desired = |there: &Resource| patch(there, body, options.replace);
    Ok(match change::carry_out(session, &found, options.dry_run, desired).await? {
        Changed::No(_) => Applied::Unchanged,
        Changed::Yes(_) => Applied::Changed,
        Changed::Printed => Applied::Printed,
    })
}

/// The merge patch to the desired state; empty if the resource has it already.
pub(crate) fn patch(resource: &Resource, body: &Map<String, Value>, replace: bool) -> Map<String, Value> {
    let mut patch = Map::new();
    for (member, desired) in body {
        let there = present(resource, member);
        let desired = if replace { replacement(&there, desired) } else { desired.clone() };
        let mut merged = there.clone();
        merge(&mut merged, &desired);
        if !same(&there, &merged) {
            patch.insert(member.clone(), desired);
        }
    }
    patch
}

/// The merge patch from one value to another, with a null for each member that the other does not have.
fn replacement(there: &Value, desired: &Value) -> Value {
    let (Value::Object(there), Value::Object(desired)) = (there, desired) else { return desired.clone() };
    let mut patch = Map::new();
    for (member, value) in desired {
        let value = there.get(member).map_or_else(|| value.clone(), |old| replacement(old, value));
        patch.insert(member.clone(), value);
    }
    for member in there.keys().filter(|member| !desired.contains_key(*member)) {
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
