//! When to publish: a pure function of the resource, what was last published for it, and now. Each case of the
//! table is one branch below.
//!
//! | Case | Publish |
//! |---|---|
//! | a generation that was never published for this resource; after a restart a resource that is reconciled at its generation counts as published | at once |
//! | not reconciled, and neither published nor reported for 10 s | yes, then after 20 s, 40 s … up to 5 min while nothing changes |
//! | a report altered conditions or data while the resource is not reconciled | at once, at most once a second per resource |
//! | reconciled, last confirmed more than 30 min ago and not published for 30 min; never for a kind without required adapters | yes |
//! | otherwise | no |

use std::time::Duration;

use hyperfleet_core::Timestamp;

use crate::backoff::{age, later};
use crate::seen::{Inputs, Reconciled, Seen};

/// The first repetition for a resource that is not reconciled; each further one waits twice as long.
pub const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// The longest wait between repetitions.
pub const REPEAT_AT_MOST_AFTER: Duration = Duration::from_secs(300);
/// Between two events about reports on one resource.
pub const COALESCE: Duration = Duration::from_secs(1);
/// After so long without a confirmation a reconciled resource is looked at again.
pub const STALE_AFTER: Duration = Duration::from_secs(30 * 60);

/// What was last published for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Of this generation.
    pub generation: u64,
    /// With these inputs there for adapters.
    pub inputs: Inputs,
    /// Then.
    pub at: Timestamp,
    /// Repetitions since anything changed, this one counted.
    pub repeats: u32,
}

/// Why an event is published. These are the values of the metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A generation that was never published.
    NewGeneration,
    /// Not reconciled, and nothing was heard for a while.
    NotReconciled,
    /// A report altered what other adapters may depend on.
    InputsChanged,
    /// Reconciled, and not confirmed for long.
    Stale,
    /// The configured decision said so.
    MessageDecision,
    /// A person asked for it; no decision of the Sentinel's.
    Requested,
}

/// Why no event is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skip {
    /// Reconciled, and confirmed or published not long ago.
    Reconciled,
    /// Its kind requires no adapters, so nothing will confirm it.
    NoRequiredAdapters,
    /// Published or reported not long ago.
    BackingOff,
    /// Published within the last second.
    Coalesced,
    /// Another replica looks after it.
    OtherReplica,
    /// The configured decision said no.
    MessageDecision,
    /// The configured decision failed.
    DecisionFailed,
}

/// What the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Publish now.
    Publish(Reason),
    /// Publish at that time, should nothing change.
    Wait {
        /// When.
        until: Timestamp,
        /// What the reason will be.
        reason: Reason,
        /// Why not now.
        skip: Skip,
    },
    /// Nothing to do until something changes or the poll finds it.
    Rest(Skip),
}

/// The table.
pub fn decide(seen: &Seen, published: Option<&Published>, now: Timestamp) -> Decision {
    if never_published(seen, published) {
        return Decision::Publish(Reason::NewGeneration);
    }
    match (seen.reconciled, published) {
        (Reconciled::Yes { confirmed }, _) => reconciled(seen, confirmed, published, now),
        (Reconciled::No, Some(published)) => unreconciled(seen, published, now),
        (Reconciled::No, None) => Decision::Publish(Reason::NewGeneration),
    }
}

/// Whether an event for this generation is owed. Who is reconciled was worked on, so an event that nobody remembers
/// was there or is not needed; but without adapters nothing tells, so a change that is seen as it happens is new.
pub fn never_published(seen: &Seen, published: Option<&Published>) -> bool {
    match published {
        Some(published) => published.generation < seen.generation,
        None if seen.is_reconciled() => seen.news && !seen.has_adapters,
        None => true,
    }
}

fn unreconciled(seen: &Seen, published: &Published, now: Timestamp) -> Decision {
    let (until, reason, skip) = if seen.inputs == published.inputs {
        let heard = seen.reported.map_or(published.at, |reported| reported.max(published.at));
        (later(heard, repeat_after(published.repeats)), Reason::NotReconciled, Skip::BackingOff)
    } else {
        (later(published.at, COALESCE), Reason::InputsChanged, Skip::Coalesced)
    };
    if until <= now { Decision::Publish(reason) } else { Decision::Wait { until, reason, skip } }
}

fn reconciled(
    seen: &Seen,
    confirmed: Option<Timestamp>,
    published: Option<&Published>,
    now: Timestamp,
) -> Decision {
    if !seen.has_adapters {
        return Decision::Rest(Skip::NoRequiredAdapters);
    }
    let heard = confirmed.max(published.map(|published| published.at));
    match heard {
        Some(heard) if later(heard, STALE_AFTER) > now => Decision::Rest(Skip::Reconciled),
        _ => Decision::Publish(Reason::Stale),
    }
}

/// 10 s, 20 s, 40 s … 5 min.
pub fn repeat_after(repeats: u32) -> Duration {
    REPEAT_AFTER.saturating_mul(1 << repeats.min(10)).min(REPEAT_AT_MOST_AFTER)
}

/// How many repetitions there are while nothing changes for that long.
pub fn repeats_within(unchanged: Duration) -> u32 {
    let repeated = |n: &u32| REPEAT_AFTER * ((2 << n) - 1) <= unchanged;
    (0..5).take_while(repeated).count() as u32
}

/// How often events were repeated, as far as reports show that adapters were told.
fn repeats_of_others(seen: &Seen) -> u32 {
    seen.changed.zip(seen.reported).map_or(0, |(changed, heard)| repeats_within(age(changed, heard)))
}

impl Published {
    /// The record of an event for what was seen.
    pub fn of(seen: &Seen, before: Option<&Self>, reason: Reason, at: Timestamp) -> Self {
        let repeats = match (reason, before) {
            (Reason::NotReconciled, before) => before.map_or(0, |before| before.repeats).saturating_add(1),
            (_, None) => repeats_of_others(seen),
            _ => 0,
        };
        Self { generation: seen.generation, inputs: seen.inputs, at, repeats }
    }

    /// What somebody else must have published, for all adapters have answered to it: then whoever looks after the
    /// resource from now on goes on where the other one ended.
    pub fn by_others(seen: &Seen) -> Option<Self> {
        let at = seen.reported.filter(|_| seen.heeded)?;
        let repeats = repeats_of_others(seen);
        Some(Self { generation: seen.generation, inputs: seen.inputs, at, repeats })
    }
}

impl Reason {
    /// As metrics, logs and `message_data` have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NewGeneration => "new_generation",
            Self::NotReconciled => "not_reconciled",
            Self::InputsChanged => "inputs_changed",
            Self::Stale => "stale",
            Self::MessageDecision => "message_decision",
            Self::Requested => "requested",
        }
    }
}

impl Skip {
    /// As metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reconciled => "reconciled",
            Self::NoRequiredAdapters => "no_required_adapters",
            Self::BackingOff => "backing_off",
            Self::Coalesced => "coalesced",
            Self::OtherReplica => "other_replica",
            Self::MessageDecision => "message_decision",
            Self::DecisionFailed => "decision_failed",
        }
    }
}
