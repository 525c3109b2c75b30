//! Names and labels against automata drawn from the contract's expressions: nothing panics, the
//! same texts are accepted, and every violation is reported.

use hyperfleet_core::{Catalog, EntityDescriptor, check_labels, check_name};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::cases;

/// Where an automaton is after some characters.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Nothing read, or right behind a dot that starts anew.
    Start,
    /// Behind a character that may be the last.
    Edge,
    /// Behind one that may not.
    Inner,
    Lost,
}

/// `^[edge]([inner edge]*[edge])?$`
fn word(text: &str, edge: impl Fn(char) -> bool, inner: &str) -> At {
    text.chars().fold(At::Start, |at, c| match at {
        At::Lost => At::Lost,
        _ if edge(c) => At::Edge,
        At::Edge | At::Inner if inner.contains(c) => At::Inner,
        _ => At::Lost,
    })
}

fn lower(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9')
}

fn letter(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9')
}

/// `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
fn is_subdomain(text: &str) -> bool {
    let end = text.chars().fold(At::Start, |at, c| match (at, c) {
        (At::Lost, _) => At::Lost,
        (_, c) if lower(c) => At::Edge,
        (At::Edge | At::Inner, '-') => At::Inner,
        (At::Edge, '.') => At::Start,
        _ => At::Lost,
    });
    end == At::Edge
}

/// How many rules a label breaks.
fn violations(key: &str, value: &str) -> usize {
    let (prefix, name) = match key.find('/') {
        Some(at) => (Some(&key[..at]), &key[at + 1..]),
        None => (None, key),
    };
    let prefix = prefix.map_or(0, |prefix| {
        usize::from(!(1..=253).contains(&prefix.len()))
            + usize::from(!prefix.is_empty() && !is_subdomain(prefix))
    });
    prefix
        + usize::from(!(1..=63).contains(&name.len()))
        + usize::from(!name.is_empty() && word(name, letter, "-._") != At::Edge)
        + usize::from(value.len() > 63)
        + usize::from(!value.is_empty() && word(value, letter, "-._") != At::Edge)
}

/// Texts near the border between good and bad, and any at all.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z0-9]([-a-z0-9]{0,14}[a-z0-9])?",
        3 => "[-a-zA-Z0-9._]{0,6}",
        2 => "[a-zA-Z0-9._-]{60,66}",
        1 => "\\PC{0,8}",
        1 => any::<String>(),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => text(),
        3 => "[a-z0-9.-]{0,8}/[a-zA-Z0-9._-]{0,6}",
        2 => "[a-z0-9]{1,3}(\\.[a-z0-9]{1,3}){0,3}/[a-z]{1,64}",
        1 => "[a-z0-9]{250,256}/[a-z]{0,2}",
        1 => (text(), text(), text()).prop_map(|(a, b, c)| format!("{a}/{b}/{c}")),
    ]
}

fn label() -> impl Strategy<Value = (String, String)> {
    (key(), prop_oneof![1 => Just(String::new()), 6 => text()])
}

fn faults_of(labels: &[(String, String)]) -> Vec<hyperfleet_core::Fault> {
    let members = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let mut faults = Vec::new();
    check_labels(&members.collect::<Map<_, _>>().into(), &mut faults);
    faults
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_name_is_accepted_exactly_when_it_fits_the_expression_and_the_bounds(
        name in text(), min in 1..5_usize, more in 0..60_usize,
    ) {
        let catalog = Catalog::new(vec![EntityDescriptor {
            kind: "Thing".into(),
            plural: "things".into(),
            name_min_len: Some(min),
            name_max_len: Some(min + more),
            ..Default::default()
        }]).unwrap();
        let mut broken = Vec::new();
        let length = name.chars().count();
        broken.extend((length < min).then_some("min_length"));
        broken.extend((length > min + more).then_some("max_length"));
        broken.extend((length > 0 && word(&name, lower, "-") != At::Edge).then_some("pattern"));
        let faults = check_name(catalog.get("Thing").unwrap(), &name);
        prop_assert_eq!(faults.iter().filter_map(|f| f.constraint).collect::<Vec<_>>(), broken);
        prop_assert!(faults.iter().all(|f| f.field == "name"));
    }

    #[test]
    fn a_label_has_a_fault_for_each_rule_that_it_breaks((key, value) in label()) {
        let faults = faults_of(&[(key.clone(), value.clone())]);
        prop_assert_eq!(faults.len(), violations(&key, &value), "{:?}", faults);
        prop_assert!(faults.iter().all(|f| !f.field.chars().any(char::is_control)));
    }

    #[test]
    fn no_broken_label_hides_another(labels in prop::collection::btree_map(key(), text(), 0..5)) {
        let labels: Vec<_> = labels.into_iter().collect();
        let each: Vec<_> = labels.iter().flat_map(|label| faults_of(std::slice::from_ref(label))).collect();
        prop_assert_eq!(faults_of(&labels), each);
    }

    #[test]
    fn accepted_values_are_returned_unchanged(labels in prop::collection::btree_map(key(), text(), 0..4)) {
        let members = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let mut faults = Vec::new();
        let read = check_labels(&members.collect::<Map<_, _>>().into(), &mut faults);
        prop_assert!(!faults.is_empty() || read == labels);
    }
}
