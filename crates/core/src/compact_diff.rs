//! Compares two JSON documents without parsing them, if both are compact: no spaces, escapes or exponents, and few members,
//! each once. Nearly all documents of adapters are compact, and equal to what serializing them gives.

use memchr::memchr;
use serde_json::Value;

use crate::RawJson;
use crate::diff::{FieldChange, MAX_PATH};
use crate::json::{MAX_DEPTH, member, same};

/// Longer documents are parsed.
const MAX_BYTES: usize = 64 << 10;

/// The most members of an object, because each is searched among all of the other document.
const MAX_MEMBERS: usize = 32;

/// A value of such a document.
struct CompactValue<'a> {
    text: &'a str,
    /// The members of an object.
    members: Option<Vec<(&'a str, CompactValue<'a>)>>,
}

/// Every path below `path` at which two documents differ, as in [`crate::diff::diff`]; `None` if one of them is not
/// compact.
pub(crate) fn compact_diff(path: &str, before: &RawJson, after: &RawJson) -> Option<Vec<FieldChange>> {
    let mut changes = Vec::new();
    walk(path, &CompactValue::of(before)?, &CompactValue::of(after)?, &mut changes)?;
    Some(changes)
}

fn walk(
    path: &str,
    before: &CompactValue<'_>,
    after: &CompactValue<'_>,
    changes: &mut Vec<FieldChange>,
) -> Option<()> {
    if before.text == after.text {
        return Some(());
    }
    if let (Some(old), Some(new), ..=MAX_PATH) = (&before.members, &after.members, path.len()) {
        let find = |members: &[(&str, CompactValue<'_>)], key: &str| {
            members.iter().position(|(known, _)| *known == key)
        };
        for (key, old) in old {
            let path = member(path, key);
            match find(new, key) {
                Some(at) => walk(&path, old, &new[at].1, changes)?,
                None => changes.push(FieldChange { path, from: Some(old.value()?), to: None }),
            }
        }
        for (key, new) in new.iter().filter(|(key, _)| find(old, key).is_none()) {
            changes.push(FieldChange { path: member(path, key), from: None, to: Some(new.value()?) });
        }
        return Some(());
    }
    let (from, to) = (before.value()?, after.value()?);
    if !same(&from, &to) {
        changes.push(FieldChange { path: path.to_owned(), from: Some(from), to: Some(to) });
    }
    Some(())
}

impl<'a> CompactValue<'a> {
    /// A document that is known to be JSON.
    fn of(document: &'a RawJson) -> Option<Self> {
        let mut rest = document.as_str();
        // The parsed document takes many times its length.
        if rest.len() > MAX_BYTES || memchr(b'\\', rest.as_bytes()).is_some() {
            return None;
        }
        Self::read(&mut rest, 0).filter(|_| rest.is_empty())
    }

    fn value(&self) -> Option<Value> {
        serde_json::from_str(self.text).ok()
    }

    fn read(rest: &mut &'a str, depth: usize) -> Option<Self> {
        let start = *rest;
        let mut members = None;
        match start.as_bytes().first()? {
            _ if depth > MAX_DEPTH => return None,
            b'{' => members = Some(Self::read_object(rest, depth)?),
            b'[' => Self::read_list(rest, depth)?,
            b'"' => drop(read_string(rest)?),
            _ => {
                let more = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'+');
                let end = start.bytes().position(|byte| !more(byte)).unwrap_or(start.len());
                let (word, behind) = start.split_at(end);
                let has_exponent = word.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'e'));
                if word.is_empty() || (has_exponent && !matches!(word, "true" | "false")) {
                    return None;
                }
                *rest = behind;
            }
        }
        Some(Self { text: &start[..start.len() - rest.len()], members })
    }

    fn read_object(rest: &mut &'a str, depth: usize) -> Option<Vec<(&'a str, CompactValue<'a>)>> {
        *rest = &rest[1..];
        if take(rest, '}') {
            return Some(Vec::new());
        }
        let mut members: Vec<(&str, CompactValue<'_>)> = Vec::with_capacity(8);
        loop {
            let key = read_string(rest)?;
            let is_new = members.iter().all(|(known, _)| *known != key);
            if !is_new || members.len() == MAX_MEMBERS || !take(rest, ':') {
                return None;
            }
            members.push((key, Self::read(rest, depth + 1)?));
            if take(rest, '}') {
                return Some(members);
            }
            take(rest, ',').then_some(())?;
        }
    }

    fn read_list(rest: &mut &'a str, depth: usize) -> Option<()> {
        *rest = &rest[1..];
        if take(rest, ']') {
            return Some(());
        }
        loop {
            Self::read(rest, depth + 1)?;
            if take(rest, ']') {
                return Some(());
            }
            take(rest, ',').then_some(())?;
        }
    }
}

fn read_string<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (string, behind) = rest.strip_prefix('"')?.split_once('"')?;
    *rest = behind;
    Some(string)
}

/// Consumes a character, if it is the next one.
fn take(rest: &mut &str, next: char) -> bool {
    match rest.strip_prefix(next) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::diff;
    use proptest::prelude::*;
    use serde_json::json;

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..3_i64).prop_map(Value::from),
            prop::sample::select(vec!["0.10", "1.0", "1", "1e2", "-0"])
                .prop_map(|number| serde_json::from_str(number).unwrap()),
            "[a-b\"é\\\\]{0,2}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map("[a-c /]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        });
        prop::collection::hash_map("[a-c]", value, 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn compact_documents_differ_where_their_values_do(before in documents(), after in documents()) {
            let texts = [&before, &after].map(RawJson::from_value);
            let escapes = texts.iter().any(|text| text.as_str().contains(['\\']) || text.as_str().contains("1e2"));
            let found = compact_diff("data", &texts[0], &texts[1]);
            prop_assert_eq!(found.is_none(), escapes, "{:?}", texts);
            if let Some(found) = found {
                prop_assert_eq!(found, diff("data", &before, &after));
            }
        }
    }

    #[test]
    fn a_document_that_serializes_differently_is_not_compact() {
        let plain = |text: &str| CompactValue::of(&RawJson::from_stored(text)).is_some();
        assert!(plain(r#"{"a":[1,{"b":true}],"c":"a: {, }","d":-0.5,"e":null}"#));
        for text in [
            r#"{"a": 1}"#,
            r#"{ "a":1}"#,
            r#"{"a":1} "#,
            r#"{"a":1E5}"#,
            r#"{"a":1e+5}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":[{"b":1,"b":1}]}"#,
            "{\"a\":[1,\n2]}",
        ] {
            assert!(!plain(text), "{text}");
        }
        let many = |count: usize| (0..count).map(|i| (format!("k{i}"), json!(i))).collect::<Value>();
        assert!(plain(&many(32).to_string()) && !plain(&many(33).to_string()));
    }

    #[test]
    fn compact_documents_are_replaced_whole_below_a_long_path() {
        let long = "k".repeat(300);
        let (before, after) = (json!({&long: {"a": 1, "b": 1}}), json!({&long: {"a": 2, "b": 2}}));
        let found = compact_diff("data", &RawJson::from_value(&before), &RawJson::from_value(&after));
        assert_eq!(found, Some(diff("data", &before, &after)));
    }
}
