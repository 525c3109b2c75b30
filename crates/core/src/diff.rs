//! Field-level differences between two JSON values, as the timeline shows them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{member, same};
use crate::{Error, RawJson};

/// One path whose value changed. An absent side is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Where, such as `spec.region`.
    pub path: String,
    /// The value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Below a path longer than this, members are not compared one by one, because each difference would repeat the path.
pub(crate) const MAX_PATH: usize = 256;

/// Every path below `path` at which `before` and `after` differ. Objects are compared member by
/// member, everything else as a whole.
pub fn diff(path: &str, before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    walk(path, before, after, &mut changes);
    changes
}

/// The same of members that are kept as text, of which most are as they were.
pub(crate) fn text_diff(path: &str, before: &RawJson, after: &RawJson) -> Result<Vec<FieldChange>, Error> {
    if before == after {
        return Ok(Vec::new());
    }
    Ok(diff(path, &before.parse()?, &after.parse()?))
}

fn walk(path: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    if let (Value::Object(before), Value::Object(after), ..=MAX_PATH) = (before, after, path.len()) {
        for (key, old) in before {
            match after.get(key) {
                Some(new) => walk(&member(path, key), old, new, changes),
                None => {
                    changes.push(FieldChange { path: member(path, key), from: Some(old.clone()), to: None });
                }
            }
        }
        for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
            changes.push(FieldChange { path: member(path, key), from: None, to: Some(new.clone()) });
        }
    } else if !same(before, after) {
        changes.push(FieldChange {
            path: path.to_owned(),
            from: Some(before.clone()),
            to: Some(after.clone()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_changed_path_is_one_entry() {
        let changes = diff(
            "spec",
            &json!({"a": 1, "b": {"c": 1, "d": [1]}, "gone": true}),
            &json!({"a": 1.0, "b": {"c": 2, "d": [1, 2]}, "new/x": null}),
        );
        let paths: Vec<_> = changes.iter().map(|c| c.path.as_str()).collect();
        assert_eq!(paths, ["spec.b.c", "spec.b.d", "spec.gone", "spec['new/x']"]);
        assert_eq!(changes[2].to, None);
        assert_eq!(changes[3].from, None);
    }

    #[test]
    fn differences_below_a_long_path_are_one_entry() {
        let long = "k".repeat(300);
        let changes = diff("spec", &json!({&long: {"a": 1, "b": 1}}), &json!({&long: {"a": 2, "b": 2}}));
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].path, format!("spec.{long}"));
    }
}
