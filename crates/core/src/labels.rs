//! Labels by Kubernetes' rules. Every fault is reported.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::json::member;
use crate::{Fault, FaultKind};

/// A resource's labels.
pub type Labels = BTreeMap<String, String>;

const VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const NAME_PATTERN: &str = "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const PREFIX_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The most labels of a resource. Each can be searched for, and is kept for that in a row of its own.
const MAX_LABELS: usize = 1_000;

/// Reads the `labels` member: an object of texts. Faults go to `faults`; what is returned holds
/// the good ones.
pub fn check_labels(labels: &Value, faults: &mut Vec<Fault>) -> Labels {
    let Value::Object(members) = labels else {
        faults.push(Fault::wrong_type("labels", "an object", labels));
        return Labels::new();
    };
    if members.len() > MAX_LABELS {
        let message = format!("labels may have at most {MAX_LABELS} members, not {}", members.len());
        let fault = Fault::new(FaultKind::Value, "labels", message).rule("max_items");
        faults.push(fault.bounds(None, MAX_LABELS as u64));
        return Labels::new();
    }
    let mut good = Labels::new();
    for (key, value) in members {
        let field = crate::echo(&member("labels", key));
        check_key(&field, key, faults);
        match value {
            Value::String(text) => {
                check_value(&field, text, faults);
                good.insert(key.clone(), text.clone());
            }
            other => faults.push(Fault::wrong_type(field, "a string", other)),
        }
    }
    good
}

/// Everything that is wrong with a label's key.
pub(crate) fn check_key(field: &str, key: &str, faults: &mut Vec<Fault>) {
    let given = Value::from(key);
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() || prefix.len() > 253 {
            let message =
                format!("{field}: the key's prefix must have 1 to 253 characters, not {}", prefix.len());
            faults.push(Fault::value(field, message, &given).rule("max_length").bounds(1, 253));
        }
        if !prefix.is_empty() && !prefix.split('.').all(is_dns_label) {
            let message = format!("{field}: the key's prefix must be a DNS subdomain such as example.com");
            faults.push(Fault::value(field, message, &given).pattern(PREFIX_PATTERN));
        }
    }
    if name.is_empty() || name.len() > 63 {
        let message = format!("{field}: the key's name must have 1 to 63 characters, not {}", name.len());
        faults.push(Fault::value(field, message, &given).rule("max_length").bounds(1, 63));
    }
    if !name.is_empty() && !is_word(name) {
        let message = format!(
            "{field}: the key's name must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'"
        );
        faults.push(Fault::value(field, message, &given).pattern(NAME_PATTERN));
    }
}

fn check_value(field: &str, value: &str, faults: &mut Vec<Fault>) {
    let given = Value::from(value);
    if value.len() > 63 {
        let message = format!("{field}: the value must have at most 63 characters, not {}", value.len());
        faults.push(Fault::value(field, message, &given).rule("max_length").bounds(None, 63));
    }
    if !value.is_empty() && !is_word(value) {
        let message = format!(
            "{field}: the value must start and end with a letter or digit and hold only letters, digits, '.', '_' and '-'"
        );
        faults.push(Fault::value(field, message, &given).pattern(VALUE_PATTERN));
    }
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_dns_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(labels: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        check_labels(labels, &mut faults);
        faults.into_iter().map(|f| f.field).collect()
    }

    #[test]
    fn kubernetes_style_labels_are_accepted() {
        let labels = json!({"environment": "production", "team.example.com/owner_1": "", "A": "x.y_z-1"});
        assert!(fields(&labels).is_empty());
        assert!(fields(&json!({"a".repeat(63): "b".repeat(63)})).is_empty());
    }

    #[test]
    fn every_violation_is_reported() {
        let labels =
            json!({"a b": "ok", "-x": "-y", "Up.Case/n": "1", "/n": "1", "p/": "1", "n": 5, "a/b/c": "1"});
        assert_eq!(
            fields(&labels),
            [
                "labels['a b']",
                "labels['-x']",
                "labels['-x']",
                "labels['Up.Case/n']",
                "labels['/n']",
                "labels['p/']",
                "labels.n",
                "labels['a/b/c']",
            ]
        );
        assert_eq!(fields(&json!({"k": "x".repeat(64)})), ["labels.k"]);
        assert_eq!(fields(&json!([])), ["labels"]);
    }

    #[test]
    fn more_labels_than_can_be_searched_for_are_one_fault() {
        let labels = |count| (0..count).map(|i| (format!("key-{i}"), json!("value"))).collect::<Value>();
        assert!(fields(&labels(MAX_LABELS)).is_empty());
        assert_eq!(fields(&labels(MAX_LABELS + 1)), ["labels"]);
    }
}
