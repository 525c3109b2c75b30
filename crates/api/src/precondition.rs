//! The headers `If-Match` and `If-None-Match`: entity tags, which are versions of a resource.

use http::header::IF_MATCH;
use http::{HeaderMap, HeaderName};
use hyperfleet_core::{Error, ExpectedVersion, Fault, FaultKind, Faults, echo};

/// The entity tags of a precondition header.
pub(crate) fn precondition(headers: &HeaderMap, name: &HeaderName) -> Result<Option<ExpectedVersion>, Error> {
    if !headers.contains_key(name) {
        return Ok(None);
    }
    let values = headers.get_all(name).iter();
    let text = values.map(|v| String::from_utf8_lossy(v.as_bytes())).collect::<Vec<_>>().join(", ");
    entity_tags(&text).map(Some).ok_or_else(|| {
        let title = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
        let message =
            format!("{title} must be * or a list of entity tags such as \"42\", not {}", echo(&text));
        let fault = Fault::new(FaultKind::Value, title, message).given(&text.into()).format("entity-tag");
        Faults::one(fault).into_error()
    })
}

/// Parses a header value. `None` when it is no list of entity tags.
pub fn entity_tags(header: &str) -> Option<ExpectedVersion> {
    let header = header.trim();
    if header == "*" {
        return Some(ExpectedVersion::Any);
    }
    let (mut strong, mut weak) = (Vec::new(), Vec::new());
    // Elements of a list may be empty, but not all of them.
    let separators = [',', ' ', '\t'];
    let mut rest = header.trim_start_matches(separators);
    loop {
        let (tags, tail) = match rest.strip_prefix("W/") {
            Some(tail) => (&mut weak, tail),
            None => (&mut strong, rest),
        };
        let (tag, tail) = tail.strip_prefix('"')?.split_once('"')?;
        if tag.chars().any(|c| c.is_control() || c == ' ') {
            return None;
        }
        tags.push(tag.to_owned());
        rest = tail.trim_start_matches(separators);
        if rest.is_empty() {
            return Some(ExpectedVersion::Tags { strong, weak });
        }
        if !tail.trim_start().starts_with(',') {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::{Epoch, FeedPosition, Version};
    use proptest::prelude::*;

    use super::*;

    fn at(version: i64) -> FeedPosition {
        FeedPosition { epoch: Epoch(7), version: Version(version) }
    }

    #[test]
    fn lists_of_tags_are_read_and_anything_else_is_refused() {
        assert_eq!(entity_tags(" * "), Some(ExpectedVersion::Any));
        let list = entity_tags(r#""7", W/"8" ,"x""#).unwrap();
        assert!(list.matches(at(7)));
        assert!(!list.matches(at(8)) && list.matches_weakly(at(8)));
        for sparse in ["\"7\",", " , \"7\"", "\"6\",, ,\"7\""] {
            assert!(entity_tags(sparse).is_some_and(|list| list.matches(at(7))), "{sparse}");
        }
        for bad in ["", "7", "\"7", "\"7\" \"8\"", "*, \"7\"", "w/\"7\"", ",", " , ,"] {
            assert_eq!(entity_tags(bad), None, "{bad}");
        }
    }

    fn written(weak: bool, tag: &str) -> String {
        if weak { format!("W/\"{tag}\"") } else { format!("\"{tag}\"") }
    }

    fn almost_lists() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\"".to_owned()),
            Just("W/".to_owned()),
            Just(",".to_owned()),
            Just(" ".to_owned()),
            Just("*".to_owned()),
            "[0-9]{1,3}",
            "\\PC{0,4}",
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parsed_tags_print_and_parse_to_the_same_tags(text in almost_lists()) {
            if let Some(ExpectedVersion::Tags { strong, weak }) = entity_tags(&text) {
                let tags = || strong.iter().map(|tag| (false, tag)).chain(weak.iter().map(|tag| (true, tag)));
                for (weak, tag) in tags() {
                    prop_assert!(!tag.contains(|c: char| c == '"' || c == ' ' || c.is_control()), "{tag:?}");
                    prop_assert!(text.contains(&written(weak, tag)), "{tag:?}");
                }
                let again = tags().map(|(weak, tag)| written(weak, tag)).collect::<Vec<_>>().join(", ");
                prop_assert_eq!(entity_tags(&again), Some(ExpectedVersion::Tags { strong, weak }));
            }
        }

        #[test]
        fn every_list_of_tags_is_read_and_only_a_strong_one_of_this_version_lets_a_write_go_on(
            tags in prop::collection::vec((any::<bool>(), 0..9_i64, "[ \t]{0,2}", "[ \t]{0,2}"), 1..6),
            version in 0..9_i64,
        ) {
            let one = |(weak, tag, before, behind): &(bool, i64, String, String)| {
                format!("{before}{}{behind}", written(*weak, &tag.to_string()))
            };
            let text = tags.iter().map(one).collect::<Vec<_>>().join(",");
            let read = entity_tags(&text).unwrap();
            let has = |wanted: &[bool]| tags.iter().any(|tag| tag.1 == version && wanted.contains(&tag.0));
            prop_assert_eq!(read.matches(at(version)), has(&[false]), "{}", text);
            prop_assert_eq!(read.matches_weakly(at(version)), has(&[false, true]), "{}", text);
        }
    }
}
