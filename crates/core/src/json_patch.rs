//! JSON Patch (RFC 6902) with bounds: on the number of operations, the amount of data that `copy` may multiply, the
//! work in long lists, and the depth.

use serde_json::{Map, Value};

use crate::json::{MAX_DEPTH, depth_exceeds, same};
use crate::{Error, Fault, FaultKind, Faults};

const MAX_OPERATIONS: usize = 1_000;
/// Bytes of text and numbers, with 8 for each value besides.
const MAX_COPIED: usize = 1 << 20;
/// List entries that insertions and removals before them push aside.
const MAX_SHIFTED: usize = 10_000_000;

/// One checked operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    index: usize,
    path: Pointer,
    kind: OperationKind,
}

#[derive(Debug, Clone, PartialEq)]
enum OperationKind {
    Add(Value),
    Remove,
    Replace(Value),
    Move(Pointer),
    Copy(Pointer),
    Test(Value),
}

/// A JSON Pointer: its text and its unescaped segments.
#[derive(Debug, Clone, PartialEq)]
struct Pointer {
    text: String,
    segments: Vec<String>,
}

impl Operation {
    /// Reads a JSON Patch document. Every fault of every operation is reported.
    pub fn parse_all(entries: &[Value]) -> Result<Vec<Self>, Error> {
        let mut faults = Faults::default();
        if entries.is_empty() {
            faults.push(Fault::missing("operations"));
        }
        if entries.len() > MAX_OPERATIONS {
            let message =
                format!("A JSON Patch takes at most {MAX_OPERATIONS} operations, not {}", entries.len());
            faults.push(
                Fault::new(FaultKind::Value, "operations", message)
                    .rule("max")
                    .bounds(None, MAX_OPERATIONS as u64),
            );
            return Err(faults.into_error());
        }
        let mut operations = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            operations.extend(Self::parse(index, entry, &mut faults));
        }
        faults.or(operations)
    }

    /// The value that an `add`, `replace` or `test` brings.
    pub(crate) fn value(&self) -> Option<&Value> {
        match &self.kind {
            OperationKind::Add(value) | OperationKind::Replace(value) | OperationKind::Test(value) => {
                Some(value)
            }
            _ => None,
        }
    }

    fn parse(index: usize, entry: &Value, faults: &mut Faults) -> Option<Self> {
        let Value::Object(members) = entry else {
            faults.push(Fault::wrong_type(format!("[{index}]"), "an object", entry));
            return None;
        };
        let path = pointer(members, index, "path", faults);
        let value = |faults: &mut Faults| {
            let value = members.get("value").cloned();
            if value.is_none() {
                faults.push(Fault::missing(format!("[{index}].value")));
            }
            value
        };
        let field = format!("[{index}].op");
        let kind = match members.get("op") {
            None => {
                faults.push(Fault::missing(field));
                None
            }
            Some(op) => match op.as_str() {
                Some("add") => value(faults).map(OperationKind::Add),
                Some("remove") => Some(OperationKind::Remove),
                Some("replace") => value(faults).map(OperationKind::Replace),
                Some("move") => pointer(members, index, "from", faults).map(OperationKind::Move),
                Some("copy") => pointer(members, index, "from", faults).map(OperationKind::Copy),
                Some("test") => value(faults).map(OperationKind::Test),
                _ => {
                    let allowed = ["add", "remove", "replace", "move", "copy", "test"];
                    let message = format!("{field} must be one of {}", allowed.join(", "));
                    faults.push(Fault::value(field, message, op).rule("enum").allowed(allowed));
                    None
                }
            },
        };
        Some(Self { index, path: path?, kind: kind? })
    }

    /// How deep a value at the path may nest: a spec may have MAX_DEPTH levels, and the document
    /// around it is one more.
    fn remaining_depth(&self) -> usize {
        (MAX_DEPTH + 1).saturating_sub(self.path.segments.len())
    }

    fn missing_path(&self, pointer: &Pointer) -> Error {
        let field = format!("[{}].path", self.index);
        let path = crate::echo(&pointer.text);
        let message = format!("{field}: nothing is at '{path}'");
        let mut faults = Faults::default();
        faults.push(Fault::value(field, message, &Value::from(path)).rule("path"));
        faults.into_error()
    }

    fn too_large(&self, message: &str) -> Error {
        let mut faults = Faults::default();
        faults.push(Fault::new(FaultKind::Value, format!("[{}]", self.index), message).rule("max"));
        faults.into_error()
    }
}

/// Applies the operations one after the other; the first that fails ends it.
pub(crate) fn apply(document: &mut Value, operations: &[Operation]) -> Result<(), Error> {
    let (mut copied, mut shifted) = (0, 0);
    for op in operations {
        match &op.kind {
            OperationKind::Add(value) => add(document, op, value.clone(), &mut shifted)?,
            OperationKind::Replace(value) => {
                if depth_exceeds(value, op.remaining_depth()) {
                    return Err(op.too_large("the document would be nested too deeply"));
                }
                *find_mut(document, &op.path.segments).ok_or_else(|| op.missing_path(&op.path))? =
                    value.clone();
            }
            OperationKind::Remove => {
                remove(document, op, &op.path, &mut shifted)?;
            }
            OperationKind::Move(from) => {
                if op.path.segments.starts_with(&from.segments)
                    && op.path.segments.len() > from.segments.len()
                {
                    return Err(op.missing_path(&op.path));
                }
                let value = remove(document, op, from, &mut shifted)?;
                add(document, op, value, &mut shifted)?;
            }
            OperationKind::Copy(from) => {
                let value = find(document, &from.segments).ok_or_else(|| op.missing_path(from))?;
                copied += weight(value);
                if copied > MAX_COPIED {
                    return Err(op.too_large("the operations copy too much"));
                }
                let value = value.clone();
                add(document, op, value, &mut shifted)?;
            }
            OperationKind::Test(value) => {
                let found = find(document, &op.path.segments).ok_or_else(|| op.missing_path(&op.path))?;
                if !same(found, value) {
                    return Err(Error::state_conflict(format!(
                        "The test of '{}' in operation {} failed: the value is another one",
                        crate::echo(&op.path.text),
                        op.index
                    )));
                }
            }
        }
        if shifted > MAX_SHIFTED {
            return Err(op.too_large("the operations move too many list entries"));
        }
    }
    Ok(())
}

fn add(document: &mut Value, op: &Operation, value: Value, shifted: &mut usize) -> Result<(), Error> {
    if depth_exceeds(&value, op.remaining_depth()) {
        return Err(op.too_large("the document would be nested too deeply"));
    }
    let Some((last, parents)) = op.path.segments.split_last() else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, parents).ok_or_else(|| op.missing_path(&op.path))? {
        Value::Object(members) => {
            members.insert(last.clone(), value);
        }
        Value::Array(items) => {
            let at = if last == "-" { Some(items.len()) } else { index(last).filter(|i| *i <= items.len()) };
            let at = at.ok_or_else(|| op.missing_path(&op.path))?;
            *shifted += items.len() - at;
            items.insert(at, value);
        }
        _ => return Err(op.missing_path(&op.path)),
    }
    Ok(())
}

fn remove(
    document: &mut Value,
    op: &Operation,
    pointer: &Pointer,
    shifted: &mut usize,
) -> Result<Value, Error> {
    let Some((last, parents)) = pointer.segments.split_last() else {
        return Ok(std::mem::take(document));
    };
    let removed = match find_mut(document, parents) {
        Some(Value::Object(members)) => members.shift_remove(last),
        Some(Value::Array(items)) => index(last).filter(|i| *i < items.len()).map(|i| {
            *shifted += items.len() - i;
            items.remove(i)
        }),
        _ => None,
    };
    removed.ok_or_else(|| op.missing_path(pointer))
}

fn find<'a>(document: &'a Value, segments: &[String]) -> Option<&'a Value> {
    segments.iter().try_fold(document, |at, segment| match at {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    })
}

fn find_mut<'a>(document: &'a mut Value, segments: &[String]) -> Option<&'a mut Value> {
    segments.iter().try_fold(document, |at, segment| match at {
        Value::Object(members) => members.get_mut(segment),
        Value::Array(items) => items.get_mut(index(segment)?),
        _ => None,
    })
}

/// A list index: digits without a leading zero.
fn index(segment: &str) -> Option<usize> {
    let canonical =
        segment.bytes().all(|b| b.is_ascii_digit()) && (segment == "0" || !segment.starts_with('0'));
    if canonical { segment.parse().ok() } else { None }
}

fn weight(value: &Value) -> usize {
    8 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        Value::String(text) => text.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Null | Value::Bool(_) => 0,
    }
}

fn pointer(members: &Map<String, Value>, index: usize, name: &str, faults: &mut Faults) -> Option<Pointer> {
    let field = format!("[{index}].{name}");
    let text = match members.get(name) {
        None => {
            faults.push(Fault::missing(field));
            return None;
        }
        Some(Value::String(text)) => text,
        Some(other) => {
            faults.push(Fault::wrong_type(field, "a JSON Pointer", other));
            return None;
        }
    };
    if text.is_empty() {
        return Some(Pointer { text: String::new(), segments: Vec::new() });
    }
    let segments: Option<Vec<String>> =
        text.strip_prefix('/').and_then(|rest| rest.split('/').map(unescape).collect());
    if segments.is_none() {
        let message = format!("{field} must be a JSON Pointer such as /spec/region");
        faults.push(Fault::value(field, message, &Value::from(text.as_str())).format("json-pointer"));
    }
    Some(Pointer { text: text.clone(), segments: segments? })
}

/// `~1` is `/` and `~0` is `~`; any other tilde is no pointer.
fn unescape(segment: &str) -> Option<String> {
    let mut plain = String::with_capacity(segment.len());
    let mut letters = segment.chars();
    while let Some(c) = letters.next() {
        plain.push(match c {
            '~' => match letters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut document: Value, patch: &Value) -> Result<Value, Error> {
        apply(&mut document, &Operation::parse_all(patch.as_array().unwrap())?)?;
        Ok(document)
    }

    #[test]
    fn each_operation_does_what_the_standard_says() {
        for (document, patch, result) in [
            (
                json!({"foo":"bar"}),
                json!([{"op":"add","path":"/baz","value":"qux"}]),
                json!({"foo":"bar","baz":"qux"}),
            ),
            (
                json!({"foo":["a","c"]}),
                json!([{"op":"add","path":"/foo/1","value":"b"}]),
                json!({"foo":["a","b","c"]}),
            ),
            (
                json!({"foo":["a"]}),
                json!([{"op":"add","path":"/foo/-","value":["b"]}]),
                json!({"foo":["a",["b"]]}),
            ),
            (json!({"a":1,"b":2}), json!([{"op":"remove","path":"/a"}]), json!({"b":2})),
            (
                json!({"foo":["a","b","c"]}),
                json!([{"op":"remove","path":"/foo/1"}]),
                json!({"foo":["a","c"]}),
            ),
            (json!({"a":1}), json!([{"op":"replace","path":"/a","value":2}]), json!({"a":2})),
            (
                json!({"a":{"b":1},"c":{}}),
                json!([{"op":"move","from":"/a/b","path":"/c/d"}]),
                json!({"a":{},"c":{"d":1}}),
            ),
            (json!({"l":[1,2,3]}), json!([{"op":"move","from":"/l/0","path":"/l/2"}]), json!({"l":[2,3,1]})),
            (json!({"a":[1]}), json!([{"op":"copy","from":"/a","path":"/b"}]), json!({"a":[1],"b":[1]})),
            (
                json!({"a/b":1,"m~n":2}),
                json!([{"op":"remove","path":"/a~1b"},{"op":"test","path":"/m~0n","value":2.0}]),
                json!({"m~n":2}),
            ),
        ] {
            assert_eq!(patched(document, &patch).unwrap(), result, "{patch}");
        }
    }

    #[test]
    fn a_failed_test_is_a_conflict_and_a_missing_path_is_invalid() {
        let failed = patched(json!({"a":1}), &json!([{"op":"test","path":"/a","value":2}])).unwrap_err();
        assert_eq!(failed.code(), "HYPERFLEET-CNF-003");
        for patch in [
            json!([{"op":"remove","path":"/x"}]),
            json!([{"op":"replace","path":"/x/y","value":1}]),
            json!([{"op":"add","path":"/l/3","value":1}]),
            json!([{"op":"add","path":"/l/01","value":1}]),
            json!([{"op":"move","from":"/l","path":"/l/0"}]),
            json!([{"op":"test","path":"/x","value":null}]),
            json!([{"op":"copy","from":"/x","path":"/y"}]),
        ] {
            let error = patched(json!({"l":[1,2]}), &patch).unwrap_err();
            assert_eq!(error.code(), "HYPERFLEET-VAL-002", "{patch}");
        }
    }

    #[test]
    fn every_fault_of_a_patch_document_is_reported() {
        let error = Operation::parse_all(&[
            json!({"op":"frob","path":"/a"}),
            json!({"path":"b"}),
            json!({"op":"add","path":"/~2"}),
            json!({"op":"move","path":"/a"}),
            json!(5),
        ])
        .unwrap_err();
        let fields: Vec<_> = error.faults.iter().map(|f| f.field.as_str()).collect();
        assert_eq!(fields, ["[0].op", "[1].path", "[1].op", "[2].path", "[2].value", "[3].from", "[4]"]);
    }

    #[test]
    fn copying_cannot_blow_up_the_document() {
        let deep: Vec<_> = (0..80).map(|_| json!({"op":"copy","from":"/spec","path":"/spec/a"})).collect();
        assert!(patched(json!({"spec":{"a":1}}), &Value::from(deep)).is_err());
        let wide: Vec<_> =
            (0..900).map(|i| json!({"op":"copy","from":"/spec","path":format!("/spec/k{i}/x")})).collect();
        assert!(patched(json!({"spec":{"a":1}}), &Value::from(wide)).is_err());
        let doubling: Vec<_> =
            (0..40).map(|i| json!({"op":"copy","from":"/spec/l","path":format!("/spec/l/{i}")})).collect();
        assert!(patched(json!({"spec":{"l":[1,2,3]}}), &Value::from(doubling)).is_err());
    }
}
