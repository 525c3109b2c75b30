//! Conditions: what the API says about a resource, in Kubernetes' words.
//!
//! They are kept as the text that the API prints. Times have a fixed length there, so a report that only
//! moves times is written as a few numbers beside the text, and laid over it when it is read.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};
use serde::{Deserialize, Serialize};

use crate::json::write_string;
use crate::time::PRINTED;
use crate::{Error, RawJson, Timestamp};

/// What stands before each condition's `last_updated_time`. Inside a JSON string a quote is escaped, so
/// no message can hold this.
const LAST_UPDATED: &str = ",\"last_updated_time\":\"";

/// What each condition begins with.
const TYPE: &str = "{\"type\":\"";

/// What stands between its type and its status.
const STATUS: &str = ",\"status\":\"";

/// What stands between what it says and its times.
const CREATED: &str = ",\"created_time\":\"";

/// What stands between its last two times.
const LAST_TRANSITION: &str = "\",\"last_transition_time\":\"";

/// How much is printed between what a condition says and the time at which it was last confirmed.
const UP_TO_UPDATED: usize = CREATED.len() + PRINTED + "\"".len() + LAST_UPDATED.len();

/// How much is printed behind what it says.
const TIMES: usize = UP_TO_UPDATED + PRINTED + LAST_TRANSITION.len() + PRINTED + "\"}".len();

// Made once: to make one takes longer than to find something in one condition.
static FIND_LAST_UPDATED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(LAST_UPDATED));
static FIND_TYPE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(TYPE));

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// What is claimed, such as `Reconciled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, for machines.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation this speaks about.
    pub observed_generation: i64,
    /// When the condition first appeared.
    pub created_time: Timestamp,
    /// When it was last confirmed.
    pub last_updated_time: Timestamp,
    /// When its status last flipped.
    pub last_transition_time: Timestamp,
}

/// The `last_updated_time` of each condition in `conditions`, in order.
pub fn last_updated_times(conditions: &RawJson) -> Result<Vec<Timestamp>, Error> {
    positions(conditions.as_str())
        .map(|at| {
            let text = conditions.as_str().get(at..at + PRINTED);
            text.and_then(Timestamp::parse).ok_or_else(|| Error::internal("a condition without its time"))
        })
        .collect()
}

/// `conditions` with these `last_updated_time`s, in order.
pub fn with_last_updated_times(conditions: &str, times: impl IntoIterator<Item = Timestamp>) -> RawJson {
    let mut text = conditions.to_owned();
    for (at, time) in positions(conditions).zip(times) {
        if let Ok(time) = str::from_utf8(&time.printed()) {
            text.replace_range(at..at + PRINTED, time);
        }
    }
    RawJson::from_stored(text)
}

/// Every condition of `conditions` as its own text, in order.
pub(crate) fn each(conditions: &str) -> Vec<&str> {
    // Room for those of four adapters at once.
    let mut texts: Vec<&str> = Vec::with_capacity(8);
    let mut start = None;
    for at in FIND_TYPE.find_iter(conditions.as_bytes()).map(Some).chain([None]) {
        // Between two of them is a comma, and behind the last a bracket.
        texts.extend(start.and_then(|start| conditions.get(start..at.unwrap_or(conditions.len()) - 1)));
        start = at;
    }
    texts
}

/// The conditions with these texts.
pub(crate) fn joined(texts: &[&str]) -> String {
    format!("[{}]", texts.join(","))
}

/// Whether two conditions, each as its own text, differ in nothing but when they were confirmed.
pub(crate) fn says_the_same(one: &str, other: &str) -> bool {
    fn around(text: &str) -> Option<(&str, &str)> {
        positions(text).next().map(|at| (&text[..at], &text[at + PRINTED..]))
    }
    one == other || (one.len() == other.len() && around(one).is_some() && around(one) == around(other))
}

/// The type and the status of each condition in `conditions`, in order, without reading the rest.
pub fn statuses(conditions: &RawJson) -> impl Iterator<Item = (Cow<'_, str>, Status)> {
    each(conditions.as_str()).into_iter().filter_map(|condition| {
        let (kind, rest) = string(condition.strip_prefix(TYPE)?)?;
        let (status, _) = string(rest.strip_prefix(STATUS)?)?;
        Some((kind, Status::parse(&status)?))
    })
}

/// A condition, looked at where it stands.
pub(crate) struct Glance<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) status: Status,
    pub(crate) reason: Cow<'a, str>,
    pub(crate) message: Cow<'a, str>,
    pub(crate) observed_generation: i64,
    /// All of it; its end are its times.
    text: &'a str,
}

impl<'a> Glance<'a> {
    /// Every condition of `conditions`, in order; `None` if there is none, or one is not as it is printed here.
    pub(crate) fn of_all(conditions: &'a str) -> Option<Vec<Self>> {
        // Room for those of four adapters at once.
        let mut glances = Vec::with_capacity(8);
        let mut rest = conditions.strip_prefix('[')?;
        loop {
            let (glance, behind) = Self::first_of(rest)?;
            glances.push(glance);
            if behind == "]" {
                return Some(glances);
            }
            rest = behind.strip_prefix(',')?;
        }
    }

    /// Reads the condition that `text` begins with; what comes behind it is the other half. What it says is of any
    /// length, its times are not, so only the ends of texts have to be looked for.
    fn first_of(text: &'a str) -> Option<(Self, &'a str)> {
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
        let glance = Self {
            kind,
            status: Status::parse(&status)?,
            reason,
            message,
            observed_generation: generation.parse().ok()?,
            text: text.get(..text.len() - rest.len())?,
        };
        are_times.then_some((glance, rest))
    }

    /// When it was last confirmed.
    pub(crate) fn last_updated_time(&self) -> Option<Timestamp> {
        let at = self.updated();
        Timestamp::parse(self.text.get(at..at + PRINTED)?)
    }

    /// Where that is printed.
    fn updated(&self) -> usize {
        self.text.len() - TIMES + UP_TO_UPDATED
    }

    /// Prints it as confirmed at another time.
    pub(crate) fn write_confirmed(&self, at: Timestamp, out: &mut Vec<u8>) {
        self.write_from(0, at, out);
    }

    /// Prints what stands behind `start`, as confirmed at another time.
    fn write_from(&self, start: usize, at: Timestamp, out: &mut Vec<u8>) {
        let (text, updated) = (self.text.as_bytes(), self.updated());
        out.extend_from_slice(&text[start..updated]);
        at.write(out);
        out.extend_from_slice(&text[updated + PRINTED..]);
    }

    /// Prints it with other words, as one that was made and has turned when this one was.
    pub(crate) fn write_restated(
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

/// A JSON string up to its closing quote, and what comes behind that.
fn string(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = memchr2(b'"', b'\\', text.as_bytes())?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    // What JSON had to escape is rare enough to be read the slow way.
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    let read = serde_json::from_str(&format!("\"{}\"", &text[..end])).ok()?;
    Some((Cow::Owned(read), &text[end + 1..]))
}

fn positions(conditions: &str) -> impl Iterator<Item = usize> {
    FIND_LAST_UPDATED
        .find_iter(conditions.as_bytes())
        .map(|at| at + LAST_UPDATED.len())
        .filter(|at| at + PRINTED <= conditions.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_that_is_printed_otherwise_is_not_glanced_at() {
        let text = RawJson::from_value(&[condition("a".to_owned(), 1), condition("b".to_owned(), 2)]);
        let text = text.as_str();
        assert!(Glance::of_all(text).is_some());
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
            assert!(Glance::of_all(&text.replacen(part, other, 1)).is_none(), "{part} as {other}");
        }
        assert!(Glance::of_all("[]").is_none());
        assert!(Glance::of_all(&text[..text.len() - 1]).is_none());
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
        fn laying_times_over_the_text_is_the_same_as_printing_them(
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
        fn a_glance_sees_what_a_condition_says_and_confirms_or_restates_it_as_printing_would(
            given in prop::collection::vec((".*", 0..4_000_000_000_000_000_i64, any::<bool>()), 1..5)
        ) {
            let before: Vec<_> = given.iter().map(|(m, t, _)| condition(m.clone(), *t)).collect();
            let text = RawJson::from_value(&before);
            let glances = Glance::of_all(text.as_str()).unwrap();
            prop_assert_eq!(glances.len(), before.len());
            for ((glance, before), (_, micros, restates)) in glances.iter().zip(before).zip(&given) {
                prop_assert_eq!((&*glance.kind, glance.status), (&*before.kind, before.status));
                prop_assert_eq!((&*glance.reason, &*glance.message), (&*before.reason, &*before.message));
                prop_assert_eq!(glance.observed_generation, before.observed_generation);
                prop_assert_eq!(glance.last_updated_time(), Some(before.last_updated_time));
                let at = Timestamp::from_micros(micros + 3);
                let (mut out, mut after) = (Vec::new(), Condition { last_updated_time: at, ..before });
                if *restates {
                    (after.reason, after.message) = ("Other".to_owned(), "it \"is\"".to_owned());
                    after.observed_generation = 20;
                    glance.write_restated((&after.reason, &after.message), 20, at, &mut out);
                } else {
                    glance.write_confirmed(at, &mut out);
                }
                prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&after).unwrap());
            }
        }
    }
}
