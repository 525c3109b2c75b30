//! What can happen to a fleet: random deeds with the values that stores are most likely to disagree about.

use std::collections::BTreeMap;

use hyperfleet_core::{Finding, Labels, MANDATORY, ReportedStatus, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value};

/// What patterns and escapes are made of, and the edges where the order of UTF-16 is not that of code points.
const TEXTS: [&str; 26] = [
    "",
    "a",
    "A",
    "ab",
    "aB-1",
    "a%",
    "a_b",
    "it's",
    "\\",
    "\\%",
    "*",
    "a?",
    "[a]",
    "[^a]*",
    "]",
    "true",
    "5",
    "é\n\"`",
    "É",
    "\u{212a}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{10000}😀",
];

/// Some equal ones among them, and some beyond every type that a database has.
const NUMBERS: &str = "0 -0 0.00 1 1.0 1E0 10 1e1 2 3 -1 -1.5 0.1 0.10000000000000001 9007199254740993 \
    9223372036854775808 123456789012345678901234567890 123456789012345678901234567891.5 1e400 15e399 -1e400 1e-400 \
    -1e-400 1e200000 1e9999999999999999999999999999999999999999 -1e-9999999999999999999999999999999999999999";

const KEYS: [&str; 13] = ["a", "b", "0", "1", "-1", "01", "a.b", "it's", "\"q\"", "\\", "%", "é😀", ""];
const LABELS: [&str; 5] = ["a", "0", "a.b/c", "01", "environment"];
const VALUES: [&str; 6] = ["", "a", "A", "x.y_z-1", "0", "production"];
const ADAPTERS: [&str; 3] = ["validator", "my-dns", "other"];

/// A write by an actor. Its target is chosen among the present resources.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) actor: &'static str,
    pub(super) target: Index,
    pub(super) deed: Deed,
}

#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// Below the target, for a kind that has owners.
    Create(Draft),
    Patch {
        spec: Map<String, Value>,
        labels: BTreeMap<String, Option<String>>,
    },
    Report {
        adapter: &'static str,
        behind: i64,
        findings: Vec<Finding>,
        time: Timestamp,
    },
    /// A report that is stored once more, so many seconds later: nothing but times move.
    Confirm {
        report: Index,
        later: i64,
    },
    Delete,
    ForceDelete,
}

#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) kind: Index,
    pub(super) name: String,
    pub(super) spec: Map<String, Value>,
    pub(super) labels: Labels,
    pub(super) racks: Vec<Index>,
}

pub(super) fn steps(count: usize) -> impl Strategy<Value = Vec<Step>> {
    let racks = prop::collection::vec(any::<Index>(), 0..3);
    let create = (any::<Index>(), "[a-d]{1,2}(-[a-d])?", members(json()), labels(), racks).prop_map(
        |(kind, name, spec, labels, racks)| Deed::Create(Draft { kind, name, spec, labels, racks }),
    );
    let value = prop::option::weighted(0.7, select(&VALUES[..]).prop_map(str::to_owned));
    let labels = prop::collection::btree_map(select(&LABELS[..]).prop_map(str::to_owned), value, 0..3);
    let patch = (members(json()), labels).prop_map(|(spec, labels)| Deed::Patch { spec, labels });
    let report = (select(&ADAPTERS[..]), 0..2_i64, findings(), moment())
        .prop_map(|(adapter, behind, findings, time)| Deed::Report { adapter, behind, findings, time });
    let confirm = (any::<Index>(), 0..200_i64).prop_map(|(report, later)| Deed::Confirm { report, later });
    let deed = prop_oneof![
        12 => create, 5 => patch, 20 => report, 8 => confirm, 2 => Just(Deed::Delete), 1 => Just(Deed::ForceDelete),
    ];
    let step = (select(&TEXTS[..]), any::<Index>(), deed);
    prop::collection::vec(step.prop_map(|(actor, target, deed)| Step { actor, target, deed }), count)
}

fn text() -> impl Strategy<Value = String> {
    select(&TEXTS[..]).prop_map(str::to_owned)
}

fn labels() -> impl Strategy<Value = Labels> {
    let (key, value) = (select(&LABELS[..]), select(&VALUES[..]));
    prop::collection::btree_map(key.prop_map(str::to_owned), value.prop_map(str::to_owned), 0..4)
}

fn json() -> impl Strategy<Value = Value> {
    let numbers: Vec<&str> = NUMBERS.split_whitespace().collect();
    let plain = prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        5 => select(numbers).prop_map(|number| serde_json::from_str(number).unwrap()),
        5 => text().prop_map(Value::from),
    ];
    plain.prop_recursive(2, 8, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array);
        prop_oneof![list, members(inner).prop_map(Value::Object)]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof![2 => select(&KEYS[..3]), 1 => select(&KEYS[..])];
    prop::collection::vec((key.prop_map(str::to_owned), value), 0..6)
        .prop_map(|all| all.into_iter().collect())
}

fn findings() -> impl Strategy<Value = Vec<Finding>> {
    let status = select(vec![
        ReportedStatus::True,
        ReportedStatus::True,
        ReportedStatus::False,
        ReportedStatus::Unknown,
    ]);
    let said = (status, prop::option::of(text()), prop::option::of(text()));
    (said, prop::bool::weighted(0.2)).prop_map(|((status, reason, message), finalized)| {
        let types = MANDATORY.into_iter().chain(finalized.then_some("Finalized"));
        let finding = |kind: &str| Finding {
            kind: kind.into(),
            status: if kind == "Finalized" { ReportedStatus::True } else { status },
            reason: reason.as_deref().map(Into::into),
            message: message.as_deref().map(Into::into),
        };
        types.map(finding).collect()
    })
}

/// Some within a minute of each other, some at the ends of what can be written.
fn moment() -> impl Strategy<Value = Timestamp> {
    let edges =
        ["0000-01-01T00:00:00Z", "0000-02-29T23:59:59.999999Z"].map(|time| Timestamp::parse(time).unwrap());
    prop_oneof![
        20 => (0..30_i64).prop_map(|n| Timestamp::from_micros(1_767_225_600_000_000 + n * 17_000_001)),
        2 => select(edges.to_vec()),
        1 => Just(latest()),
    ]
}

/// The last moment that can be written.
pub(super) fn latest() -> Timestamp {
    Timestamp::parse("9999-12-31T23:59:59.999999Z").unwrap()
}
