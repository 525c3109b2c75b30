//! Random queries in the words of a fleet: fields that its resources have, and values that occur there, with a few that
//! occur nowhere. A query is written as text, so that it takes the way of a caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hyperfleet_core::search::{ConditionPart, MAX_BYTES, TextColumn, TimeColumn};
use hyperfleet_core::{Decimal, Resource, View};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

/// Numbers and times besides those of the fleet.
const NUMBERS: [&str; 8] =
    ["-0.0", "1.5", "0.001k", "1Ki", "1e-401", "9223372036854775807", "-9223372036854775809", "1e20"];
const TIMES: [&str; 4] =
    ["2026-01-01", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-01T01:00:17.000001+01:00"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Text,
    Number,
    Bool,
    Time,
}

/// A value as a query writes it; texts without their quotes.
type Literal = (Type, String);

/// Of which types the values of a field can be, and those that occur.
struct Field {
    types: &'static [Type],
    values: BTreeSet<Literal>,
}

/// What can be asked about. A group is drawn first and then one of its fields, so that the many paths of specs do not
/// crowd out the rest.
pub(super) struct Vocabulary {
    fields: BTreeMap<Group, BTreeMap<String, Field>>,
    literals: BTreeMap<Type, BTreeSet<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Plain,
    Label,
    Spec,
    Condition,
    /// What is answered by facets.
    Facet,
    /// What is answered by the time since which conditions are confirmed.
    Stale,
}

impl Vocabulary {
    pub(super) fn of(shown: &[Value]) -> Self {
        let texts = ["Maybe", "0192A000-0000-7000-8000-000000000000"];
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let literals = [
            (Type::Text, owned(&texts)),
            (Type::Number, owned(&NUMBERS)),
            (Type::Bool, owned(&["true", "false"])),
            (Type::Time, owned(&TIMES)),
        ];
        let mut vocabulary = Self { fields: BTreeMap::new(), literals: literals.into() };
        shown.iter().for_each(|resource| vocabulary.add_resource(resource));
        vocabulary
    }

    fn add(&mut self, group: Group, name: &str, types: &'static [Type], value: &Value) {
        let field = self.fields.entry(group).or_default().entry(name.to_owned());
        let field = field.or_insert(Field { types, values: BTreeSet::new() });
        let literal = match value {
            Value::String(text) => {
                (if types == [Type::Time] { Type::Time } else { Type::Text }, text.clone())
            }
            Value::Bool(bool) => (Type::Bool, bool.to_string()),
            // No query can name a number whose exponent is beyond counting.
            Value::Number(number) if Decimal::parse(number.as_str()).is_some() => {
                (Type::Number, number.to_string())
            }
            _ => return,
        };
        self.literals.entry(literal.0).or_default().insert(literal.1.clone());
        field.values.insert(literal);
    }

    fn add_resource(&mut self, shown: &Value) {
        for (name, _) in TextColumn::ALL {
            self.add(Group::Plain, name, &[Type::Text], member(shown, name));
        }
        for (name, _) in TimeColumn::ALL {
            self.add(Group::Plain, name, &[Type::Time], member(shown, name));
        }
        self.add(Group::Plain, "generation", &[Type::Number], &shown["generation"]);
        for (key, value) in shown["labels"].as_object().unwrap() {
            for group in [Group::Label, Group::Facet] {
                self.add(group, &format!("labels[{}]", quoted(key)), &[Type::Text], value);
            }
        }
        self.add_spec("spec", &shown["spec"]);
        for condition in shown["status"]["conditions"].as_array().unwrap() {
            self.add_condition(condition["type"].as_str().unwrap(), condition);
        }
        self.add(Group::Label, "labels.absent", &[Type::Text], &Value::Null);
        self.add_condition("Nothing", &Value::Null);
    }

    fn add_spec(&mut self, path: &str, value: &Value) {
        const TYPES: [Type; 3] = [Type::Text, Type::Number, Type::Bool];
        if path != "spec" {
            self.add(Group::Spec, path, &TYPES, value);
        }
        match value {
            Value::Object(members) => {
                members
                    .iter()
                    .for_each(|(key, value)| self.add_spec(&format!("{path}[{}]", quoted(key)), value));
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_spec(&format!("{path}[{index}]"), item);
                }
                for no_index in ["-1", "00", "01", "1e0", "+1", "2147483648", "18446744073709551616", "a"] {
                    self.add(Group::Spec, &format!("{path}['{no_index}']"), &TYPES, &Value::Null);
                }
            }
            _ => {}
        }
    }

    fn add_condition(&mut self, kind: &str, condition: &Value) {
        let name = format!("status.conditions[{}]", quoted(kind));
        self.add(Group::Facet, &name, &[Type::Text], &condition["status"]);
        for (part, known) in ConditionPart::ALL {
            let (group, types): (_, &'static [Type]) = match known {
                ConditionPart::LastUpdatedTime => (Group::Stale, &[Type::Time]),
                ConditionPart::LastTransitionTime => (Group::Condition, &[Type::Time]),
                ConditionPart::ObservedGeneration => (Group::Condition, &[Type::Number]),
                _ => (Group::Condition, &[Type::Text]),
            };
            for group in BTreeSet::from([group, Group::Condition]) {
                self.add(group, &format!("{name}.{part}"), types, &condition[part]);
            }
        }
    }

    /// A query from all of the grammar.
    pub(super) fn query(self: &Arc<Self>) -> impl Strategy<Value = String> + use<> {
        // In a long query one test hides the mistakes of another, so every other one is short.
        let query = self.test().prop_recursive(3, 8, 3, |inner| {
            let some = || prop::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                2 => some().prop_map(|parts| format!("({})", parts.join(" and "))),
                2 => some().prop_map(|parts| format!("({})", parts.join(" or "))),
                1 => inner.clone().prop_map(|inner| format!("not {inner}")),
            ]
        });
        // What one facet finds, another may find too.
        let facet = self.test_of((Just(Group::Facet), select(vec![0_u8, 0, 6])));
        let either = prop::collection::vec(facet, 2..4).prop_map(|parts| format!("({})", parts.join(" or ")));
        let query = prop_oneof![4 => self.test(), 4 => query, 1 => either];
        query.prop_filter("short enough", |query| query.len() <= MAX_BYTES)
    }

    fn test(self: &Arc<Self>) -> impl Strategy<Value = String> + use<> {
        use Group::{Condition, Facet, Label, Plain, Spec, Stale};
        let form = prop_oneof![
            6 => (select(vec![Plain, Label, Spec, Spec, Condition]), 0..16_u8),
            2 => (select(vec![Plain, Spec, Condition]), 10..14_u8),
            2 => (Just(Facet), select(vec![0_u8, 0, 6])),
            2 => (Just(Stale), 0..10_u8),
        ];
        self.test_of(form)
    }

    /// One by the number of an operator, about a field of a group.
    fn test_of<F: Strategy<Value = (Group, u8)>>(
        self: &Arc<Self>,
        form: F,
    ) -> impl Strategy<Value = String> + use<F> {
        let literal = || (prop::bool::weighted(0.8), any::<Index>());
        let literals = (literal(), literal(), literal());
        let this = self.clone();
        (form, any::<Index>(), literals, any::<u64>()).prop_map(
            move |((group, operator), field, (a, b, c), shape)| {
                let (name, field) = drawn(this.fields[&group].iter(), &field);
                let literals = [a, b, c].map(|(own, index)| this.literal(field, own, &index));
                test(name, operator, &literals, shape)
            },
        )
    }

    /// One of the field's own values, or any of its type.
    fn literal(&self, field: &Field, own: bool, index: &Index) -> Literal {
        if own && !field.values.is_empty() {
            return drawn(field.values.iter(), index).clone();
        }
        let kind = *index.get(field.types);
        (kind, drawn(self.literals[&kind].iter(), index).clone())
    }
}

fn drawn<T>(mut all: impl ExactSizeIterator<Item = T>, index: &Index) -> T {
    all.nth(index.index(all.len())).unwrap()
}

/// A test as a query writes it. What does not go with the type of the literal becomes a comparison for equality.
fn test(name: &str, operator: u8, [a, b, c]: &[Literal; 3], shape: u64) -> String {
    let not = if operator % 2 == 1 { "not " } else { "" };
    let (first, case) = (written(a), if operator < 12 { "like" } else { "ilike" });
    match (operator, a.0) {
        (2..=5, Type::Text | Type::Number | Type::Time) => {
            format!("{name} {} {first}", ["<", "<=", ">", ">="][usize::from(operator) - 2])
        }
        (6 | 7, _) => {
            let list = [a, b, c].map(written);
            format!("{name} {not}in [{}]", list[..1 + shape as usize % 3].join(", "))
        }
        (8 | 9, Type::Text | Type::Number | Type::Time) => {
            // Both bounds are of one type.
            let high = if b.0 == a.0 { b } else { a };
            format!("{name} {not}between {first} and {}", written(high))
        }
        (10..=13, Type::Text) => {
            format!("{name} {not}{case} {}", quoted(&pattern(&a.1, shape, operator >= 12)))
        }
        (14, _) => format!("{name} is null"),
        (15, _) => format!("{name} is not null"),
        (1, _) => format!("{name} != {first}"),
        _ => format!("{name} = {first}"),
    }
}

/// A pattern that a text fits, more or less.
fn pattern(text: &str, shape: u64, ignores_case: bool) -> String {
    let mut pattern = String::new();
    for (i, c) in text.chars().enumerate() {
        match shape.rotate_right(3 * i as u32) % 8 {
            0 => pattern.push('%'),
            1 => pattern.push('_'),
            2 if ignores_case => pattern.extend(c.to_uppercase()),
            3 if ignores_case => pattern.extend(c.to_lowercase()),
            4 => pattern.push(c),
            _ if matches!(c, '%' | '_') => pattern.extend(['\\', c]),
            _ => pattern.push(c),
        }
    }
    pattern
}

fn written((kind, text): &Literal) -> String {
    match kind {
        Type::Text | Type::Time => quoted(text),
        Type::Number | Type::Bool => text.clone(),
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A resource as the API shows it.
pub(super) fn shown(view: View<'_>, resource: &Resource) -> Value {
    let mut text = Vec::new();
    view.write(&mut text, resource, None).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The member of a shown resource that a field names.
pub(super) fn member<'v>(shown: &'v Value, field: &str) -> &'v Value {
    match field {
        "owner_id" => &shown["owner_references"]["id"],
        "owner_kind" => &shown["owner_references"]["kind"],
        plain => &shown[plain],
    }
}
