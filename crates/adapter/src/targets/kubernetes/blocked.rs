//! Why an object that was deleted is still there.

use std::fmt;

use serde_json::Value;

/// What keeps a deleted object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// When it was deleted, by the server's clock.
    pub since: String,
    /// Finalizers that nobody has removed yet.
    pub finalizers: Vec<String>,
    /// For a namespace: type and message of the conditions that name what remains in it.
    pub conditions: Vec<(String, String)>,
}

impl Blocked {
    /// `None` for an object that is not being deleted.
    pub fn of(object: &Value) -> Option<Self> {
        let since = object["metadata"]["deletionTimestamp"].as_str()?.to_owned();
        let texts = |list: &Value| {
            let list = list.as_array().map_or(&[][..], Vec::as_slice);
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut finalizers = texts(&object["metadata"]["finalizers"]);
        let mut conditions = Vec::new();
        if object["kind"] == "Namespace" {
            finalizers.extend(texts(&object["spec"]["finalizers"]));
            for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                if let (Some(name), "True") =
                    (condition["type"].as_str(), condition["status"].as_str().unwrap_or_default())
                {
                    conditions.push((
                        name.to_owned(),
                        condition["message"].as_str().unwrap_or_default().to_owned(),
                    ));
                }
            }
        }
        Some(Self { since, finalizers, conditions })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deleted at {}", self.since)?;
        if !self.finalizers.is_empty() {
            write!(f, ", waits for its finalizers {}", self.finalizers.join(", "))?;
        }
        self.conditions.iter().try_for_each(|(name, message)| write!(f, "; {name}: {message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finalizers_and_conditions_are_named() {
        let namespace = json!({
            "kind": "Namespace",
            "metadata": {"deletionTimestamp": "2026-03-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"conditions": [
                {"type": "NamespaceDeletionDiscoveryFailure", "status": "False", "message": "all is well"},
                {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "a.b/c in 1 resource instances"},
            ]},
        });
        assert_eq!(
            Blocked::of(&namespace).unwrap().to_string(),
            "deleted at 2026-03-01T00:00:00Z, waits for its finalizers kubernetes; \
             NamespaceFinalizersRemaining: a.b/c in 1 resource instances"
        );
        assert_eq!(Blocked::of(&json!({"metadata": {"finalizers": ["a/b"]}})), None);
    }
}
