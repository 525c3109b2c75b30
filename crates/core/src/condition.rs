//! Conditions of a resource, as Kubernetes defines them.
//!
//! They are stored as the JSON text that the API returns. Times have a fixed length in that text, so a report that
//! only moves times is stored as a few numbers beside the text, and the times are replaced when it is read.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use serde::Serialize;

use crate::json::write_string;
use crate::time::PRINTED;
use crate::{Error, RawJson, Timestamp};

/// The text before each `last_updated_time`.
const LAST_UPDATED: &str = ",\"last_updated_time\":\"";

/// The start of each condition.
const TYPE: &str = "{\"type\":\"";

/// The text between type and status.
const STATUS: &str = ",\"status\":\"";

/// The text before the times.
const CREATED: &str = ",\"created_time\":\"";

/// The text between the last two times.
const LAST_TRANSITION: &str = "\",\"last_transition_time\":\"";

/// Bytes from the start of the times to `last_updated_time`.
const UP_TO_UPDATED: usize = CREATED.len() + PRINTED + "\"".len() + LAST_UPDATED.len();

/// Bytes of all times, which end a condition.
const TIMES: usize = UP_TO_UPDATED + PRINTED + LAST_TRANSITION.len() + PRINTED + "\"}".len();

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
}

impl Status {
    fn parse(name: &str) -> Option<Self> {
        [Self::True, Self::False].into_iter().find(|status| status.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
        }
    }
}

/// One entry of `status.conditions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// The type, such as `Reconciled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation that the condition is about.
    pub observed_generation: i64,
    /// When the condition first appeared.
    pub created_time: Timestamp,
    /// Its `last_updated_time`.
    pub last_updated_time: Timestamp,
    /// When its status last changed.
    pub last_transition_time: Timestamp,
}

impl Condition {
    /// Every condition of `conditions`, in order. Fails only when the store holds something that was not written by us.
    pub fn parse_all(conditions: &str) -> Result<Vec<Self>, Error> {
        let parsed = ConditionRef::parse_all(conditions)
            .and_then(|condition_refs| condition_refs.iter().map(ConditionRef::to_condition).collect());
        parsed.ok_or_else(not_stored_form)
    }
}

/// The `last_updated_time` of each condition in `conditions`, in order.
pub fn last_updated_times(conditions: &RawJson) -> Result<Vec<Timestamp>, Error> {
    let times = ConditionRef::parse_all(conditions.as_str())
        .and_then(|condition_refs| condition_refs.iter().map(ConditionRef::last_updated_time).collect());
    times.ok_or_else(not_stored_form)
}

fn not_stored_form() -> Error {
    Error::internal("conditions are not in the stored form")
}

/// `conditions` with these `last_updated_time`s, in order.
pub fn with_last_updated_times(conditions: &str, times: impl IntoIterator<Item = Timestamp>) -> RawJson {
    let mut text = conditions.as_bytes().to_owned();
    for (condition, time) in ConditionRef::parse_all(conditions).into_iter().flatten().zip(times) {
        let at = condition.start + condition.updated();
        text[at..at + PRINTED].copy_from_slice(&time.printed());
    }
    RawJson::from_stored(String::from_utf8(text).unwrap_or_else(|_| conditions.to_owned()))
}

/// The type and the status of each condition in `conditions`, in order.
pub fn statuses(conditions: &RawJson) -> impl Iterator<Item = (Cow<'_, str>, Status)> {
    let conditions = ConditionRef::parse_all(conditions.as_str());
    conditions.into_iter().flatten().map(|condition| (condition.kind, condition.status))
}

/// A borrowed view of a condition in its JSON text.
pub(crate) struct ConditionRef<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) status: Status,
    pub(crate) reason: Cow<'a, str>,
    pub(crate) message: Cow<'a, str>,
    pub(crate) observed_generation: i64,
    /// The whole condition, which ends with its times.
    pub(crate) text: &'a str,
    /// Its position in the list's text.
    start: usize,
}

impl<'a> ConditionRef<'a> {
    /// Every condition of `conditions`, in order; `None` unless all are in the stored form.
    pub(crate) fn parse_all(conditions: &'a str) -> Option<Vec<Self>> {
        // Enough for four adapters without reallocation.
        let mut condition_refs = Vec::with_capacity(8);
        if conditions == "[]" {
            return Some(condition_refs);
        }
        let mut rest = conditions.strip_prefix('[')?;
        loop {
            let (condition_ref, behind) = Self::parse_first(rest)?;
            let start = conditions.len() - rest.len();
            condition_refs.push(Self { start, ..condition_ref });
            if behind == "]" {
                return Some(condition_refs);
            }
            rest = behind.strip_prefix(',')?;
        }
    }

    /// Parses the condition at the start of `text` and returns it with the rest. Times have a fixed length, so only the
    /// ends of strings are searched.
    fn parse_first(text: &'a str) -> Option<(Self, &'a str)> {
        let (kind, rest) = string(text.strip_prefix(TYPE)?)?;
        let (status, rest) = string(rest.strip_prefix(STATUS)?)?;
        let (reason, rest) = string(rest.strip_prefix(",\"reason\":\"")?)?;
        let (message, rest) = string(rest.strip_prefix(",\"message\":\"")?)?;
        let rest = rest.strip_prefix(",\"observed_generation\":")?;
        let (generation, rest) = rest.split_at_checked(memchr(b',', rest.as_bytes())?)?;
        let (times, rest) = rest.split_at_checked(TIMES)?;
        let are_times = times.starts_with(CREATED)
            && times.get(..UP_TO_UPDATED)?.ends_with(LAST_UPDATED)
            && times.get(UP_TO_UPDATED + PRINTED..)?.starts_with(LAST_TRANSITION)
            && times.ends_with("\"}");
        let condition_ref = Self {
            kind,
            status: Status::parse(&status)?,
            reason,
            message,
            observed_generation: generation.parse().ok()?,
            text: text.get(..text.len() - rest.len())?,
            start: 0,
        };
        are_times.then_some((condition_ref, rest))
    }

    /// Whether both texts are equal apart from `last_updated_time`.
    pub(crate) fn is_equal_apart_from_time(&self, other: &Self) -> bool {
        let around = |condition: &Self| {
            let at = condition.updated();
            (&condition.text[..at], &condition.text[at + PRINTED..])
        };
        around(self) == around(other)
    }

    /// The condition as an owned value.
    fn to_condition(&self) -> Option<Condition> {
        Some(Condition {
            kind: self.kind.clone().into_owned(),
            status: self.status,
            reason: self.reason.clone().into_owned(),
            message: self.message.clone().into_owned(),
            observed_generation: self.observed_generation,
            created_time: self.time_at(self.text.len() - TIMES + CREATED.len())?,
            last_updated_time: self.last_updated_time()?,
            last_transition_time: self.time_at(self.text.len() - PRINTED - "\"}".len())?,
        })
    }

    /// Its `last_updated_time`.
    pub(crate) fn last_updated_time(&self) -> Option<Timestamp> {
        self.time_at(self.updated())
    }

    fn time_at(&self, start: usize) -> Option<Timestamp> {
        Timestamp::parse(self.text.get(start..start + PRINTED)?)
    }

    /// The position of `last_updated_time`.
    fn updated(&self) -> usize {
        self.text.len() - TIMES + UP_TO_UPDATED
    }

    /// Writes the condition with another `last_updated_time`.
    pub(crate) fn write_with_time(&self, at: Timestamp, out: &mut Vec<u8>) {
        self.write_from(0, at, out);
    }

    /// Writes the text from `start` on, with another `last_updated_time`.
    fn write_from(&self, start: usize, at: Timestamp, out: &mut Vec<u8>) {
        let (text, updated) = (self.text.as_bytes(), self.updated());
        out.extend_from_slice(&text[start..updated]);
        at.write(out);
        out.extend_from_slice(&text[updated + PRINTED..]);
    }

    /// Writes the condition with another reason and message. Creation and transition times stay.
    pub(crate) fn write_with_words(
        &self,
        (reason, message): (&str, &str),
        generation: i64,
        at: Timestamp,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"{\"type\":");
        write_string(&self.kind, out);
        out.extend_from_slice(STATUS.as_bytes());
        out.extend_from_slice(self.status.name().as_bytes());
        out.extend_from_slice(b"\",\"reason\":");
        write_string(reason, out);
        out.extend_from_slice(b",\"message\":");
        write_string(message, out);
        out.extend_from_slice(b",\"observed_generation\":");
        out.extend_from_slice(generation.to_string().as_bytes());
        self.write_from(self.text.len() - TIMES, at, out);
    }
}

/// The JSON string at the start of `text`, without its opening quote, and the rest.
fn string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = memchr2(b'"', b'\\', text.as_bytes())?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    // Strings with escapes are rare, so the JSON parser reads them.
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    let read = serde_json::from_str(&format!("\"{}\"", &text[..end])).ok()?;
    Some((Cow::Owned(read), &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_in_another_form_is_not_parsed_as_references() {
        let text = RawJson::from_value(&[condition("a".to_owned(), 1), condition("b".to_owned(), 2)]);
        let text = text.as_str();
        assert!(ConditionRef::parse_all(text).is_some());
        for (part, other) in [
            ("]", "],"),
            ("},{", "};{"),
            ("\"created_time\"", "\"cerated_time\""),
            ("\"last_updated_time\"", "\"last_uptaded_time\""),
            ("\"last_transition_time\"", "\"last_transaction_tim\""),
            ("\"observed_generation\":1", "\"observed_generation\":one"),
            ("\"status\":\"True\"", "\"status\":\"Perhaps\""),
            ("{\"type\"", "{ \"type\""),
        ] {
            assert!(ConditionRef::parse_all(&text.replacen(part, other, 1)).is_none(), "{part} as {other}");
        }
        assert!(ConditionRef::parse_all("[]").is_some_and(|conditions| conditions.is_empty()));
        assert!(ConditionRef::parse_all(&text[..text.len() - 1]).is_none());
    }

    fn condition(message: String, micros: i64) -> Condition {
        let time = Timestamp::from_micros(micros);
        Condition {
            kind: message.clone(),
            status: if micros % 2 == 0 { Status::True } else { Status::False },
            reason: message.clone(),
            message,
            observed_generation: 1,
            created_time: time,
            last_updated_time: Timestamp::from_micros(micros + 1),
            last_transition_time: Timestamp::from_micros(micros + 2),
        }
    }

    proptest! {
        #[test]
        fn replacing_times_in_the_text_equals_serializing_them(
            given in prop::collection::vec((".*", 0..4_000_000_000_000_000_i64, 0..4_000_000_000_000_000_i64), 0..5)
        ) {
            let tricky = |text: &str| format!("{text},\"last_updated_time\":\"");
            let mut conditions: Vec<_> = given.iter().map(|(m, t, _)| condition(tricky(m), *t)).collect();
            let before = RawJson::from_value(&conditions);
            let times: Vec<_> = given.iter().map(|(_, _, t)| Timestamp::from_micros(*t)).collect();
            conditions.iter_mut().zip(&times).for_each(|(c, t)| c.last_updated_time = *t);
            let after = with_last_updated_times(before.as_str(), times.iter().copied());
            prop_assert_eq!(last_updated_times(&after).unwrap(), times);
            let statuses: Vec<_> = statuses(&after).map(|(kind, status)| (kind.into_owned(), status)).collect();
            let expected: Vec<_> = conditions.iter().map(|c| (c.kind.clone(), c.status)).collect();
            prop_assert_eq!(statuses, expected);
            prop_assert_eq!(after, RawJson::from_value(&conditions));
        }

        #[test]
        fn a_condition_ref_reads_and_writes_a_condition_as_serde_does(
            given in prop::collection::vec((".*", 0..4_000_000_000_000_000_i64, any::<bool>()), 1..5)
        ) {
            let before: Vec<_> = given.iter().map(|(m, t, _)| condition(m.clone(), *t)).collect();
            let text = RawJson::from_value(&before);
            prop_assert_eq!(&Condition::parse_all(text.as_str()).unwrap(), &before);
            let condition_refs = ConditionRef::parse_all(text.as_str()).unwrap();
            prop_assert_eq!(condition_refs.len(), before.len());
            for ((condition_ref, before), (_, micros, restates)) in condition_refs.iter().zip(before).zip(&given) {
                prop_assert_eq!((&*condition_ref.kind, condition_ref.status), (&*before.kind, before.status));
                prop_assert_eq!((&*condition_ref.reason, &*condition_ref.message), (&*before.reason, &*before.message));
                prop_assert_eq!(condition_ref.observed_generation, before.observed_generation);
                prop_assert_eq!(condition_ref.last_updated_time(), Some(before.last_updated_time));
                let at = Timestamp::from_micros(micros + 3);
                let (mut out, mut after) = (Vec::new(), Condition { last_updated_time: at, ..before });
                if *restates {
                    (after.reason, after.message) = ("Other".to_owned(), "it \"is\"".to_owned());
                    after.observed_generation = 20;
                    condition_ref.write_with_words((&after.reason, &after.message), 20, at, &mut out);
                } else {
                    condition_ref.write_with_time(at, &mut out);
                }
                prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&after).unwrap());
            }
        }
    }
}
