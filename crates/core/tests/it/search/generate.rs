//! Random resources and random filters from small vocabularies, so that they meet.

use std::collections::BTreeMap;

use hyperfleet_core::search::{
    Comparison, ConditionPart, DataType, Field, Filter, LikePattern, Literal, Predicate, Segment, Test,
    TextColumn, TimeColumn,
};
use hyperfleet_core::{Decimal, Phase, RawJson, Resource, Stamp, Status, Tenant, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use super::{condition, id, pool};

const LABELS: [&str; 4] = ["a", "a.b/c", "environment", "0"];
const KEYS: [&str; 5] = ["a", "0", "1", "it's \\ b", "é😀"];
const KINDS: [&str; 3] = ["Reconciled", "Nope", "My 'Type'.x"];
const TEXTS: [&str; 12] =
    ["", "a", "A", "ab", "a%", "a_b", "it's", "\\%", "true", "5", "\u{e000}", "é\n😀`\""];
const DIMENSIONS: [&str; 2] = ["org", "cost.center"];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(&TEXTS[..]).prop_map(str::to_owned), 1 => "[ab%_\\\\é]{0,4}"]
}

/// Spellings of few values, so that equal ones meet.
pub(super) fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "-?(0|1|2|3|10|12|100)(\\.(0|00|2|20|02))?([eE][+-]?0?[0-3])?",
        1 => "-?[1-9][0-9]{0,30}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
    ]
}

fn moment() -> impl Strategy<Value = Timestamp> {
    (0..4_i64).prop_map(|n| Timestamp::from_micros(1_767_225_600_000_000 + n * 43_200_000_001))
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (moment(), text()).prop_map(|(at, by)| Stamp { at, by })
}

fn json() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        4 => number().prop_map(|number| serde_json::from_str(&number).unwrap()),
        4 => text().prop_map(Value::from),
    ];
    let nested = |inner: BoxedStrategy<Value>| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array);
        prop_oneof![4 => inner.clone(), 1 => list, 1 => members(inner).prop_map(Value::Object)]
    };
    nested(nested(plain.boxed()).boxed())
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((select(&KEYS[..]), value), 0..12)
        .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn texts_by(keys: &'static [&'static str]) -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(select(keys).prop_map(str::to_owned), text(), 0..4)
}

fn conditions() -> impl Strategy<Value = RawJson> {
    let one = (select(&KINDS[..]), any::<bool>(), text(), 1..4_i64, moment(), moment());
    prop::collection::vec(one, 0..3).prop_map(|given| {
        let mut conditions: Vec<hyperfleet_core::Condition> = Vec::new();
        for (kind, holds, reason, generation, updated, flipped) in given {
            if conditions.iter().all(|other| other.kind != kind) {
                let status = if holds { Status::True } else { Status::False };
                let mut condition = condition(kind, status, &reason);
                condition.observed_generation = generation;
                condition.last_updated_time = updated;
                condition.last_transition_time = flipped;
                conditions.push(condition);
            }
        }
        RawJson::from_value(&conditions)
    })
}

/// A resource and the dimensions of its tenant.
pub(super) fn resource() -> impl Strategy<Value = (Resource, BTreeMap<String, String>)> {
    let phase = prop_oneof![Just(Phase::Active), stamp().prop_map(Phase::Finalizing)];
    let life = (any::<bool>(), 1..4_i64, stamp(), stamp(), phase);
    let parts = (members(json()), texts_by(&LABELS), conditions(), texts_by(&DIMENSIONS));
    (life, text(), parts).prop_map(|((child, generation, created, updated, phase), name, parts)| {
        let (spec, labels, conditions, tenancy) = parts;
        let labels = serde_json::to_value(labels).unwrap();
        let mut resource = pool(&labels, &Value::Object(spec));
        if !child {
            (resource.id, resource.kind, resource.ancestors) = (id(1), "Cluster".into(), Vec::new());
        }
        let tenant = Some(Tenant::new(&tenancy));
        let resource =
            Resource { name, generation, created, updated, phase, conditions, tenancy: tenant, ..resource };
        (resource, tenancy)
    })
}

fn field() -> impl Strategy<Value = Field> {
    let length = prop_oneof![5 => Just(1), 2 => Just(2), 1 => Just(3_usize)];
    let path = length.prop_flat_map(|n| prop::collection::vec(select(&KEYS[..]).prop_map(Segment::new), n));
    let part = select(&ConditionPart::ALL[..]).prop_map(|(_, part)| part);
    prop_oneof![
        2 => select(&TextColumn::ALL[..]).prop_map(|(_, column)| Field::Text(column)),
        1 => Just(Field::Generation),
        1 => select(&TimeColumn::ALL[..]).prop_map(|(_, column)| Field::Time(column)),
        2 => select(&LABELS[..]).prop_map(|key| Field::Label(key.to_owned())),
        4 => path.prop_map(Field::Spec),
        2 => (select(&KINDS[..]), part).prop_map(|(kind, part)| Field::Condition { kind: kind.to_owned(), part }),
        1 => select(&DIMENSIONS[..]).prop_map(|key| Field::Tenancy(key.to_owned())),
    ]
}

fn number_literal() -> impl Strategy<Value = Literal> {
    number().prop_map(|number| Literal::Number(Decimal::parse(&number).unwrap()))
}

/// A literal that goes with a field of this type, and has an order.
fn ordered(kind: DataType) -> BoxedStrategy<Literal> {
    let plain = text().prop_map(Literal::Text);
    let special =
        select(vec!["pool-1", "Cluster", "NodePool", "True", "False", "/api/hyperfleet/v1/clusters/x"])
            .prop_map(|text| Literal::Text(text.to_owned()));
    match kind {
        DataType::Text => {
            prop_oneof![plain, special, (1..4_u8).prop_map(|n| Literal::Text(id(n).to_string()))].boxed()
        }
        DataType::Integer => number_literal().boxed(),
        DataType::Time => moment().prop_map(Literal::Time).boxed(),
        DataType::Json => prop_oneof![plain, number_literal()].boxed(),
    }
}

fn literal(kind: DataType) -> BoxedStrategy<Literal> {
    match kind {
        DataType::Json => prop_oneof![3 => ordered(kind), 1 => any::<bool>().prop_map(Literal::Bool)].boxed(),
        _ => ordered(kind),
    }
}

fn bounds(kind: DataType) -> BoxedStrategy<(Literal, Literal)> {
    match kind {
        DataType::Json => prop_oneof![bounds(DataType::Text), bounds(DataType::Integer)].boxed(),
        _ => (ordered(kind), ordered(kind)).boxed(),
    }
}

pub(super) fn pattern() -> impl Strategy<Value = String> {
    let pieces = select(vec!["%", "_", "a", "B", "\\%", "\\_", "\\", "é", "😀", "pool", "-1", "True"]);
    prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

fn predicate(kind: DataType) -> BoxedStrategy<Predicate> {
    let equality = (any::<bool>(), literal(kind)).prop_map(|(equal, literal)| {
        Predicate::Compare(if equal { Comparison::Equal } else { Comparison::NotEqual }, literal)
    });
    let orders =
        vec![Comparison::Less, Comparison::LessOrEqual, Comparison::Greater, Comparison::GreaterOrEqual];
    let order =
        (select(orders), ordered(kind)).prop_map(|(order, literal)| Predicate::Compare(order, literal));
    let among = (prop::collection::vec(literal(kind), 1..4), any::<bool>())
        .prop_map(|(values, negated)| Predicate::In { values, negated });
    let between = (bounds(kind), any::<bool>()).prop_map(|((low, high), negated)| Predicate::Between {
        low,
        high,
        negated,
    });
    let null = any::<bool>().prop_map(|negated| Predicate::IsNull { negated });
    let any_type = prop_oneof![3 => equality, 3 => order, 2 => among, 2 => between, 1 => null];
    let like = (pattern(), any::<bool>(), any::<bool>()).prop_map(|(pattern, ignores_case, negated)| {
        let pattern = LikePattern::parse(&pattern);
        let pattern = if ignores_case { pattern.in_lower_case() } else { pattern };
        Predicate::Like { pattern, ignores_case, negated }
    });
    match kind {
        DataType::Text | DataType::Json => prop_oneof![4 => any_type, 1 => like].boxed(),
        DataType::Integer | DataType::Time => any_type.boxed(),
    }
}

pub(super) fn test() -> impl Strategy<Value = Filter> {
    field().prop_flat_map(|field| {
        let kind = field.data_type();
        (Just(field), predicate(kind)).prop_map(|(field, predicate)| Filter::Test(Test { field, predicate }))
    })
}

pub(super) fn filter() -> impl Strategy<Value = Filter> {
    test().prop_recursive(4, 16, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            parts().prop_map(Filter::And),
            parts().prop_map(Filter::Or),
            inner.clone().prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
}
