//! Both patch languages, through the rule that uses them: a resource is created with one spec and
//! patched, and what comes out is compared with the naive reading of the standards.

use std::sync::{Arc, LazyLock};

use hyperfleet_core::rules::{Outcome, ReportLimits, Rulebook, WorkingSet, decide};
use hyperfleet_core::{
    AccessScope, Caller, Catalog, Command, Contract, Create, EntityDescriptor, Error, FeedPosition, Intent,
    Labels, Operation, Patch, PatchBody, References, Resource, ResourcePath, SpecSchemas, Timestamp,
};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::{cases, naive};

static RULEBOOK: LazyLock<Rulebook> = LazyLock::new(|| {
    let descriptor = EntityDescriptor { kind: "Thing".into(), plural: "things".into(), ..Default::default() };
    let catalog = Arc::new(Catalog::new(vec![descriptor]).unwrap());
    Rulebook {
        catalog,
        schemas: SpecSchemas::default(),
        max_member_bytes: 1 << 20,
        report_limits: ReportLimits::default(),
        contract: Contract::Documented,
        legacy_conditions: false,
        tenancy: false,
        href_prefix: "/api/hyperfleet/v1",
    }
});

/// A working set with one resource.
struct Fixture {
    set: WorkingSet,
    resource: Resource,
}

impl Fixture {
    fn with(spec: &Value) -> Self {
        let create = Create {
            id: hyperfleet_core::ResourceId::generate(),
            kind: "Thing".into(),
            ancestors: Vec::new(),
            name: "thing".to_owned(),
            spec: spec.clone(),
            labels: Labels::new(),
            references: References::new(),
        };
        let mut set = WorkingSet::new(FeedPosition::default());
        let resource = run(&mut set, Intent::Create(create)).unwrap();
        Self { set, resource }
    }

    fn patch(&mut self, body: PatchBody) -> Result<Value, Error> {
        let target = ResourcePath { kind: None, id: self.resource.id.to_string(), ancestors: Vec::new() };
        self.resource = run(
            &mut self.set,
            Intent::Patch(Patch { target, expected: None, body: body.into(), checked: None }),
        )?;
        self.resource.spec.parse()
    }

    fn merge(&mut self, patch: &Value) -> Result<Value, Error> {
        self.patch(PatchBody::Merge(Map::from_iter([("spec".to_owned(), patch.clone())])))
    }

    fn apply(&mut self, operations: &Value) -> Result<Value, Error> {
        self.patch(PatchBody::Json(Operation::parse_all(operations.as_array().unwrap())?))
    }
}

fn run(set: &mut WorkingSet, intent: Intent) -> Result<Resource, Error> {
    let caller = Caller {
        actor: "ann@example.com".to_owned(),
        request_id: String::new(),
        scope: AccessScope::everything(),
    };
    let command = Command { caller, dry_run: false, intent, idempotency: None };
    let now = Timestamp::from_micros(0);
    let decision = decide(&RULEBOOK, set, &command, now)?;
    let Outcome::Resource(resource) = set.apply(decision, &command.caller, now) else {
        panic!("a change shows the resource")
    };
    Ok(*resource)
}

/// Keys that tell a careless pointer from a careful one.
const KEYS: [&str; 7] = ["a", "b", "a/b", "m~n", "", "0", "-"];

fn value() -> impl Strategy<Value = Value> {
    let leaf = select(vec![json!(null), json!(true), json!(0), json!(1), json!(1.0), json!("x"), json!("")]);
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array), members(inner)]
    })
}

fn members(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((select(&KEYS[..]), inner), 0..4).prop_map(|members| {
        members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
    })
}

fn object() -> impl Strategy<Value = Value> {
    members(value())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, v)| !v.is_null());
            kept.map(|(k, v)| (k.clone(), without_nulls(v))).collect::<Map<_, _>>().into()
        }
        plain => plain.clone(),
    }
}

/// The merge patch that leads from one value to another that holds no null member.
fn merge_difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let now = to.iter().map(|(key, new)| {
        (key.clone(), from.get(key).map_or_else(|| new.clone(), |old| merge_difference(old, new)))
    });
    gone.chain(now).collect::<Map<_, _>>().into()
}

/// Operations that lead from one value to another, each change preceded by a test of what it meets.
fn operations(path: &str, from: &Value, to: &Value, all: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let at = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                all.push(json!({"op": "remove", "path": at(key)}));
            }
            for (key, new) in to {
                match from.get(key) {
                    Some(old) => operations(&at(key), old, new, all),
                    None => all.push(json!({"op": "add", "path": at(key), "value": new})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            for i in (to.len()..from.len()).rev() {
                all.push(json!({"op": "remove", "path": format!("{path}/{i}")}));
            }
            for (i, (old, new)) in from.iter().zip(to).enumerate() {
                operations(&format!("{path}/{i}"), old, new, all);
            }
            for new in to.iter().skip(from.len()) {
                all.push(json!({"op": "add", "path": format!("{path}/-"), "value": new}));
            }
        }
        _ if naive::equal(from, to) => {}
        _ => {
            all.push(json!({"op": "test", "path": path, "value": from}));
            all.push(json!({"op": "replace", "path": path, "value": to}));
        }
    }
}

fn pointer() -> impl Strategy<Value = String> {
    let token = select(vec!["a", "b", "a~1b", "m~0n", "", "0", "1", "-", "01", "2"]);
    prop::collection::vec(token, 0..3)
        .prop_map(|tokens| tokens.iter().fold("/spec".to_owned(), |path, token| format!("{path}/{token}")))
}

fn operation() -> impl Strategy<Value = Value> {
    let name = select(vec!["add", "add", "remove", "replace", "move", "copy", "test"]);
    (name, pointer(), pointer(), value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_merge_does_what_the_standard_says(spec in object(), patch in object()) {
        let merged = Fixture::with(&spec).merge(&patch).unwrap();
        prop_assert!(naive::equal(&merged, &naive::merge(Some(&spec), &patch)), "{}", merged);
    }

    #[test]
    fn a_merge_done_twice_changes_nothing_the_second_time(spec in object(), patch in object()) {
        let mut fixture = Fixture::with(&spec);
        let once = fixture.merge(&patch).unwrap();
        let version = fixture.set.version();
        prop_assert_eq!(fixture.merge(&patch).unwrap(), once);
        prop_assert_eq!(fixture.set.version(), version);
    }

    #[test]
    fn a_null_removes_its_member_and_absent_members_stay(spec in object(), key in select(&KEYS[..])) {
        let merged = Fixture::with(&spec).merge(&json!({key: null})).unwrap();
        let mut expected = spec.as_object().unwrap().clone();
        expected.shift_remove(key);
        prop_assert_eq!(merged, Value::Object(expected));
    }

    #[test]
    fn the_difference_of_two_specs_merges_one_into_the_other(from in object(), to in object()) {
        let to = without_nulls(&to);
        let merged = Fixture::with(&from).merge(&merge_difference(&from, &to)).unwrap();
        prop_assert!(naive::equal(&merged, &to), "{}", merged);
    }

    #[test]
    fn the_operations_between_two_specs_bring_one_to_the_other(from in object(), to in object()) {
        let mut all = vec![json!({"op": "test", "path": "/spec", "value": from})];
        operations("/spec", &from, &to, &mut all);
        let patched = Fixture::with(&from).apply(&Value::Array(all)).unwrap();
        prop_assert!(naive::equal(&patched, &to), "{}", patched);
    }

    #[test]
    fn operations_do_what_the_standard_says_or_nothing_at_all(
        spec in object(), all in prop::collection::vec(operation(), 1..5),
    ) {
        let mut fixture = Fixture::with(&spec);
        let (resource, version) = (fixture.resource.clone(), fixture.set.version());
        let document = json!({"spec": spec, "labels": {}, "references": {}});
        let expected = naive::patch(&document, &Value::Array(all.clone()));
        match (fixture.apply(&Value::Array(all)), expected) {
            (Ok(patched), Ok(document)) => {
                prop_assert!(naive::equal(&patched, &document["spec"]), "{} is not {}", patched, document);
            }
            (Err(error), expected) => {
                let code = match expected {
                    Err(naive::Refusal::TestFailed) => "HYPERFLEET-CNF-003",
                    Err(naive::Refusal::NoSuchPath) => "HYPERFLEET-VAL-002",
                    Ok(document) => {
                        prop_assert!(!document["spec"].is_object(), "{:?} for {}", error, document);
                        "HYPERFLEET-VAL-002"
                    }
                };
                prop_assert_eq!(error.code(), code);
                prop_assert_eq!(&fixture.resource, &resource);
                prop_assert_eq!(fixture.set.version(), version);
            }
            (Ok(patched), Err(refusal)) => prop_assert!(false, "{} in spite of {:?}", patched, refusal),
        }
    }

    #[test]
    fn no_document_makes_the_parser_panic(document in value(), all in prop::collection::vec(value(), 0..4)) {
        for entry in all.iter().chain([&document]) {
            let odd = json!({"op": entry, "path": entry, "from": entry, "value": entry});
            prop_assert!(Operation::parse_all(&[odd]).is_err());
        }
        prop_assert!(Operation::parse_all(&all).is_err());
    }
}

/// The rule that refused the operations.
fn refused_by(spec: &Value, operations: impl IntoIterator<Item = Value>) -> Option<&'static str> {
    let error = Fixture::with(spec).apply(&operations.into_iter().collect()).unwrap_err();
    assert_eq!(error.code(), "HYPERFLEET-VAL-002", "{error:?}");
    error.faults[0].constraint
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[test]
fn copies_cannot_multiply_texts_keys_or_long_numbers() {
    let copies = |from: &str| {
        let from = from.to_owned();
        (0..900).map(move |i| json!({"op": "copy", "from": from, "path": format!("/spec/{i}")}))
    };
    let long = "7".repeat(200_000);
    let number: Value = serde_json::from_str(&long).unwrap();
    assert_eq!(refused_by(&json!({"t": &long}), copies("/spec/t")), Some("max"));
    assert_eq!(refused_by(&json!({"t": {&long: 1}}), copies("/spec/t")), Some("max"));
    assert_eq!(refused_by(&json!({"t": number}), copies("/spec/t")), Some("max"));
    assert_eq!(refused_by(&json!({"t": vec![0; 20_000]}), copies("/spec/t")), Some("max"));
    assert_eq!(refused_by(&json!({"t": 1}), copies("/spec")), Some("max"));
}

#[test]
fn a_spec_may_be_64_levels_deep_however_it_is_written_and_no_deeper() {
    for (levels, fits) in [(64, true), (65, false)] {
        let spec = nested(levels);
        let inner = spec["a"].clone();
        let document = json!({"spec": spec});
        for operations in [
            json!([{"op": "replace", "path": "/spec", "value": spec}]),
            json!([{"op": "add", "path": "/spec", "value": spec}]),
            json!([{"op": "add", "path": "/spec/a", "value": inner}]),
            json!([{"op": "replace", "path": "/spec/a", "value": inner}]),
            json!([{"op": "add", "path": "", "value": document}]),
            json!([{"op": "replace", "path": "", "value": document}]),
        ] {
            let patched = Fixture::with(&json!({"a": 1})).apply(&operations);
            assert_eq!(patched.is_ok(), fits, "{levels} levels by {operations}: {patched:?}");
        }
        assert_eq!(Fixture::with(&json!({})).merge(&spec).is_ok(), fits, "{levels} levels merged");
    }
}

#[test]
fn moving_and_copying_cannot_nest_deeper_than_writing() {
    let deep = json!({"x": nested(40), "y": nested(40)});
    let bottom = format!("/spec/y{}/b", "/a".repeat(39));
    assert_eq!(refused_by(&deep, [json!({"op": "move", "from": "/spec/x", "path": bottom})]), Some("max"));
    assert_eq!(refused_by(&deep, [json!({"op": "copy", "from": "/spec/x", "path": bottom})]), Some("max"));
    let into_itself = (0..70).map(|_| json!({"op": "copy", "from": "/spec", "path": "/spec/a"}));
    assert_eq!(refused_by(&json!({"a": 1}), into_itself), Some("max"));
}

#[test]
fn more_than_a_thousand_operations_are_refused_unread() {
    let many =
        |count: usize| (0..count).map(|i| json!({"op": "add", "path": "/spec/a", "value": i})).collect();
    assert_eq!(Fixture::with(&json!({})).apply(&many(1_000)).unwrap(), json!({"a": 999}));
    let error = Fixture::with(&json!({})).apply(&many(1_001)).unwrap_err();
    assert_eq!((error.code(), error.faults.len()), ("HYPERFLEET-VAL-002", 1));
}

#[test]
fn operations_cannot_push_a_long_list_around_for_ever() {
    let front = |i: usize| match i % 2 {
        0 => json!({"op": "add", "path": "/spec/l/0", "value": i}),
        _ => json!({"op": "move", "from": "/spec/l/0", "path": "/spec/l/-"}),
    };
    let list = |length: usize| json!({"l": vec![0; length]});
    assert_eq!(refused_by(&list(100_000), (0..1_000).map(front)), Some("max"));
    assert!(Fixture::with(&list(1_000)).apply(&(0..1_000).map(front).collect()).is_ok());
}

/// Quadratic work would take minutes here.
#[test]
fn a_merge_may_remove_very_many_members() {
    let keys = |range: std::ops::Range<usize>| range.map(|i| format!("k{i}"));
    let spec: Map<_, _> = keys(0..60_000).map(|key| (key, json!(1))).collect();
    let patch: Map<_, _> = keys(0..59_999).map(|key| (key, Value::Null)).collect();
    let merged = Fixture::with(&spec.into()).merge(&patch.into()).unwrap();
    assert_eq!(merged, json!({"k59999": 1}));
}
