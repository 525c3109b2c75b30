//! Resolves the path in a query to the field of a resource. An unknown path gets a suggestion of the nearest known one.

use super::Options;
use super::error::QueryFault;
use super::lexer::{Path, PathSegment};
use super::tree::{ConditionPart, Field, Segment, TextColumn, TimeColumn};
use crate::json::member;
use crate::labels::check_key;
use crate::{echo, nearest};

/// The field that a path names. `end` is the byte behind the path, where more of it may be lacking.
pub(super) fn resolve(path: &Path, end: usize, options: Options) -> Result<Field, QueryFault> {
    let Path { root, below } = path;
    // Only a label's key can have two dots in a row.
    let empty = below.iter().find(|segment| segment.text.is_empty() && !segment.bracketed);
    if let Some(empty) = empty.filter(|_| root.text != "labels") {
        return Err(QueryFault::syntax(empty.at, "expected a name behind the dot"));
    }
    if let Some(field) = plain(&root.text) {
        return match below.first() {
            None => Ok(field),
            Some(part) => Err(QueryFault::syntax(part.at, format!("{} has no parts", root.text))),
        };
    }
    match (root.text.as_str(), below.is_empty()) {
        ("labels", true) => Err(incomplete(end, "labels.environment")),
        ("labels", false) => label(below),
        ("spec", true) => Err(incomplete(end, "spec.region")),
        ("spec", false) => Ok(Field::Spec(below.iter().map(|segment| Segment::new(&segment.text)).collect())),
        ("status", _) => condition(end, below),
        ("tenancy", true) if options.tenancy => Err(incomplete(end, "tenancy.organization")),
        ("tenancy", false) if options.tenancy => dimension(below),
        _ => Err(unknown("a field", root, &known(options))),
    }
}

/// A field of one word.
fn plain(name: &str) -> Option<Field> {
    let text =
        TextColumn::ALL.iter().find(|(known, _)| *known == name).map(|(_, column)| Field::Text(*column));
    let time =
        || TimeColumn::ALL.iter().find(|(known, _)| *known == name).map(|(_, column)| Field::Time(*column));
    text.or_else(time).or((name == "generation").then_some(Field::Generation))
}

/// The first words of all fields.
fn known(options: Options) -> Vec<&'static str> {
    let texts = TextColumn::ALL.map(|(name, _)| name);
    let times = TimeColumn::ALL.map(|(name, _)| name);
    let mut known = [&texts[..], &["generation"], &times, &["labels", "spec", "status"]].concat();
    known.extend(options.tenancy.then_some("tenancy"));
    known
}

fn label(key: &[PathSegment]) -> Result<Field, QueryFault> {
    let at = key[0].at;
    let key = whole_key(key)?;
    let mut faults = Vec::new();
    check_key(&echo(&member("labels", &key)), &key, &mut faults);
    match faults.into_iter().next() {
        None => Ok(Field::Label(key)),
        Some(fault) => Err(QueryFault::syntax(at, fault.message)),
    }
}

/// A dimension of tenants, which are named in letters, digits and three signs.
fn dimension(segments: &[PathSegment]) -> Result<Field, QueryFault> {
    let key = whole_key(segments)?;
    let good = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if good {
        return Ok(Field::Tenancy(key));
    }
    let at = segments.first().map_or(0, |segment| segment.at);
    Err(QueryFault::syntax(at, "expected the name of a dimension: letters, digits, '.', '_' and '-'"))
}

/// A key of which dots are a part: all that follows the first dot, or what stands in one pair of brackets.
fn whole_key(segments: &[PathSegment]) -> Result<String, QueryFault> {
    match segments {
        [only] => Ok(only.text.clone()),
        _ => match segments.iter().find(|segment| segment.bracketed) {
            Some(bracketed) => {
                Err(QueryFault::syntax(bracketed.at, "expected the whole key in one pair of brackets"))
            }
            None => Ok(segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(".")),
        },
    }
}

/// `conditions.<Type>`, which means its status, or `conditions.<Type>.<part>`.
fn condition(end: usize, below: &[PathSegment]) -> Result<Field, QueryFault> {
    let (kind, part) = match below {
        [conditions, ..] if conditions.text != "conditions" => {
            return Err(unknown("a part of status", conditions, &["conditions"]));
        }
        [] | [_] => return Err(incomplete(end, "status.conditions.Reconciled")),
        [_, kind] => (kind, ConditionPart::Status),
        [_, kind, part] => (kind, condition_part(part)?),
        [_, _, part, beyond, ..] => {
            condition_part(part)?;
            return Err(QueryFault::syntax(beyond.at, format!("{} has no parts", echo(&part.text))));
        }
    };
    Ok(Field::Condition { kind: kind.text.clone(), part })
}

fn condition_part(written: &PathSegment) -> Result<ConditionPart, QueryFault> {
    let known = ConditionPart::ALL.iter().find(|(name, _)| *name == written.text);
    let unknown = || unknown("a part of a condition", written, &ConditionPart::ALL.map(|(name, _)| name));
    known.map(|(_, part)| *part).ok_or_else(unknown)
}

fn incomplete(end: usize, example: &str) -> QueryFault {
    QueryFault::syntax(end, format!("expected more of the field, as in {example}"))
}

fn unknown(what: &str, segment: &PathSegment, known: &[&'static str]) -> QueryFault {
    let given = echo(&segment.text);
    let message = match nearest(&segment.text, known.iter().copied()) {
        Some(near) => format!("`{given}` is not {what}: did you mean {near}?"),
        None => format!("`{given}` is not {what}; known are {}", known.join(", ")),
    };
    QueryFault::unknown(segment.at, message, known.to_vec())
}
