//! A resource as one number, so that millions of events can be compared in memory.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

/// Moved by reports that make no event, so two views of one version may differ in it.
const MOVING: &str = "last_updated_time";

/// Equal for equal resources, whatever the order of their members.
pub(crate) fn digest(resource: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    add(&mut hasher, resource);
    hasher.finish()
}

fn add(hasher: &mut DefaultHasher, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(name, _)| *name != MOVING).collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            (0, members.len()).hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                add(hasher, value);
            }
        }
        Value::Array(items) => {
            (1, items.len()).hash(hasher);
            items.iter().for_each(|item| add(hasher, item));
        }
        Value::String(text) => (2, text).hash(hasher),
        Value::Null | Value::Bool(_) | Value::Number(_) => (3, value.to_string()).hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_of_members_and_moving_times_do_not_count() {
        let one = json!({"a": 1, "b": [{"last_updated_time": "x", "c": null}]});
        let same = json!({"b": [{"c": null, "last_updated_time": "y"}], "a": 1});
        assert_eq!(digest(&one), digest(&same));
    }

    #[test]
    fn every_other_difference_counts() {
        let all = [json!({}), json!([]), json!(""), json!({"a": 1}), json!({"a": "1"}), json!({"a": [1]})];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| digest(one) != digest(other)), "{one}");
        }
    }
}
