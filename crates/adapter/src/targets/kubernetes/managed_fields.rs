//! Who set which field, as the API server keeps it in `metadata.managedFields`.
//!
//! The Go adapter wrote whole objects (`Update`). As long as its entry names a field, leaving the field out of an apply
//! does not remove it (kubernetes#99003), so the entries of former managers become ours before the first apply.

use serde_json::{Map, Value, json};

/// The entries after our manager took over those of `former`; `None` when there is nothing to take over.
pub(super) fn adopted(object: &Value, manager: &str, former: &[String]) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let is_former = |entry: &Value| {
        entry["operation"] == "Update"
            && entry.get("subresource").is_none_or(|of| of == "")
            && entry["manager"].as_str().is_some_and(|name| former.iter().any(|other| other == name))
    };
    let first = entries.iter().find(|entry| is_former(entry))?;
    let is_ours = |entry: &Value| entry["operation"] == "Apply" && entry["manager"] == manager;
    let mut ours = entries.iter().find(|entry| is_ours(entry)).unwrap_or(first).clone();
    ours["manager"] = manager.into();
    ours["operation"] = "Apply".into();
    for entry in entries.iter().filter(|entry| is_former(entry)) {
        if let (Some(fields), Some(more)) = (ours["fieldsV1"].as_object_mut(), entry["fieldsV1"].as_object())
        {
            unite(fields, more);
        }
    }
    let others = entries.iter().filter(|entry| !is_former(entry) && !is_ours(entry)).cloned();
    Some(others.chain([ours]).collect())
}

/// The patch that puts these entries in, unless the object has changed since.
pub(super) fn patch(object: &Value, entries: Value) -> Value {
    let mut patch = json!([
        {"op": "replace", "path": "/metadata/managedFields"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
    ]);
    patch[0]["value"] = entries;
    patch
}

fn unite(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => unite(inner, more),
            (Some(_), _) => {}
            (None, value) => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

/// Who wrote the object last, other than this manager and those that write a part such as `status`.
pub(super) fn last_other(object: &Value, manager: &str) -> Option<String> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let others = entries
        .iter()
        .filter(|entry| entry["manager"] != manager && entry.get("subresource").is_none_or(|of| of == ""));
    let last = others.max_by_key(|entry| entry["time"].as_str().unwrap_or_default())?;
    last["manager"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn object(entries: &[Value]) -> Value {
        json!({"metadata": {"resourceVersion": "7", "managedFields": entries}})
    }

    #[test]
    fn fields_of_former_managers_become_ours() {
        let former = ["adapter".to_owned(), "hyperfleet-adapter".to_owned()];
        let status = {
            let mut entry = entry("adapter", "Update", &json!({"f:status": {}}));
            entry["subresource"] = "status".into();
            entry
        };
        let old = object(&[
            entry("adapter", "Update", &json!({"f:data": {".": {}, "f:a": {}}})),
            entry("kubectl", "Update", &json!({"f:data": {"f:k": {}}})),
            status.clone(),
        ]);
        let entries = adopted(&old, "hyperfleet-x", &former).unwrap();
        assert_eq!(
            entries,
            json!([
                entry("kubectl", "Update", &json!({"f:data": {"f:k": {}}})),
                status,
                entry("hyperfleet-x", "Apply", &json!({"f:data": {".": {}, "f:a": {}}})),
            ])
        );
        assert_eq!(adopted(&object(entries.as_array().unwrap()), "hyperfleet-x", &former), None);
        assert_eq!(patch(&old, entries)[1]["value"], "7");
    }

    #[test]
    fn they_join_what_is_ours_already() {
        let former = ["adapter".to_owned()];
        let old = object(&[
            entry("hyperfleet-x", "Apply", &json!({"f:data": {"f:a": {}, "f:b": {}}})),
            entry("adapter", "Update", &json!({"f:data": {"f:b": {}, "f:c": {}}, "f:type": {}})),
        ]);
        let fields = json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}, "f:type": {}});
        assert_eq!(
            adopted(&old, "hyperfleet-x", &former),
            Some(json!([entry("hyperfleet-x", "Apply", &fields)]))
        );
    }

    #[test]
    fn the_last_other_manager_is_named() {
        let mut entries = [
            entry("hyperfleet-x", "Apply", &json!({})),
            entry("helm", "Update", &json!({})),
            entry("kubectl-edit", "Update", &json!({})),
        ];
        for (entry, time) in
            entries.iter_mut().zip(["2026-03-01T00:00:09Z", "2026-03-01T00:00:01Z", "2026-03-01T00:00:05Z"])
        {
            entry["time"] = time.into();
        }
        assert_eq!(last_other(&object(&entries), "hyperfleet-x").as_deref(), Some("kubectl-edit"));
        assert_eq!(last_other(&object(&entries[..1]), "hyperfleet-x"), None);
    }
}
