//! A change as a JSON Patch that says exactly what differs. Merge patches are for people who write them: a server in
//! `compatibility.contract: go-0.2` replaces each member that one names, and would lose what it does not name.

use hyperfleet_client::{PatchKind, Request, Resource};
use hyperfleet_core::{merge, same};
use serde_json::{Map, Value, json};

use super::Session;
use super::target::FoundResource;
use crate::commands::{Exit, Failure};

/// The server takes no more operations in one patch.
const MAX_OPERATIONS: usize = 1_000;
/// Attempts on a resource that changes concurrently.
const MAX_TRIES: usize = 4;

/// The outcome of a change.
#[derive(Debug)]
pub(crate) enum Changed {
    /// The resource already had these values.
    No(Resource),
    /// The resource was changed, or would be without a dry run.
    Yes(Resource),
    /// The request was printed instead.
    Printed,
}

/// Changes a resource as the merge patch that `desired` makes of it would. After a concurrent change the resource is read
/// again and the patch computed again, so that neither change is lost.
pub(crate) async fn carry_out(
    session: &Session,
    found: &FoundResource,
    dry_run: bool,
    desired: impl Fn(&Resource) -> Map<String, Value>,
) -> Result<Changed, Failure> {
    let item = found.item();
    let mut there = found.resource.clone();
    let mut operations = merging(&there, &desired(&there));
    for _ in 0..MAX_TRIES {
        if operations.as_array().is_some_and(Vec::is_empty) {
            return Ok(Changed::No(there));
        }
        let request = Request::patch(&item, &operations, PatchKind::Json, None, dry_run);
        match session.call(request).await {
            Ok(Some(answer)) => return Ok(Changed::Yes(answer.resource()?)),
            Ok(None) => return Ok(Changed::Printed),
            // The resource may have changed since it was read; if the operations stay the same, they are invalid.
            Err(error) if error.status() == Some(400) => {
                there = session.fetch(Request::get(item.to_string())).await?.resource()?;
                let again = merging(&there, &desired(&there));
                if again == operations {
                    return Err(error.into());
                }
                operations = again;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::with(Exit::Conflict, "the resource keeps changing; try again"))
}

/// The operations that equal a merge patch on a resource.
fn merging(resource: &Resource, patch: &Map<String, Value>) -> Value {
    let before: Map<String, Value> =
        patch.keys().map(|member| (member.clone(), present(resource, member))).collect();
    let mut after = Value::Object(before.clone());
    merge(&mut after, &Value::Object(patch.clone()));
    operations(&before, after.as_object().unwrap_or(&before))
}

/// A member as it is, in the form in which it is written.
pub(crate) fn present(resource: &Resource, member: &str) -> Value {
    let mut value = resource.raw().get(member).cloned().unwrap_or_else(|| json!({}));
    if member == "references" {
        for target in value
            .as_object_mut()
            .into_iter()
            .flat_map(Map::values_mut)
            .filter_map(Value::as_array_mut)
            .flatten()
        {
            if let Some(members) = target.as_object_mut() {
                members.remove("href");
            }
        }
    }
    value
}

/// The operations from one document to another, member by member. A list is replaced as a whole.
pub(crate) fn operations(before: &Map<String, Value>, after: &Map<String, Value>) -> Value {
    let mut all = Vec::new();
    members(&mut all, "", before, after);
    if all.len() > MAX_OPERATIONS {
        all.clear();
        for (member, value) in after.iter().filter(|(member, value)| before.get(*member) != Some(value)) {
            all.push(add(&pointer("", member), value));
        }
    }
    Value::Array(all)
}

fn members(all: &mut Vec<Value>, at: &str, before: &Map<String, Value>, after: &Map<String, Value>) {
    for (member, new) in after {
        let path = pointer(at, member);
        match (before.get(member), new) {
            (Some(old), new) if same(old, new) => {}
            (Some(Value::Object(old)), Value::Object(new)) => members(all, &path, old, new),
            // `add` replaces too, and works after a concurrent removal of the old value.
            _ => all.push(add(&path, new)),
        }
    }
    for member in before.keys().filter(|member| !after.contains_key(*member)) {
        all.push(json!({"op": "remove", "path": pointer(at, member)}));
    }
}

fn add(path: &str, value: &Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// RFC 6901.
fn pointer(at: &str, member: &str) -> String {
    format!("{at}/{}", member.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(before: &Value, after: &Value) -> Value {
        operations(before.as_object().unwrap(), after.as_object().unwrap())
    }

    #[test]
    fn only_what_differs_is_named() {
        let before =
            json!({"spec": {"n": 1, "deep": {"a": 1, "b/~c": 2}, "list": [1, 2]}, "labels": {"x": "y"}});
        for (after, expected) in [
            (
                json!({"spec": {"n": 1.0, "deep": {"a": 1, "b/~c": 2}, "list": [1, 2]}, "labels": {"x": "y"}}),
                json!([]),
            ),
            (
                json!({"spec": {"n": null, "deep": {"a": 1}, "list": [1]}, "labels": {"x": "y"}}),
                json!([
                    {"op": "add", "path": "/spec/n", "value": null},
                    {"op": "remove", "path": "/spec/deep/b~1~0c"},
                    {"op": "add", "path": "/spec/list", "value": [1]},
                ]),
            ),
            (
                json!({"spec": {"n": 1, "deep": 3, "list": [1, 2]}, "labels": {}}),
                json!([{"op": "add", "path": "/spec/deep", "value": 3}, {"op": "remove", "path": "/labels/x"}]),
            ),
        ] {
            assert_eq!(between(&before, &after), expected, "{after}");
        }
    }

    #[test]
    fn a_part_with_too_many_differences_is_sent_whole() {
        let many: Map<String, Value> = (0..=MAX_OPERATIONS).map(|n| (n.to_string(), json!(n))).collect();
        let after = json!({"spec": many, "labels": {"x": "y"}});
        assert_eq!(
            between(&json!({"spec": {}, "labels": {"x": "y"}}), &after),
            json!([{"op": "add", "path": "/spec", "value": after["spec"]}])
        );
    }
}
