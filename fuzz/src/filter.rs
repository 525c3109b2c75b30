//! What the types of a filter promise in words and cannot enforce. The stores rely on each of them when they make a
//! statement of a filter, so a query that gets past one is an error of the database or worse.

use std::mem::discriminant;

use hyperfleet_core::Decimal;
use hyperfleet_core::search::{
    Comparison, DataType, Field, Filter, Literal, MAX_LIST, MAX_NESTING, Predicate, Segment, Test,
};

use crate::pattern;

/// Between two nestings there is room for an `or` of an `and`.
const DEEPEST: usize = 3 * (MAX_NESTING + 1);

/// Checks a whole filter.
pub(crate) fn check(filter: &Filter) {
    check_below(filter, 1);
}

/// Whether the tenant is asked for anywhere.
pub(crate) fn names_tenancy(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().any(names_tenancy),
        Filter::Not(inner) => names_tenancy(inner),
        Filter::Test(test) => matches!(test.field, Field::Tenancy(_)),
        _ => false,
    }
}

fn check_below(filter: &Filter, depth: usize) {
    assert!(depth <= DEEPEST, "{depth} levels");
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            assert!(parts.len() > 1, "{filter:?}");
            parts.iter().for_each(|part| check_below(part, depth + 1));
        }
        Filter::Not(inner) => check_below(inner, depth + 1),
        Filter::Test(test) => check_test(test),
        other => panic!("no query can say {other:?}"),
    }
}

fn check_test(Test { field, predicate }: &Test) {
    check_field(field);
    let data_type = field.data_type();
    let literals: Vec<&Literal> = match predicate {
        Predicate::Compare(comparison, literal) => {
            let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
            assert!(equality || has_order(literal), "{predicate:?}");
            vec![literal]
        }
        Predicate::In { values, .. } => {
            assert!((1..=MAX_LIST).contains(&values.len()), "{} values", values.len());
            values.iter().collect()
        }
        Predicate::Between { low, high, .. } => {
            assert!(has_order(low) && discriminant(low) == discriminant(high), "{predicate:?}");
            vec![low, high]
        }
        Predicate::Like { pattern, ignores_case, .. } => {
            assert!(matches!(data_type, DataType::Text | DataType::Json), "{field:?} {predicate:?}");
            pattern::check_pieces(pattern);
            let folded = pattern.clone().in_lower_case();
            assert!(!ignores_case || folded == *pattern, "{pattern:?} is not in lower case");
            Vec::new()
        }
        Predicate::IsNull { .. } => Vec::new(),
    };
    for literal in &literals {
        assert!(goes_with(data_type, literal), "{field:?} {literal:?}");
    }
    let numbers: Vec<&Decimal> = literals
        .into_iter()
        .filter_map(|literal| if let Literal::Number(number) = literal { Some(number) } else { None })
        .collect();
    numbers.iter().for_each(|number| check_number(number));
    for pair in numbers.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        assert_eq!(a.sort_key().cmp(&b.sort_key()), a.cmp(b), "{a} and {b}");
    }
}

fn check_field(field: &Field) {
    match field {
        Field::Label(key) => {
            // A prefix of at most 253, a slash, a name of at most 63.
            assert!((1..=317).contains(&key.len()) && key.is_ascii(), "{key:?}");
        }
        Field::Spec(path) => {
            assert!(!path.is_empty());
            for segment in path {
                let counted = segment.index.map(|index| index.to_string());
                assert!(counted.is_none_or(|counted| counted == segment.key), "{segment:?}");
                assert_eq!(*segment, Segment::new(segment.key.as_str()));
            }
        }
        Field::Text(_) | Field::Generation | Field::Time(_) | Field::Condition { .. } | Field::Tenancy(_) => {
        }
    }
}

fn has_order(literal: &Literal) -> bool {
    !matches!(literal, Literal::Bool(_))
}

fn goes_with(data_type: DataType, literal: &Literal) -> bool {
    match literal {
        Literal::Text(_) => matches!(data_type, DataType::Text | DataType::Json),
        Literal::Number(_) => matches!(data_type, DataType::Integer | DataType::Json),
        Literal::Bool(_) => data_type == DataType::Json,
        Literal::Time(_) => data_type == DataType::Time,
    }
}

fn check_number(number: &Decimal) {
    // Any, because a number at the largest exponent may have been written with fewer zeros than it prints.
    assert_eq!(Decimal::parse_any(&number.to_string()).as_ref(), Some(number));
    let (floor, exact) = number.floor();
    let lower = Decimal::from(floor);
    if exact {
        assert_eq!(lower, *number);
    } else if i64::MIN < floor && floor < i64::MAX {
        assert!(lower < *number && *number < Decimal::from(floor + 1), "{floor} is not below {number}");
    }
    for other in [Decimal::from(0), Decimal::from(-1), lower] {
        assert_eq!(number.sort_key().cmp(&other.sort_key()), number.cmp(&other), "{number} and {other}");
    }
}
