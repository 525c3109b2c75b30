//! The text that is edited: a document as `apply -f` takes it, and the way from two of them to a patch.

use hyperfleet_client::Resource;
use serde_json::{Map, Value, json};

use crate::output::text::clean;
use crate::output::yaml;
use crate::remote::change::{self, present};
use crate::remote::kinds::singular;
use crate::remote::owners::Owners;
use crate::remote::target::display_name;

/// Members that identify the resource, which cannot be edited.
const FIXED: [&str; 3] = ["kind", "name", "owner"];
/// Members that can be edited.
const EDITABLE: [&str; 3] = ["labels", "spec", "references"];

/// The name of a resource's file.
pub(super) fn file_name(resource: &Resource) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let name: String = resource.name().chars().take(60).map(plain).collect();
    format!("hyperfleet-edit-{}-{name}", singular(resource.kind()).replace(|c: char| plain(c) != c, "-"))
}

/// The comment above the text.
pub(super) fn heading(resource: &Resource) -> String {
    format!(
        "# {} at generation {}: change labels, spec or references, save, and leave.\n\
         # An unchanged or empty file sends nothing.\n",
        display_name(resource.kind(), resource.name()),
        resource.generation()
    )
}

/// The resource as a text; its owner by the names that lead to it.
pub(super) fn written(resource: &Resource, owners: &Owners) -> String {
    let mut document = Map::new();
    document.insert("kind".to_owned(), json!(resource.kind()));
    document.insert("name".to_owned(), json!(resource.name()));
    document.extend(owners.owner_path(resource).map(|owner| ("owner".to_owned(), json!(owner))));
    for member in EDITABLE {
        let value = present(resource, member);
        let is_empty = value.as_object().is_none_or(Map::is_empty);
        if member != "references" || !is_empty {
            document.insert(member.to_owned(), value);
        }
    }
    yaml::write(&Value::Object(document))
}

/// The JSON Patch that leads from one text to another; nothing if they are equal. Both are read the same way, so
/// a value that was not edited is not sent, even if its text differs.
pub(super) fn patch(before: &str, after: &str) -> Result<Option<Value>, String> {
    let before = read(before)?.unwrap_or_default();
    let Some(after) = read(after)? else { return Ok(None) };
    for member in after.keys().filter(|member| !EDITABLE.contains(&member.as_str())) {
        if !FIXED.contains(&member.as_str()) {
            let meant = hyperfleet_core::nearest(member, EDITABLE);
            let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            return Err(format!("{} cannot be edited{meant}", clean(member)));
        }
    }
    for member in FIXED {
        if after.get(member) != before.get(member) {
            return Err(format!("{member} cannot be changed"));
        }
    }
    if !after.get("spec").is_some_and(Value::is_object) {
        return Err("spec must be a map".to_owned());
    }
    let patch = change::operations(&editable(before), &editable(after));
    Ok(Some(patch).filter(|patch| patch.as_array().is_some_and(|operations| !operations.is_empty())))
}

/// The editable members of a document; an absent one is empty.
fn editable(mut document: Map<String, Value>) -> Map<String, Value> {
    let mut value = |member: &str| document.remove(member).filter(|value| !value.is_null());
    EDITABLE.iter().map(|member| ((*member).to_owned(), value(member).unwrap_or_else(|| json!({})))).collect()
}

/// The one document of a text; an empty text has none.
fn read(text: &str) -> Result<Option<Map<String, Value>>, String> {
    let mut documents = yaml::read(text)?;
    match (documents.pop(), documents.is_empty()) {
        (None, _) => Ok(None),
        (Some(Value::Object(members)), true) => Ok(Some(members)),
        _ => Err("one resource must be left: a map with spec and labels".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "kind: Cluster\nname: a\nlabels:\n  x: y\nspec:\n  n: 1\n  deep:\n    a: 1\n    b: 2\n";

    fn patched(after: &str) -> Result<Value, String> {
        patch(BEFORE, after).map(Option::unwrap_or_default)
    }

    #[test]
    fn only_what_was_changed_is_sent() {
        let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
        let remove = |path: &str| json!([{"op": "remove", "path": path}]);
        for (from, to, expected) in [
            ("n: 1", "n: 2", set("/spec/n", json!(2))),
            ("n: 1", "n: null", set("/spec/n", Value::Null)),
            ("    b: 2\n", "", remove("/spec/deep/b")),
            ("x: y", "x: z", set("/labels/x", json!("z"))),
            ("labels:\n  x: y\n", "", remove("/labels/x")),
            ("n: 1", "n: [1]", set("/spec/n", json!([1]))),
            ("n: 1", "n: 1 # a comment", Value::Null),
            (
                "name: a\n",
                "name: a\nreferences: {dns: [{kind: Zone, id: z}]}\n",
                set("/references/dns", json!([{"kind": "Zone", "id": "z"}])),
            ),
        ] {
            assert!(BEFORE.contains(from));
            assert_eq!(patched(&BEFORE.replace(from, to)), Ok(expected), "{from} → {to}");
        }
        assert_eq!(patched("# nothing\n"), Ok(Value::Null));
    }

    #[test]
    fn an_edit_of_a_managed_or_unknown_member_is_refused() {
        for (from, to, told) in [
            ("name: a", "name: b", "name cannot be changed"),
            ("spec:", "sepc:", "did you mean spec?"),
            ("spec:\n  n: 1\n  deep:\n    a: 1\n    b: 2\n", "", "spec must be a map"),
            ("n: 1", "n: [1", ""),
            ("kind: Cluster", "---\n- 1\n---\nkind: Cluster", "one resource must be left"),
        ] {
            let fault = patched(&BEFORE.replace(from, to)).unwrap_err();
            assert!(fault.contains(told), "{to}: {fault}");
        }
    }

    #[test]
    fn the_edited_text_holds_the_identity_and_no_managed_member() {
        let resource = Resource::from_value(json!({
            "id": "1", "kind": "NodePool", "name": "workers", "generation": 3, "labels": {}, "spec": {"n": 1},
            "references": {"dns": [{"kind": "Zone", "id": "z", "href": "/z"}]}, "status": {"conditions": []},
            "owner_references": {"kind": "Cluster", "id": "c", "href": "/c"},
        }))
        .unwrap();
        let written = |resource: &Resource| super::written(resource, &Owners::default());
        let text = format!("{}{}", heading(&resource), written(&resource));
        for part in [
            "# nodepool/workers at generation 3",
            "kind: NodePool\nname: workers\nowner: cluster/c\n",
            "id: z",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("href") && !text.contains("status"), "{text}");
        assert_eq!(patch(&written(&resource), &written(&resource)), Ok(None));
        assert_eq!(file_name(&resource), "hyperfleet-edit-nodepool-workers");
    }
}
