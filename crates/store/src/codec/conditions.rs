//! The stored form of conditions: JSON in which a control character stands for each of the
//! texts below, more than half of the whole. JSON holds no bare control character. The column is not compressed, because
//! searches read it; PostgreSQL's `conditions_json` has the same list.

use std::borrow::Cow;

use hyperfleet_core::{RawJson, Timestamp, with_last_updated_times};

/// Longer texts come before those that they begin with. Each begins with a quote, where encoding looks for it.
const TEXTS: [(char, &str); 11] = [
    (
        '\x0e',
        r#"","status":"True","reason":"ReconciledAll","message":"All required adapters reported Available=True or Finalized=True at the current generation","observed_generation":"#,
    ),
    (
        '\x0f',
        r#"","status":"True","reason":"AllAdaptersReconciled","message":"All required adapters report Available=True for the tracked generation","observed_generation":"#,
    ),
    (
        '\x10',
        r#"","status":"False","reason":"AdaptersMissingReports","message":"Required adapters have not yet reported status","observed_generation":"#,
    ),
    ('\x01', r#""},{"type":""#),
    ('\x02', r#"","status":"True","reason":""#),
    ('\x03', r#"","status":"False","reason":""#),
    ('\x04', r#"","message":""#),
    ('\x05', r#"","observed_generation":"#),
    ('\x06', r#""created_time":""#),
    ('\x07', r#"","last_updated_time":""#),
    ('\x08', r#"","last_transition_time":""#),
];

/// Conditions as they are stored.
pub(crate) fn encode(conditions: &str) -> String {
    let mut stored = String::with_capacity(conditions.len() * 2 / 3);
    let mut rest = conditions;
    while let Some(quote) = rest.find('"') {
        let (before, from_quote) = rest.split_at(quote);
        stored.push_str(before);
        let text = TEXTS.iter().find(|(_, text)| from_quote.starts_with(text));
        let (character, length) = text.map_or(('"', 1), |(character, text)| (*character, text.len()));
        stored.push(character);
        rest = &from_quote[length..];
    }
    stored.push_str(rest);
    stored
}

/// Conditions as JSON.
pub(crate) fn decode(stored: &str) -> Cow<'_, str> {
    let is_control = |byte| byte < b' ';
    if !stored.bytes().any(is_control) {
        return Cow::Borrowed(stored);
    }
    let mut json = String::with_capacity(stored.len() * 3);
    let mut rest = stored;
    while let Some(at) = rest.bytes().position(is_control) {
        json.push_str(&rest[..at]);
        let text = TEXTS.iter().find(|(character, _)| rest[at..].starts_with(*character));
        json.push_str(text.map_or(&rest[at..=at], |(_, text)| text));
        rest = &rest[at + 1..];
    }
    json.push_str(rest);
    Cow::Owned(json)
}

/// Conditions with the times that reports have moved since they were written.
pub(crate) fn conditions(stored: &str, last_updated_times: impl ExactSizeIterator<Item = i64>) -> RawJson {
    let json = decode(stored);
    if last_updated_times.len() == 0 {
        return RawJson::from_stored(json);
    }
    with_last_updated_times(&json, last_updated_times.map(Timestamp::from_micros))
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::{Condition, Status};
    use proptest::prelude::*;

    use super::*;

    fn printed(words: &[(String, String, bool)]) -> RawJson {
        let time = Timestamp::from_micros(1_000_000);
        let condition = |(reason, message, holds): &(String, String, bool)| Condition {
            kind: "Reconciled".to_owned(),
            status: if *holds { Status::True } else { Status::False },
            reason: reason.clone(),
            message: message.clone(),
            observed_generation: 3,
            created_time: time,
            last_updated_time: time,
            last_transition_time: time,
        };
        RawJson::from_value(&words.iter().map(condition).collect::<Vec<_>>())
    }

    #[test]
    fn stored_conditions_take_less_than_half_of_their_json() {
        let all = (
            "ReconciledAll",
            "All required adapters reported Available=True or Finalized=True at the current generation",
        );
        let json = printed(&vec![(all.0.to_owned(), all.1.to_owned(), true); 3]);
        let stored = encode(json.as_str());
        assert!(stored.len() * 2 < json.as_str().len(), "{stored:?}");
    }

    #[test]
    fn postgresql_has_the_same_texts() {
        let baseline = include_str!("../postgres/migrations/0001_baseline.sql");
        for (character, text) in TEXTS {
            let replacement = format!("E'\\x{:02x}', '{text}')", u32::from(character));
            assert!(baseline.contains(&replacement), "{replacement}");
        }
    }

    proptest! {
        #[test]
        fn decoded_conditions_are_the_encoded_ones(
            words in prop::collection::vec((".*", "[a-z\",{:]{0,40}", any::<bool>()), 0..5),
            text in ".*",
        ) {
            let json = printed(&words);
            for text in [json.as_str(), &text.replace(|c: char| c < ' ', "")] {
                let stored = encode(text);
                prop_assert_eq!(decode(&stored), text);
            }
        }
    }
}
