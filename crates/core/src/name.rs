//! The rule for names: lower-case letters, digits and hyphens, bounded by the kind.

use serde_json::Value;

use crate::{Entity, Fault};

const PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Everything that is wrong with a name of this kind.
pub fn check_name(entity: &Entity, name: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let length = name.chars().count();
    let (min, max) = (*entity.name_len.start(), *entity.name_len.end());
    let given = Value::from(name);
    if length < min {
        let message = format!("name must have at least {min} characters, not {length}");
        faults.push(Fault::value("name", message, &given).rule("min_length").bounds(min as u64, None));
    }
    if length > max {
        let message = format!("name must have at most {max} characters, not {length}");
        faults.push(Fault::value("name", message, &given).rule("max_length").bounds(None, max as u64));
    }
    if !name.is_empty() && !fits(name) {
        let message = "name must consist of lower-case letters, digits and '-', and start and end with a letter or digit";
        faults.push(Fault::value("name", message, &given).pattern(PATTERN));
    }
    faults
}

fn fits(name: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    edge(bytes.first().copied())
        && edge(bytes.last().copied())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    fn rules(name: &str) -> Vec<&'static str> {
        let catalog = Catalog::new(Catalog::default_descriptors()).unwrap();
        let pool = catalog.get("NodePool").unwrap();
        check_name(pool, name).iter().filter_map(|f| f.constraint).collect()
    }

    #[test]
    fn names_are_bounded_and_fit_the_pattern() {
        assert!(rules("abc").is_empty());
        assert!(rules("a-0").is_empty());
        assert!(rules("123456789012345").is_empty());
        assert_eq!(rules("ab"), ["min_length"]);
        assert_eq!(rules(""), ["min_length"]);
        assert_eq!(rules("1234567890123456"), ["max_length"]);
        assert_eq!(rules("Abc"), ["pattern"]);
        assert_eq!(rules("-abc"), ["pattern"]);
        assert_eq!(rules("abc\n"), ["pattern"]);
        assert_eq!(rules("é"), ["min_length", "pattern"]);
    }
}
