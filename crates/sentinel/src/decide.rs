//! When to publish: a pure function of the resource, its last event, and the time. Each case of the table is one branch.
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
use hyperfleet_events::backoff::doubled;

use crate::backoff::{age, later};
use crate::observed::{Inputs, Observed, Reconciled};

/// The first repetition for a resource that is not reconciled; each further one waits twice as long.
pub(crate) const REPEAT_AFTER: Duration = Duration::from_secs(10);
/// The longest wait between repetitions.
pub(crate) const REPEAT_AT_MOST_AFTER: Duration = Duration::from_secs(300);
/// Between two events about reports on one resource.
pub const COALESCE: Duration = Duration::from_secs(1);
/// After this time without a confirmation a reconciled resource is published again.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(30 * 60);

/// What was last published for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The generation.
    pub generation: u64,
    /// The inputs of adapters.
    pub inputs: Inputs,
    /// The time.
    pub at: Timestamp,
    /// Repetitions since anything changed, this one counted.
    pub repeats: u32,
}

/// Why an event is published. These are the values of the metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A generation that was never published.
    NewGeneration,
    /// Not reconciled, and without a report for a while.
    NotReconciled,
    /// A report changed what other adapters may depend on.
    InputsChanged,
    /// Reconciled, and not confirmed for a long time.
    Stale,
    /// The configured decision said so.
    MessageDecision,
    /// An operator requested the event; the Sentinel did not decide it.
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
    /// Another replica owns its range.
    OtherReplica,
    /// The configured decision said no.
    MessageDecision,
    /// The configured decision failed.
    DecisionFailed,
}

/// The decision for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Publish now.
    Publish(Reason),
    /// Publish at that time, should nothing change.
    Wait {
        /// When.
        until: Timestamp,
        /// The reason of the event.
        reason: Reason,
        /// Why not now.
        skip: Skip,
    },
    /// Nothing to do until a change or a resync.
    Rest(Skip),
}

/// The table.
pub fn decide(observed: &Observed, published: Option<&Published>, now: Timestamp) -> Decision {
    if never_published(observed, published) {
        return Decision::Publish(Reason::NewGeneration);
    }
    match (observed.reconciled, published) {
        (Reconciled::Yes { confirmed }, _) => reconciled(observed, confirmed, published, now),
        (Reconciled::No, Some(published)) => unreconciled(observed, published, now),
        (Reconciled::No, None) => Decision::Publish(Reason::NewGeneration),
    }
}

/// Whether this generation was never published. For an unknown resource that is reconciled the event was published or is
/// not needed. Without required adapters that cannot be told, so a watched change counts as unpublished.
pub(crate) fn never_published(observed: &Observed, published: Option<&Published>) -> bool {
    match published {
        Some(published) => published.generation < observed.generation,
        None if observed.is_reconciled() => observed.from_watch && !observed.has_adapters,
        None => true,
    }
}

fn unreconciled(observed: &Observed, published: &Published, now: Timestamp) -> Decision {
    let (until, reason, skip) = if observed.inputs == published.inputs {
        let heard = observed.reported.map_or(published.at, |reported| reported.max(published.at));
        (later(heard, repeat_after(published.repeats)), Reason::NotReconciled, Skip::BackingOff)
    } else {
        (later(published.at, COALESCE), Reason::InputsChanged, Skip::Coalesced)
    };
    if until <= now { Decision::Publish(reason) } else { Decision::Wait { until, reason, skip } }
}

fn reconciled(
    observed: &Observed,
    confirmed: Option<Timestamp>,
    published: Option<&Published>,
    now: Timestamp,
) -> Decision {
    if !observed.has_adapters {
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
    doubled(repeats, REPEAT_AFTER, REPEAT_AT_MOST_AFTER)
}

/// How many repetitions there are while nothing changes for that long.
pub fn repeats_within(unchanged: Duration) -> u32 {
    let repeated = |n: &u32| REPEAT_AFTER * ((2 << n) - 1) <= unchanged;
    (0..5).take_while(repeated).count() as u32
}

/// The repetitions by another replica, as far as reports show them.
fn repeats_of_others(observed: &Observed) -> u32 {
    observed.changed.zip(observed.reported).map_or(0, |(changed, heard)| repeats_within(age(changed, heard)))
}

impl Published {
    /// The record of an event.
    pub fn of(observed: &Observed, before: Option<&Self>, reason: Reason, at: Timestamp) -> Self {
        let repeats = match (reason, before) {
            (Reason::NotReconciled, before) => before.map_or(0, |before| before.repeats).saturating_add(1),
            (_, None) => repeats_of_others(observed),
            _ => 0,
        };
        Self { generation: observed.generation, inputs: observed.inputs, at, repeats }
    }

    /// What another replica must have published, because all adapters have answered. The new owner continues its back-off.
    pub(crate) fn by_others(observed: &Observed) -> Option<Self> {
        let at = observed.reported.filter(|_| observed.answered)?;
        let repeats = repeats_of_others(observed);
        Some(Self { generation: observed.generation, inputs: observed.inputs, at, repeats })
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
