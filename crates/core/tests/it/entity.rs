//! Catalogs from random descriptors. Few kinds, plurals and ref types, so that they collide; what
//! is wrong is found a second time by plain search, and both must name the same paths.

use std::collections::BTreeSet;

use hyperfleet_core::{Catalog, EntityDescriptor, ReferenceDescriptor};
use proptest::prelude::*;
use proptest::sample::select;

use crate::cases;

fn name(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(names).prop_map(str::to_owned)
}

const KINDS: [&str; 5] = ["A", "B", "C", "Cluster", "NodePool"];

fn descriptor() -> impl Strategy<Value = EntityDescriptor> {
    let kind = prop_oneof![12 => name(&KINDS), 1 => name(&["", "a", "1A", "A b", "É"])];
    let plural = prop_oneof![
        12 => name(&["as", "bs", "cs", "ds", "es", "fs"]),
        1 => name(&["", "resources", "As", "a/b", "1s", "force-delete", "statuses"]),
    ];
    let parent = prop_oneof![
        5 => Just((None, None)),
        5 => (name(&KINDS), name(&["cascade", "restrict"])).prop_map(|(kind, policy)| (Some(kind), Some(policy))),
        1 => (proptest::option::of(name(&["A", "Nobody"])), proptest::option::of(name(&["cascade", "explode", ""]))),
    ];
    let adapters = prop::collection::vec(name(&["dns", "my-tls", "my-Tls", "-dns", ""]), 0..3);
    let adapters = prop_oneof![2 => Just(Vec::new()), 1 => adapters];
    let schema = (proptest::option::of(name(&["Spec"])), prop::bool::weighted(0.1));
    let bounds = (proptest::option::of(0..300_usize), proptest::option::of(0..300_usize));
    let bounds = prop_oneof![4 => Just((None, None)), 1 => bounds];
    let references = prop::collection::vec(reference(), 0..3);
    (kind, plural, parent, adapters, schema, bounds, references).prop_map(
        |(kind, plural, (parent_kind, on_parent_delete), required_adapters, schema, bounds, references)| {
            EntityDescriptor {
                kind,
                plural,
                parent_kind,
                on_parent_delete,
                required_adapters,
                spec_schema_name: schema.0,
                require_spec_schema: schema.1,
                references,
                name_min_len: bounds.0,
                name_max_len: bounds.1,
                ..Default::default()
            }
        },
    )
}

fn reference() -> impl Strategy<Value = ReferenceDescriptor> {
    let ref_type = prop_oneof![9 => name(&["x", "y", "z"]), 1 => name(&["", "a\u{7}"])];
    let target = prop_oneof![9 => name(&KINDS), 1 => name(&["Ghost"])];
    (ref_type, target, select(vec![0, 0, 0, 1, 2]), select(vec![0, 0, 1, 3]))
        .prop_map(|(ref_type, target_kind, min, max)| ReferenceDescriptor { ref_type, target_kind, min, max })
}

/// The paths of everything that is wrong.
fn wrong(all: &[EntityDescriptor]) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    let declared = |kind: &str| all.iter().any(|d| d.kind == kind);
    for (i, d) in all.iter().enumerate() {
        let mut is_wrong = |member: &str, bad: bool| {
            if bad {
                wrong.insert(format!("entities[{i}].{member}"));
            }
        };
        let earlier = &all[..i];
        let repeated = earlier.iter().any(|other| other.kind.to_lowercase() == d.kind.to_lowercase());
        is_wrong("kind", ["", "1A", "A b", "É"].contains(&d.kind.as_str()) || repeated);
        is_wrong(
            "plural",
            d.plural.len() != 2
                || ["As", "1s"].contains(&d.plural.as_str())
                || earlier.iter().any(|other| other.plural == d.plural),
        );
        is_wrong(
            "on_parent_delete",
            match (&d.parent_kind, d.on_parent_delete.as_deref()) {
                (None, policy) => policy.is_some(),
                (Some(_), policy) => !matches!(policy, Some("cascade" | "restrict")),
            },
        );
        let owns_itself = reaches(all, d, |d| d.parent_kind.iter().cloned().collect());
        is_wrong("parent_kind", d.parent_kind.as_ref().is_some_and(|p| !declared(p)) || owns_itself);
        let (least, most) = match d.kind.as_str() {
            "Cluster" => (3, 53),
            "NodePool" => (3, 15),
            _ => (1, 100),
        };
        let (least, most) = (d.name_min_len.unwrap_or(least), d.name_max_len.unwrap_or(most));
        is_wrong("name_min_len", least == 0 || most > 253 || least > most);
        is_wrong("spec_schema_name", d.require_spec_schema && d.spec_schema_name.is_none());
        let same_condition = |a: &str, b: &str| a.replace('-', "").eq_ignore_ascii_case(&b.replace('-', ""));
        for (k, adapter) in d.required_adapters.iter().enumerate() {
            let shared = d.required_adapters[..k].iter().any(|other| same_condition(other, adapter));
            is_wrong(&format!("required_adapters[{k}]"), adapter.is_empty() || shared);
        }
        for (k, r) in d.references.iter().enumerate() {
            let twice = d.references[..k].iter().any(|other| other.ref_type == r.ref_type);
            is_wrong(&format!("references[{k}].ref_type"), r.ref_type.len() != 1 || twice);
            is_wrong(&format!("references[{k}].target_kind"), !declared(&r.target_kind));
            is_wrong(&format!("references[{k}].max"), r.max != 0 && r.max < r.min);
        }
        let required = |d: &EntityDescriptor| {
            d.references.iter().filter(|r| r.min > 0).map(|r| r.target_kind.clone()).collect()
        };
        is_wrong("references", reaches(all, d, required));
    }
    wrong
}

/// Whether following `next` from a kind leads back to it.
fn reaches(
    all: &[EntityDescriptor],
    from: &EntityDescriptor,
    next: impl Fn(&EntityDescriptor) -> Vec<String>,
) -> bool {
    let mut reached: BTreeSet<String> = next(from).into_iter().collect();
    for _ in all {
        let further: Vec<_> = all.iter().filter(|d| reached.contains(&d.kind)).flat_map(&next).collect();
        reached.extend(further);
    }
    reached.contains(&from.kind)
}

/// The path that a fault starts with.
fn path(fault: &str) -> String {
    fault.split(": ").next().unwrap().to_owned()
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn each_fault_is_named_by_its_path(all in prop::collection::vec(descriptor(), 0..5)) {
        let kinds: BTreeSet<_> = all.iter().map(|d| d.kind.to_lowercase()).collect();
        let expected = wrong(&all);
        let found: BTreeSet<_> = Catalog::new(all.clone()).err().unwrap_or_default().iter().map(|f| path(f)).collect();
        if kinds.len() == all.len() {
            prop_assert_eq!(found, expected);
        } else {
            // What a kind that is declared twice owns or refers to has no one answer.
            prop_assert!(!found.is_empty());
        }
    }

    #[test]
    fn an_accepted_catalog_holds_together(all in prop::collection::vec(descriptor(), 0..5)) {
        let Ok(catalog) = Catalog::new(all.clone()) else { return Ok(()) };
        prop_assert_eq!(wrong(&all), BTreeSet::new());
        prop_assert_eq!(catalog.kinds().count(), all.len());
        for (entity, d) in catalog.kinds().zip(&all) {
            prop_assert_eq!(&catalog.get(&d.kind), &Some(entity));
            let line = catalog.lineage(entity);
            prop_assert_eq!(line.last(), Some(&entity));
            prop_assert!(line[0].parent.is_none() && line.len() <= all.len());
            prop_assert!(!entity.name_len.is_empty());
            for pair in line.windows(2) {
                prop_assert!(catalog.children_of(&pair[0].kind).any(|child| child == pair[1]));
            }
            for reference in &entity.references {
                prop_assert!(catalog.get(&reference.target_kind).is_some());
                prop_assert!(reference.max.is_none_or(|max| max >= reference.min.max(1)));
            }
        }
    }

    #[test]
    fn no_text_makes_a_catalog_panic_and_every_fault_says_where(
        texts in prop::collection::vec(any::<String>(), 6), size in any::<usize>(),
    ) {
        let text = |i: usize| texts[i].clone();
        let reference = ReferenceDescriptor { ref_type: text(3), target_kind: text(0), min: size, max: size / 2 };
        let d = EntityDescriptor {
            kind: text(0),
            plural: text(1),
            parent_kind: Some(text(2)),
            on_parent_delete: Some(text(3)),
            required_adapters: vec![text(4), text(5), text(4)],
            references: vec![reference],
            name_min_len: Some(size),
            ..Default::default()
        };
        let faults = Catalog::new(vec![d.clone(), d]).unwrap_err();
        prop_assert!(faults.iter().all(|f| f.starts_with("entities[0].") || f.starts_with("entities[1].")), "{:?}", faults);
    }
}
