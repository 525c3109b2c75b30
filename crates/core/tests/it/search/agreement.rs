//! The parser and the evaluator against the models of them, at random.

use std::cmp::Ordering;

use hyperfleet_core::search::{Candidate, LikePattern};
use hyperfleet_core::{Decimal, Resource};
use proptest::prelude::*;
use serde_json::Value;

use super::generate::{filter, number, pattern, resource, test};
use super::spelling::Spelling;
use super::{catalog, model, parse, view};
use crate::cases;

fn shown(resource: &Resource) -> Value {
    let mut text = Vec::new();
    view(&catalog()).write(&mut text, resource, None).unwrap();
    serde_json::from_slice(&text).unwrap()
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn a_filter_written_as_a_query_is_read_as_the_same_filter(filter in filter(), seed in any::<u64>()) {
        let query = Spelling::seeded(seed).filter(&filter);
        match parse(&query) {
            Ok(read) => prop_assert_eq!(read, filter, "{}", query),
            Err(error) => prop_assert!(query.len() > 4096, "{}\n{}", query, error),
        }
    }

    #[test]
    fn a_test_finds_what_the_model_finds(
        test in test(), resources in prop::collection::vec(resource(), 1..5),
    ) {
        let catalog = catalog();
        for (resource, tenancy) in &resources {
            let candidate = Candidate::new(view(&catalog), resource);
            let expected = model::matches(&test, &shown(resource), tenancy);
            prop_assert_eq!(test.matches(&candidate).unwrap(), expected, "{:?}", resource);
        }
    }

    #[test]
    fn a_filter_finds_what_the_model_finds(filter in filter(), resources in prop::collection::vec(resource(), 1..5)) {
        let catalog = catalog();
        for (resource, tenancy) in &resources {
            let candidate = Candidate::new(view(&catalog), resource);
            let expected = model::matches(&filter, &shown(resource), tenancy);
            prop_assert_eq!(filter.matches(&candidate).unwrap(), expected, "{:?}", resource);
        }
    }

    #[test]
    fn numbers_have_the_order_of_the_numbers_written_out(a in number(), b in number()) {
        let (one, other) = (Decimal::parse(&a).unwrap(), Decimal::parse(&b).unwrap());
        prop_assert_eq!(one.cmp(&other), model::compare_numbers(&a, &b));
        prop_assert_eq!(Decimal::parse(&one.to_string()), Some(one.clone()));
        let (floor, exact) = one.floor();
        if i64::MIN < floor && floor < i64::MAX {
            let expected = if exact { Ordering::Equal } else { Ordering::Less };
            prop_assert_eq!(Decimal::from(floor).cmp(&one), expected);
            prop_assert!(Decimal::from(floor + 1) > one);
        }
    }

    #[test]
    fn a_text_fits_a_pattern_when_some_way_to_split_it_does(pattern in pattern(), text in "[aBé😀%_\\\\]{0,8}") {
        let pattern = LikePattern::parse(&pattern);
        let chars: Vec<char> = text.chars().collect();
        prop_assert_eq!(pattern.matches(&text), model::fits(pattern.pieces(), &chars));
    }
}
