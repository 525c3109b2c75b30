//! Objects inside an object: the manifests of a `ManifestWork`, each with its feedback and conditions.

use serde_json::Value;

/// What is looked for inside.
#[derive(Debug)]
pub(super) enum Wanted {
    Name(String),
    Labels(Vec<(String, String)>),
}

/// The best match inside a parent.
pub(super) fn find(parent: &Value, namespace: Option<&str>, wanted: &Wanted) -> Option<Value> {
    let inside = parent.pointer("/spec/workload/manifests").or_else(|| parent.get("items"))?.as_array()?;
    let matches = |object: &&Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let place =
            namespace.is_none_or(|namespace| text("/metadata/namespace").unwrap_or_default() == namespace);
        place
            && match wanted {
                Wanted::Name(name) => text("/metadata/name") == Some(name),
                Wanted::Labels(labels) => labels.iter().all(|(key, value)| {
                    object.pointer("/metadata/labels").and_then(|all| all.get(key)).and_then(Value::as_str)
                        == Some(value)
                }),
            }
    };
    let mut best = inside.iter().filter(matches).max_by_key(|object| generation(object))?.clone();
    if let Some(status) = status_of(parent, &best) {
        for member in ["statusFeedback", "conditions"] {
            if let (Some(value), Some(object)) = (status.get(member), best.as_object_mut()) {
                object.insert(member.to_owned(), value.clone());
            }
        }
    }
    Some(best)
}

/// The generation that an object was made for.
pub(super) fn generation(object: &Value) -> i64 {
    let annotation =
        object.pointer("/metadata/annotations").and_then(|all| all.get("hyperfleet.io/generation"));
    annotation.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn status_of<'v>(parent: &'v Value, object: &Value) -> Option<&'v Value> {
    let all = parent.pointer("/status/resourceStatus/manifests")?.as_array()?;
    let text = |value: &'_ Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    all.iter().find(|status| {
        [
            ("/resourceMeta/kind", "/kind"),
            ("/resourceMeta/name", "/metadata/name"),
            ("/resourceMeta/namespace", "/metadata/namespace"),
        ]
        .iter()
        .all(|(meta, own)| text(status, meta) == text(object, own))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_inside_a_manifest_work_has_its_feedback() {
        let parent = json!({
            "spec": {"workload": {"manifests": [
                {"kind": "Namespace", "metadata": {"name": "a", "labels": {"t": "ns"}}},
                {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "a"}},
            ]}},
            "status": {"resourceStatus": {"manifests": [
                {"resourceMeta": {"kind": "Namespace", "name": "a", "namespace": ""},
                 "statusFeedback": {"values": [{"name": "phase"}]}, "conditions": [{"type": "Applied"}]},
            ]}},
        });
        let labels = Wanted::Labels(vec![("t".into(), "ns".into())]);
        let found = find(&parent, None, &labels).unwrap();
        assert_eq!(found["statusFeedback"]["values"][0]["name"], "phase");
        assert_eq!(found["conditions"][0]["type"], "Applied");
        let named = find(&parent, Some("a"), &Wanted::Name("c".into())).unwrap();
        assert_eq!(named["kind"], "ConfigMap");
        assert_eq!(find(&parent, Some("b"), &Wanted::Name("c".into())), None);
    }
}
