//! `If-Match` and `If-None-Match` as callers write them: whatever is read is a list of tags, and every list of tags is
//! read.

use hyperfleet_core::{IfMatch, Version};
use proptest::prelude::*;

use crate::cases;

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
    #![proptest_config(cases(2000))]

    #[test]
    fn what_is_read_can_be_written_and_read_again(text in almost_lists()) {
        if let Some(IfMatch::Tags { strong, weak }) = IfMatch::parse(&text) {
            let tags = || strong.iter().map(|tag| (false, tag)).chain(weak.iter().map(|tag| (true, tag)));
            for (weak, tag) in tags() {
                prop_assert!(!tag.contains(|c: char| c == '"' || c == ' ' || c.is_control()), "{tag:?}");
                prop_assert!(text.contains(&written(weak, tag)), "{tag:?}");
            }
            let again = tags().map(|(weak, tag)| written(weak, tag)).collect::<Vec<_>>().join(", ");
            prop_assert_eq!(IfMatch::parse(&again), Some(IfMatch::Tags { strong, weak }));
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
        let read = IfMatch::parse(&text).unwrap();
        let has = |wanted: &[bool]| tags.iter().any(|tag| tag.1 == version && wanted.contains(&tag.0));
        prop_assert_eq!(read.matches(Version(version)), has(&[false]), "{}", text);
        prop_assert_eq!(read.matches_weakly(Version(version)), has(&[false, true]), "{}", text);
    }
}
