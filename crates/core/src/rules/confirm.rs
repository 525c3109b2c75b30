//! The short way for a report that turns no condition, as nearly all do: what says the same as before keeps its text,
//! with the time at which it was confirmed, and only what says something else is printed anew. If the conditions are
//! not those that the facts lead to, because one turns or the configuration says something new, it is left to the
//! long way.

use super::facts::{Claim, Facts};
use super::{last_known, reconciled, successful};
use crate::condition::Glance;
use crate::{Condition, RawJson};

/// The conditions after such a report.
pub(super) struct Confirmed {
    pub(super) conditions: RawJson,
    /// Whether one of them says something else than before.
    pub(super) says_more: bool,
}

/// What becomes of `conditions` by `facts`; `None` when one of them would turn, come or go.
pub(super) fn confirmed(facts: &Facts<'_>, conditions: &RawJson) -> Option<Confirmed> {
    let glances = Glance::of_all(conditions.as_str())?;
    let [reconciled, known, adapters @ ..] = glances.as_slice() else { return None };
    let reported = facts.adapters.iter().filter_map(|adapter| Some((adapter.condition, adapter.snapshot?)));
    if reported.clone().count() != adapters.len() {
        return None;
    }
    let mut list = List { text: Vec::with_capacity(conditions.as_str().len() + 256), says_more: false };
    list.add(reconciled, reconciled::TYPE, &reconciled::claim(facts))?;
    let before = condition(known)?;
    list.add(known, last_known::TYPE, &last_known::claim(facts, Some(&before)))?;
    for ((kind, standing), glance) in reported.zip(adapters) {
        list.add(glance, kind, &successful::claim(standing))?;
    }
    list.text.push(b']');
    let conditions = RawJson::from_stored(String::from_utf8(list.text).ok()?);
    Some(Confirmed { conditions, says_more: list.says_more })
}

/// The conditions as far as they are printed.
struct List {
    text: Vec<u8>,
    says_more: bool,
}

impl List {
    /// Adds what `claim` makes of a condition that does not turn by it.
    fn add(&mut self, before: &Glance<'_>, kind: &str, claim: &Claim<'_>) -> Option<()> {
        if before.kind != kind || before.status != claim.status {
            return None;
        }
        let at = claim.last_updated_time;
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        if before.reason == claim.reason
            && before.message == claim.message
            && before.observed_generation == claim.observed_generation
        {
            before.write_confirmed(at, &mut self.text);
        } else {
            self.says_more = true;
            let words = (&*claim.reason, &*claim.message);
            before.write_restated(words, claim.observed_generation, at, &mut self.text);
        }
        Some(())
    }
}

/// What the next condition is told apart by.
fn condition(glance: &Glance<'_>) -> Option<Condition> {
    let time = glance.last_updated_time()?;
    Some(Condition {
        kind: String::new(),
        status: glance.status,
        reason: String::new(),
        message: String::new(),
        observed_generation: glance.observed_generation,
        created_time: time,
        last_updated_time: time,
        last_transition_time: time,
    })
}
