//! How the conditions of a resource are kept: what each says, without the names of its members, which are the same in
//! all of them and more than half of the text. Unlike what is packed it can be read by a statement, because searches ask
//! for parts of conditions; PostgreSQL's functions do so by themselves. What is not printed as we print it stays as it is.

use std::borrow::Cow;

/// Stands before a condition, and between its parts. No JSON holds a bare control character.
const BEGIN: char = '\x01';
const NEXT: char = '\x02';

/// What stands around the parts of a condition.
const BEFORE: [&str; 8] = [
    "{\"type\":\"",
    "\",\"status\":\"",
    "\",\"reason\":\"",
    "\",\"message\":\"",
    "\",\"observed_generation\":",
    ",\"created_time\":\"",
    "\",\"last_updated_time\":\"",
    "\",\"last_transition_time\":\"",
];
const BEHIND: &str = "\"}";
const KIND: usize = 0;
const REASON: usize = 2;
const MESSAGE: usize = 3;
const GENERATION: usize = 4;
const CREATED: usize = 5;
const UPDATED: usize = 6;
const TURNED: usize = 7;

/// What reasons and messages often are as a whole, each with the character that it is kept as. PostgreSQL's functions
/// hold the same list, so it may get longer but never change.
const WORDS: [(char, &str); 7] = [
    ('\x0e', "ReconciledAll"),
    ('\x0f', "All required adapters reported Available=True or Finalized=True at the current generation"),
    ('\x10', "AllAdaptersReconciled"),
    ('\x11', "All required adapters report Available=True for the tracked generation"),
    ('\x12', "AdaptersMissingReports"),
    ('\x13', "Required adapters have not yet reported status"),
    ('\x14', "ReconciledMissingAdapters"),
];

/// Conditions as they are kept.
pub(crate) fn shorten(conditions: &str) -> Cow<'_, str> {
    match shortened(conditions) {
        Some(short) => Cow::Owned(short),
        None => Cow::Borrowed(conditions),
    }
}

/// `None` unless this is how we print conditions, and at least one.
fn shortened(conditions: &str) -> Option<String> {
    let mut rest = conditions.strip_prefix('[')?;
    let mut short = String::with_capacity(conditions.len() / 2);
    let mut created_before = "";
    loop {
        let mut parts = [""; BEFORE.len()];
        for (index, part) in parts.iter_mut().enumerate() {
            let text = rest.strip_prefix(BEFORE[index])?;
            let end = match index {
                KIND => text.find(['"', '\\']),
                REASON | MESSAGE => end_of_string(text),
                GENERATION => text.find(|c: char| !c.is_ascii_digit()),
                _ => text.find('"'),
            };
            (*part, rest) = text.split_at(end?);
        }
        rest = rest.strip_prefix(BEHIND)?;
        let created = parts[CREATED];
        // An empty time is kept for one that is like another.
        if [CREATED, UPDATED, TURNED].iter().any(|time| parts[*time].is_empty()) {
            return None;
        }
        if parts[TURNED] == parts[UPDATED] {
            parts[TURNED] = "";
        }
        if created == created_before {
            parts[CREATED] = "";
        }
        created_before = created;
        for (index, part) in parts.into_iter().enumerate() {
            short.push(if index == 0 { BEGIN } else { NEXT });
            match WORDS.iter().find(|(_, word)| matches!(index, REASON | MESSAGE) && *word == part) {
                Some((letter, _)) => short.push(*letter),
                None => short.push_str(part),
            }
        }
        rest = match rest {
            "]" => return Some(short),
            more => more.strip_prefix(',')?,
        };
    }
}

/// The quote that ends a JSON string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

/// Conditions as they are printed, from how they are kept.
pub(crate) fn in_full(kept: &str) -> Cow<'_, str> {
    let Some(conditions) = kept.strip_prefix(BEGIN) else { return Cow::Borrowed(kept) };
    let mut full = String::with_capacity(kept.len() * 4);
    let mut created = "";
    for (number, condition) in conditions.split(BEGIN).enumerate() {
        full.push(if number == 0 { '[' } else { ',' });
        let mut updated = "";
        for (index, (before, part)) in BEFORE.iter().zip(condition.split(NEXT)).enumerate() {
            full.push_str(before);
            full.push_str(match index {
                REASON | MESSAGE => word(part).unwrap_or(part),
                CREATED if part.is_empty() => created,
                TURNED if part.is_empty() => updated,
                _ => part,
            });
            match index {
                CREATED if !part.is_empty() => created = part,
                UPDATED => updated = part,
                _ => {}
            }
        }
        full.push_str(BEHIND);
    }
    full.push(']');
    Cow::Owned(full)
}

/// What a reason or a message is kept as a letter for. The letters follow one another.
fn word(part: &str) -> Option<&'static str> {
    let place = part.bytes().next()?.checked_sub(WORDS[0].0 as u8)?;
    WORDS.get(usize::from(place)).map(|(_, word)| *word)
}

#[cfg(test)]
mod tests {
    use hyperfleet_core::{Condition, RawJson, Status, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn condition() -> impl Strategy<Value = Condition> {
        let texts = prop_oneof![
            prop::sample::select(WORDS.map(|(_, word)| word.to_owned()).to_vec()),
            ".*",
            "[a\"\\\\,{}\u{1}\u{2}\u{e}]{0,8}",
        ];
        let times = (0..3_i64, 0..3_i64, 0..3_i64);
        ("[A-Za-z\"\u{1}]{1,8}", any::<bool>(), texts.clone(), texts, 0..i64::MAX, times).prop_map(
            |(kind, holds, reason, message, observed_generation, (created, updated, turned))| Condition {
                kind,
                status: if holds { Status::True } else { Status::False },
                reason,
                message,
                observed_generation,
                created_time: Timestamp::from_micros(created),
                last_updated_time: Timestamp::from_micros(updated),
                last_transition_time: Timestamp::from_micros(turned),
            },
        )
    }

    proptest! {
        #[test]
        fn conditions_come_back_as_they_were(given in prop::collection::vec(condition(), 0..6)) {
            let printed = RawJson::from_value(&given);
            let kept = shorten(printed.as_str());
            prop_assert_eq!(in_full(&kept), printed.as_str());
            let is_plain = given.iter().all(|condition| !condition.kind.contains(['"', '\u{1}']));
            prop_assert_eq!(kept.starts_with(BEGIN), is_plain && !given.is_empty());
        }

        #[test]
        fn whatever_else_stands_there_is_kept_as_it_is(text in "[^\u{1}].*") {
            let kept = shorten(&text);
            prop_assert_eq!(in_full(&kept), text.as_str());
        }
    }

    #[test]
    fn conditions_that_say_the_usual_take_a_third_of_their_text() {
        let time = Timestamp::from_micros(1_700_000_000_000_000);
        let of = |kind: &str, words: (&str, &str)| Condition {
            kind: kind.to_owned(),
            status: Status::True,
            reason: words.0.to_owned(),
            message: words.1.to_owned(),
            observed_generation: 1,
            created_time: time,
            last_updated_time: time,
            last_transition_time: time,
        };
        let all = [
            of("Reconciled", (WORDS[0].1, WORDS[1].1)),
            of("LastKnownReconciled", (WORDS[2].1, WORDS[3].1)),
            of("ValidatorSuccessful", ("JobSucceeded", "Generation 1 is applied")),
            of("DnsSuccessful", ("JobSucceeded", "Generation 1 is applied")),
        ];
        let printed = RawJson::from_value(&all);
        let (short, long) = (shorten(printed.as_str()).len(), printed.as_str().len());
        assert!(short * 3 < long, "{short} of {long}");
    }

    #[test]
    fn every_letter_is_found_by_its_place() {
        for (letter, text) in WORDS {
            assert_eq!(word(&letter.to_string()), Some(text));
        }
        assert_eq!((word(""), word("\x0d"), word("Ready"), word("é")), (None, None, None, None));
    }

    #[test]
    fn postgresql_knows_the_same_words() {
        let functions = include_str!("postgres/migrations/0008_packed.sql");
        for (letter, word) in WORDS {
            let line = format!("when E'\\x{:02x}' then '{word}'", u32::from(letter));
            assert!(functions.contains(&line), "{line}");
        }
    }
}
