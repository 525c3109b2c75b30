//! Compares what clients recorded with the feed. Every check is a pure function of the evidence, so it can be tested with
//! histories that are wrong on purpose.

mod deletions;
mod keys;
mod order;
mod replay;
mod reports;
mod states;
#[cfg(test)]
mod tests;
mod walks;
mod watches;
mod writes;

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::feed::Change;
use crate::history::History;

/// Everything that the checks read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Changes up to this version came with a restored backup, and were checked before.
    pub(crate) base: u64,
    /// All changes, oldest first.
    pub(crate) feed: Vec<Change>,
    pub(crate) history: History,
    /// The digest of each resource in the end, as each replica lists it.
    pub(crate) states: Vec<BTreeMap<Uuid, u64>>,
    /// What is stored of each of [`History::streams`].
    pub(crate) stored: Vec<StoredReports>,
}

/// Reports of one stream as the server tells them in the end, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredReports {
    /// The stored report.
    pub(crate) last: Option<u64>,
    /// The timeline, oldest first.
    pub(crate) timeline: Vec<u64>,
}

/// A promise that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    Feed,
    Writes,
    Updates,
    Order,
    Watches,
    Keys,
    Reports,
    Walks,
    States,
    Deletions,
    Answers,
    Database,
}

impl Check {
    pub(crate) const ALL: [Self; 12] = [
        Self::Feed,
        Self::Writes,
        Self::Updates,
        Self::Order,
        Self::Watches,
        Self::Keys,
        Self::Reports,
        Self::Walks,
        Self::States,
        Self::Deletions,
        Self::Answers,
        Self::Database,
    ];

    /// The promise in a few words.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Feed => "versions are gapless, resources change lawfully",
            Self::Writes => "no acknowledged write is lost, no other appears",
            Self::Updates => "no update is lost",
            Self::Order => "versions follow the order of acknowledgements",
            Self::Watches => "every watch has every change once, in order",
            Self::Keys => "an idempotency key is executed once",
            Self::Reports => "no acknowledged report is lost",
            Self::Walks => "a walk over pages has everything once",
            Self::States => "all replicas show the state of the feed",
            Self::Deletions => "deletions end, everything is reconciled",
            Self::Answers => "no answer is out of place",
            Self::Database => "the database holds together (`hyperfleet verify`)",
        }
    }
}

/// What was violated. Of each check the first violations are kept.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) counts: BTreeMap<Check, u64>,
    pub(crate) violations: Vec<(Check, String)>,
}

impl Findings {
    const KEPT: u64 = 10;

    pub(crate) fn add(&mut self, check: Check, what: impl FnOnce() -> String) {
        let count = self.counts.entry(check).or_default();
        *count += 1;
        if *count <= Self::KEPT {
            self.violations.push((check, what()));
        }
    }

    pub(crate) fn count(&self, check: Check) -> u64 {
        self.counts.get(&check).copied().unwrap_or_default()
    }
}

/// How many changes of a feed are those of another one, from the beginning: what a backup has kept.
pub(crate) fn common(before: &[Change], after: &[Change]) -> u64 {
    let is_same = |(one, other): &(&Change, &Change)| {
        (one.version, one.kind, one.resource, one.digest)
            == (other.version, other.kind, other.resource, other.digest)
    };
    before.iter().zip(after).take_while(is_same).last().map_or(0, |(change, _)| change.version)
}

/// Applies every check.
pub(crate) fn check(evidence: &Evidence, findings: &mut Findings) {
    let replay = replay::replay(evidence, findings);
    writes::check(&evidence.history, &replay, findings);
    order::check(&evidence.history, &replay, findings);
    watches::check(evidence, findings);
    keys::check(&evidence.history, &replay, findings);
    reports::check(evidence, findings);
    walks::check(&evidence.history, &replay, findings);
    states::check(evidence, &replay, findings);
    deletions::check(&replay, findings);
    for answer in &evidence.history.unexpected {
        findings.add(Check::Answers, || answer.clone());
    }
}
