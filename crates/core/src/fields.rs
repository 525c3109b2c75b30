//! `fields`: a projection of a resource. Paths are checked against the members that a resource can have, whether or not
//! this one has them, so a misspelt path fails on an empty list too.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{Fault, FaultKind, echo, nearest};

const MEMBERS: [&str; 17] = [
    "kind",
    "id",
    "href",
    "name",
    "generation",
    "spec",
    "labels",
    "created_time",
    "updated_time",
    "created_by",
    "updated_by",
    "deleted_time",
    "deleted_by",
    "owner_references",
    "references",
    "tenancy",
    "status",
];
/// The members that users set; the server manages the others.
const SET_BY_USERS: [&str; 5] = ["kind", "name", "spec", "labels", "references"];
const OWNER_MEMBERS: [&str; 3] = ["kind", "id", "href"];
const CONDITION_MEMBERS: [&str; 8] = [
    "type",
    "status",
    "reason",
    "message",
    "observed_generation",
    "created_time",
    "last_updated_time",
    "last_transition_time",
];

/// Each path is looked for in each resource, so their number has a bound.
const MAX_PATHS: usize = 100;

/// Whether the server manages this member of a resource.
pub fn is_managed(member: &str) -> bool {
    MEMBERS.contains(&member) && !SET_BY_USERS.contains(&member)
}

/// What to keep of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selection {
    Whole,
    Parts(Vec<Vec<String>>),
}

/// A checked `fields` parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection(BTreeMap<String, Selection>);

/// How a member is to be printed.
pub(crate) enum MemberSelection<'a> {
    /// Not at all.
    No,
    /// As it is.
    Whole,
    /// Only these paths below it.
    Parts(&'a [Vec<String>]),
}

impl Projection {
    /// Reads a comma-separated list of paths. Every unknown path is one fault.
    pub fn parse(list: &str) -> Result<Self, Vec<Fault>> {
        let mut members = BTreeMap::from([("id".to_owned(), Selection::Whole)]);
        let mut faults = Vec::new();
        let count = split_paths(list).count();
        if count > MAX_PATHS {
            let message = format!("fields takes at most {MAX_PATHS} paths, not {count}");
            return Err(vec![
                Fault::new(FaultKind::Parameter, "fields", message)
                    .rule("max")
                    .bounds(None, MAX_PATHS as u64),
            ]);
        }
        for path in split_paths(list) {
            match segments(path).and_then(|segments| check(&segments).map(|()| segments)) {
                Ok(mut segments) => {
                    let member = segments.remove(0);
                    let selection = members.entry(member).or_insert_with(|| Selection::Parts(Vec::new()));
                    match selection {
                        Selection::Whole => {}
                        Selection::Parts(_) if segments.is_empty() => *selection = Selection::Whole,
                        Selection::Parts(parts) => parts.push(segments),
                    }
                }
                Err(why) => {
                    let message = format!("fields: '{}' {why}", echo(path));
                    faults.push(
                        Fault::new(FaultKind::Parameter, "fields", message)
                            .given(&path.into())
                            .rule("unknown"),
                    );
                }
            }
        }
        if faults.is_empty() { Ok(Self(members)) } else { Err(faults) }
    }

    /// How `member` is wanted.
    pub(crate) fn wants(&self, member: &str) -> MemberSelection<'_> {
        match self.0.get(member) {
            None => MemberSelection::No,
            Some(Selection::Whole) => MemberSelection::Whole,
            Some(Selection::Parts(parts)) => MemberSelection::Parts(parts),
        }
    }
}

/// The parts of `value` at `paths`; `None` when it has none of them. A number in a path is an element of a list; where
/// there is none, lists keep their objects, each cut to what is asked for.
pub(crate) fn project(value: &Value, paths: &[&[String]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (key, member) in members {
                let below: Vec<&[String]> =
                    paths.iter().filter(|path| path[0] == *key).map(|path| &path[1..]).collect();
                if !below.is_empty()
                    && let Some(part) = project(member, &below)
                {
                    kept.insert(key.clone(), part);
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => {
            let kept: Vec<Value> = items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| {
                    let below: Vec<&[String]> =
                        paths.iter().filter_map(|path| below_index(path, index)).collect();
                    let part = if below.is_empty() { return None } else { project(item, &below) };
                    part.or_else(|| item.is_object().then(|| Map::new().into()))
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

/// What a path selects of the element at an index of a list.
fn below_index(path: &[String], index: usize) -> Option<&[String]> {
    match path[0].parse::<usize>() {
        Ok(number) => (number == index).then(|| &path[1..]),
        Err(_) => Some(path),
    }
}

/// Splits at the commas outside of brackets.
fn split_paths(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    list.split(move |c| {
        inside = match c {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        c == ',' && !inside
    })
    .map(str::trim)
}

/// `spec.a['b.c']` as its segments. What follows `labels.` is one key, dots included.
fn segments(path: &str) -> Result<Vec<String>, String> {
    if let Some(key) = path.strip_prefix("labels.").filter(|key| !key.is_empty() && !key.contains('[')) {
        return Ok(vec!["labels".to_owned(), key.to_owned()]);
    }
    let malformed = || "is not a path such as name, labels['a/b'] or spec.region".to_owned();
    let mut segments = Vec::new();
    let mut rest = path;
    loop {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (segment, tail) = rest.split_at(end);
        if segment.is_empty() {
            return Err(malformed());
        }
        segments.push(segment.to_owned());
        rest = tail;
        while let Some(quoted) = rest.strip_prefix("['") {
            let (key, tail) = quoted.split_once("']").ok_or_else(malformed)?;
            segments.push(key.to_owned());
            rest = tail;
        }
        match rest.strip_prefix('.') {
            Some(tail) => rest = tail,
            None if rest.is_empty() => return Ok(segments),
            None => return Err(malformed()),
        }
    }
}

fn check(segments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (known, unknown): (&[&str], &str) = match words.as_slice() {
        ["spec" | "labels" | "references" | "tenancy", ..] | ["status", "conditions"] => return Ok(()),
        [member] => (&MEMBERS, *member),
        ["owner_references", member] => (&OWNER_MEMBERS, *member),
        ["status", "conditions", member] => (&CONDITION_MEMBERS, *member),
        ["status", member] => (&["conditions"], *member),
        [member, ..] if !MEMBERS.contains(member) => (&MEMBERS, *member),
        _ => return Err("goes deeper than the resource does".to_owned()),
    };
    if known.contains(&unknown) {
        return Ok(());
    }
    Err(match nearest(unknown, known.iter().copied()) {
        Some(word) => format!("is not a member of a resource: did you mean {word}?"),
        None => format!("is not a member of a resource; known are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_read_and_unknown_ones_are_named_with_a_suggestion() {
        assert!(
            Projection::parse("name,status,owner_references.id,labels.a.b/c,labels['x/y'],spec.a.b").is_ok()
        );
        assert!(Projection::parse("status.conditions.type,references.wif").is_ok());
        let faults =
            Projection::parse("nmae,status.condition,spec..a,name.x,status.conditions.reson,labels.,")
                .unwrap_err();
        assert_eq!(faults.len(), 7);
        assert!(faults[0].message.contains("did you mean name?"), "{}", faults[0].message);
        assert!(faults[1].message.contains("did you mean conditions?"));
        assert!(faults[4].message.contains("did you mean reason?"));
    }

    #[test]
    fn a_part_keeps_its_position_in_the_tree() {
        let value = json!({"a": {"b": 1, "c": 2}, "d": [{"e": 1, "f": 2}, {"f": 3}]});
        let paths = [vec!["a".to_owned(), "b".to_owned()], vec!["d".to_owned(), "e".to_owned()]];
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        assert_eq!(project(&value, &paths), Some(json!({"a": {"b": 1}, "d": [{"e": 1}, {}]})));
        assert_eq!(project(&value, &[&["x".to_owned()]]), None);
    }

    #[test]
    fn lists_are_cut_by_number_or_by_member_and_nothing_is_made_up() {
        let value = json!({"l": [1, 2], "o": [{"a": 1, "b": 2}, {"b": 3}, 5]});
        let part = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            project(&value, &[&path])
        };
        assert_eq!(part("l.1"), Some(json!({"l": [2]})));
        assert_eq!(part("l.2"), None);
        assert_eq!(part("l.a"), None);
        assert_eq!(part("o.0.b"), Some(json!({"o": [{"b": 2}]})));
        assert_eq!(part("o.a"), Some(json!({"o": [{"a": 1}, {}]})));
        assert_eq!(part("o.2"), Some(json!({"o": [5]})));
    }
}
