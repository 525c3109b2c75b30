//! The labels and annotations that lead from an object back to its resource, and the hash of what was applied.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::targets::{Ownership, TargetError};

use super::failure;

/// Who manages the object, for other tools. Authors may say something else.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Name of the adapter.
pub(super) const ADAPTER: &str = "hyperfleet.io/adapter";
/// Kind of the resource.
pub(super) const RESOURCE_KIND: &str = "hyperfleet.io/resource-kind";
/// Id of the resource.
pub(super) const RESOURCE_ID: &str = "hyperfleet.io/resource-id";
/// Name of the declared resource in the task.
pub(super) const TASK_RESOURCE: &str = "hyperfleet.io/task-resource";
/// Generation of the resource. Authors may write it themselves.
pub(super) const GENERATION: &str = "hyperfleet.io/generation";
/// Path of the resource in the API.
const HREF: &str = "hyperfleet.io/href";
/// Hash of the manifest that was applied last.
pub(super) const APPLIED: &str = "hyperfleet.io/applied";

/// The manifest with all labels and annotations, the hash among them.
pub(super) fn stamp(manifest: &Value, ownership: &Ownership) -> Result<Value, TargetError> {
    let mut stamped = manifest.clone();
    let metadata = member(&mut stamped, "metadata")?;
    let labels = member_of(metadata, "labels")?;
    labels.entry(MANAGED_BY).or_insert_with(|| "hyperfleet".into());
    for (name, value) in [
        (ADAPTER, &ownership.adapter),
        (RESOURCE_KIND, &ownership.resource_kind),
        (RESOURCE_ID, &ownership.resource_id),
        (TASK_RESOURCE, &ownership.task_resource),
    ] {
        labels.insert(name.to_owned(), value.as_str().into());
    }
    let annotations = member_of(metadata, "annotations")?;
    annotations.entry(GENERATION).or_insert_with(|| ownership.generation.to_string().into());
    annotations.insert(HREF.to_owned(), ownership.href.as_str().into());
    // A copy from a cluster may have one.
    annotations.shift_remove(APPLIED);
    let hash = hash(&stamped);
    member_of(member(&mut stamped, "metadata")?, "annotations")?.insert(APPLIED.to_owned(), hash.into());
    Ok(stamped)
}

fn member<'a>(value: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, TargetError> {
    member_of(value.as_object_mut().ok_or_else(|| failure::manifest("the manifest is not an object"))?, name)
}

fn member_of<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, TargetError> {
    let member = map.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut().ok_or_else(|| failure::manifest(format!("{name} is not an object")))
}

/// The same for manifests that mean the same: members in any order.
fn hash(value: &Value) -> String {
    let mut hasher = Sha256::new();
    digest(value, &mut hasher);
    hasher.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            hasher.update([b'{']);
            for (name, value) in sorted {
                hasher.update(Value::from(name.as_str()).to_string());
                digest(value, hasher);
            }
            hasher.update([b'}']);
        }
        Value::Array(items) => {
            hasher.update([b'[']);
            for item in items {
                digest(item, hasher);
                hasher.update([b',']);
            }
            hasher.update([b']']);
        }
        scalar => hasher.update(scalar.to_string()),
    }
}

/// A label of an object.
pub(super) fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][name].as_str()
}

/// An annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// The generation that the object was applied at.
pub(super) fn generation(object: &Value) -> Option<i64> {
    annotation(object, GENERATION)?.parse().ok()
}

/// Whether the object belongs to this adapter and resource.
pub(super) fn is_ours(object: &Value, ownership: &Ownership) -> bool {
    label(object, ADAPTER) == Some(&ownership.adapter)
        && label(object, RESOURCE_ID) == Some(&ownership.resource_id)
}

/// Whom the object belongs to, for people.
pub(super) fn owner(object: &Value) -> String {
    match (label(object, ADAPTER), label(object, RESOURCE_KIND), label(object, RESOURCE_ID)) {
        (Some(adapter), kind, Some(id)) => {
            format!("adapter {adapter} made it for {} {id}", kind.unwrap_or("resource"))
        }
        _ => "it was there before".to_owned(),
    }
}

/// Whether the object has all labels and annotations of the stamped manifest. The server adds no defaults to them, so
/// they can be compared.
pub(super) fn has_metadata_of(object: &Value, stamped: &Value) -> bool {
    ["labels", "annotations"].iter().all(|part| {
        let declared = stamped["metadata"][part].as_object();
        declared.is_none_or(|declared| {
            declared.iter().all(|(name, value)| object["metadata"][part].get(name) == Some(value))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ours() -> Ownership {
        Ownership {
            adapter: "job".to_owned(),
            resource_kind: "Cluster".to_owned(),
            resource_id: "0190".to_owned(),
            task_resource: "work".to_owned(),
            generation: 3,
            href: "/api/hyperfleet/v1/clusters/0190".to_owned(),
        }
    }

    #[test]
    fn an_object_leads_back_to_its_resource() {
        let manifest =
            json!({"metadata": {"name": "a", "labels": {MANAGED_BY: "someone"}, "annotations": null}});
        let stamped = stamp(&manifest, &ours()).unwrap();
        assert!(is_ours(&stamped, &ours()));
        assert_eq!(label(&stamped, MANAGED_BY), Some("someone"));
        assert_eq!(label(&stamped, TASK_RESOURCE), Some("work"));
        assert_eq!(generation(&stamped), Some(3));
        assert_eq!(owner(&stamped), "adapter job made it for Cluster 0190");
        assert!(has_metadata_of(&stamped, &stamped));
        assert!(!has_metadata_of(&manifest, &stamped));
    }

    #[test]
    fn the_hash_follows_meaning_and_not_spelling() {
        let applied =
            |manifest: Value| annotation(&stamp(&manifest, &ours()).unwrap(), APPLIED).unwrap().to_owned();
        let first = applied(json!({"metadata": {"name": "a"}, "spec": {"x": 1, "y": [1, 2]}}));
        assert_eq!(
            first,
            applied(
                json!({"spec": {"y": [1, 2], "x": 1}, "metadata": {"name": "a", "annotations": {APPLIED: "old"}}})
            )
        );
        assert_ne!(first, applied(json!({"metadata": {"name": "a"}, "spec": {"x": 1, "y": [12]}})));
        assert_ne!(first, applied(json!({"metadata": {"name": "a"}, "spec": {"x": "1", "y": [1, 2]}})));
        let next = stamp(
            &json!({"metadata": {"name": "a"}, "spec": {"x": 1, "y": [1, 2]}}),
            &Ownership { generation: 4, ..ours() },
        );
        assert_ne!(Some(first.as_str()), annotation(&next.unwrap(), APPLIED), "a new generation is a change");
    }

    #[test]
    fn a_manifest_of_the_wrong_shape_is_named() {
        for (manifest, message) in [
            (json!([]), "the manifest is not an object"),
            (json!({"metadata": 1}), "metadata is not an object"),
            (json!({"metadata": {"labels": "a"}}), "labels is not an object"),
        ] {
            assert_eq!(stamp(&manifest, &ours()).unwrap_err().message, message);
        }
    }
}
