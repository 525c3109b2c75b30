//! JSON as HyperFleet keeps it: text that is passed through unparsed wherever possible, numbers of any size, and
//! equality by value. A spec is untrusted input: depth and characters are checked here, before anything is stored.

use std::sync::Arc;
use std::{fmt, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::Formatter;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::{Decimal, Error, Fault};

/// Deepest nesting of a spec; the spec itself is the first level.
pub const MAX_DEPTH: usize = 64;

/// JSON text known to be valid, kept as text because most of it is only passed through.
/// Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Prints a value.
    pub fn from_value(value: &impl Serialize) -> Self {
        Self(json_text(value).into())
    }

    /// Takes text that a store kept for us.
    pub fn from_stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are the same text in memory.
    pub fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Reads it as `T`. Fails only when the store holds something that was not written by us.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.0).map_err(Error::internal)
    }
}

/// A value as JSON text. Values made of strings, maps and lists cannot fail to print.
pub fn json_text(value: &impl Serialize) -> String {
    // Most of what is printed is about as long, and growing there step by step would cost more than printing.
    let mut text = Vec::with_capacity(1024);
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut text, Plain))
        .expect("plain values always print as JSON");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Prints a text as a JSON string, as [`json_text`] does.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    // Looked at in one go, and then copied in one: nearly no text holds anything that must be escaped.
    let special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |found, byte| found | special(byte)) {
        out.extend_from_slice(json_text(&text).as_bytes());
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

impl Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Box::<RawValue>::deserialize(deserializer)?.get().into()))
    }
}

/// Prints numbers as people write them: the parser adds a `+` to every exponent without a sign.
struct Plain;

impl Formatter for Plain {
    fn write_number_str<W: ?Sized + io::Write>(&mut self, writer: &mut W, number: &str) -> io::Result<()> {
        match number.split_once("e+") {
            Some((mantissa, exponent)) => write!(writer, "{mantissa}e{exponent}"),
            None => writer.write_all(number.as_bytes()),
        }
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of `key` below `path`, written as `fields` writes it: `spec.region`, `labels['a/b']`.
pub(crate) fn member(path: &str, key: &str) -> String {
    let mut path = path.to_owned();
    push_member(&mut path, key);
    path
}

fn push_member(path: &mut String, key: &str) {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain {
        path.push('.');
        path.push_str(key);
    } else {
        path.push_str("['");
        path.push_str(&key.replace('\'', "\\'"));
        path.push_str("']");
    }
}

/// The faults of depth and texts in a document of a caller, such as `spec`.
pub fn document_faults(path: &str, document: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    if depth_exceeds(document, MAX_DEPTH) {
        let message = format!("{path} is nested deeper than {MAX_DEPTH} levels");
        faults.push(
            Fault::new(crate::FaultKind::Value, path, message)
                .rule("max_depth")
                .bounds(None, MAX_DEPTH as u64),
        );
    }
    check_text(path, document, &mut faults);
    faults
}

/// Whether objects and lists nest deeper than `limit` levels.
pub(crate) fn depth_exceeds(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(|v| depth_exceeds(v, limit - 1)),
        Value::Object(members) => limit == 0 || members.values().any(|v| depth_exceeds(v, limit - 1)),
        _ => false,
    }
}

/// Finds strings and keys with U+0000, which PostgreSQL cannot keep.
pub fn check_text(path: &str, value: &Value, faults: &mut Vec<Fault>) {
    check_text_at(&mut path.to_owned(), value, faults);
}

/// `path` is one text that grows and shrinks on the way: a long key above many values would else be
/// copied for each of them.
fn check_text_at(path: &mut String, value: &Value, faults: &mut Vec<Fault>) {
    let refuse = |path: &str, faults: &mut Vec<Fault>| {
        let message = format!("{} contains the character U+0000", crate::echo(path));
        faults.push(Fault::new(crate::FaultKind::Value, crate::echo(path), message).rule("pattern"));
    };
    let here = path.len();
    match value {
        Value::String(text) if text.contains('\0') => refuse(path, faults),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                check_text_at(path, item, faults);
                path.truncate(here);
            }
        }
        Value::Object(members) => {
            for (key, item) in members {
                push_member(path, key);
                if key.contains('\0') {
                    refuse(path, faults);
                }
                check_text_at(path, item, faults);
                path.truncate(here);
            }
        }
        _ => {}
    }
}

/// Equality by value: members in any order, `1` and `1.0` equal.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Numbers with exponents beyond counting are compared as text.
pub(crate) fn same_number(a: &Number, b: &Number) -> bool {
    let (a, b) = (a.as_str(), b.as_str());
    a == b || matches!((Decimal::parse(a), Decimal::parse(b)), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_are_equal_by_value() {
        for (a, b) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("0", "-0.00"),
            ("1.50", "15e-1"),
            ("1.5e400", "15E+399"),
            ("18446744073709551616", "18446744073709551616.0"),
        ] {
            assert!(same(&json(a), &json(b)), "{a} = {b}");
        }
        for (a, b) in [("1", "-1"), ("1", "10"), ("0.1", "0.10000000000000001"), ("1e400", "1e401")] {
            assert!(!same(&json(a), &json(b)), "{a} ≠ {b}");
        }
    }

    #[test]
    fn members_are_equal_in_any_order_and_lists_are_not() {
        assert!(same(&json(r#"{"a":1,"b":[1,2]}"#), &json(r#"{"b":[1.0,2],"a":1}"#)));
        assert!(!same(&json("[1,2]"), &json("[2,1]")));
        assert!(!same(&json(r#"{"a":1}"#), &json(r#"{"a":1,"b":null}"#)));
    }

    #[test]
    fn numbers_print_as_they_were_written() {
        for text in ["9223372036854775807", "0.1000000000000000055511151231257827", "1.5e400", "-0", "1.0"] {
            assert_eq!(RawJson::from_value(&json(text)).as_str(), text);
        }
    }

    #[test]
    fn depth_is_counted_from_the_spec_itself() {
        let nested = |levels: usize| json(&format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels)));
        assert!(document_faults("spec", &nested(64)).is_empty());
        assert_eq!(document_faults("spec", &nested(65))[0].constraint, Some("max_depth"));
    }

    #[test]
    fn a_nul_is_named_by_its_path() {
        let faults = document_faults("spec", &json(r#"{"a":{"b c":["x","y\u0000"]},"k\u0000":1}"#));
        let fields: Vec<_> = faults.iter().map(|f| f.field.as_str()).collect();
        assert_eq!(fields, ["spec.a['b c'][1]", "spec['k']"]);
    }
}
