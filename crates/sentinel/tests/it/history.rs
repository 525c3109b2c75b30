//! Any history of one resource, seen completely or in part, with a broker that fails at times.

use std::collections::BTreeSet;
use std::time::Duration;

use hyperfleet_sentinel::backoff::{age, later};
use hyperfleet_sentinel::decide::{COALESCE, Reason, repeat_after};
use hyperfleet_sentinel::observed::Origin;
use hyperfleet_sentinel::ranges::Ranges;
use hyperfleet_sentinel::schedule::Schedule;
use proptest::prelude::*;

use crate::fixtures::{Cluster, at};

#[derive(Debug, Clone)]
enum Step {
    Patch,
    Report { adapter: usize, available: bool },
    Watch,
    Look,
    Pass(u64),
    Publish { works: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Patch),
        2 => (0..2_usize, any::<bool>()).prop_map(|(adapter, available)| Step::Report { adapter, available }),
        3 => Just(Step::Watch),
        2 => Just(Step::Look),
        3 => (0..40_000_u64).prop_map(Step::Pass),
        5 => prop::bool::weighted(0.7).prop_map(|works| Step::Publish { works }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_unpublished_generation_is_always_published_and_repetitions_keep_their_back_off(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut now = at(0.0);
        let mut version = 1;
        let mut cluster = Cluster::new("a", now);
        let mut schedule = Schedule::new(4, None);
        schedule.set_ranges(Ranges::ALL, Ranges::NONE, now);
        let mut published: Vec<(u64, Reason, hyperfleet_core::Timestamp, hyperfleet_sentinel::observed::Inputs)> = Vec::new();
        let mut known = 0;
        // What all adapters have answered to before the schedule observed it counts as published.
        let mut answered = None;
        // The events before which it came into the schedule.
        let mut entered = BTreeSet::new();
        let calm = [Step::Watch, Step::Look].into_iter().chain((0..90).flat_map(|_| [Step::Pass(1_000), Step::Publish { works: true }]));
        for step in steps.into_iter().chain(calm) {
            match step {
                Step::Patch => {
                    cluster = cluster.patched(now);
                    version += 1;
                }
                Step::Report { adapter, available } => {
                    cluster.report(adapter, available, now);
                    version += 1;
                }
                Step::Watch => {
                    let observed = cluster.observed(Origin::Watch(version), now);
                    if schedule.is_empty() {
                        entered.insert(published.len());
                        answered = Some(observed.generation).filter(|_| observed.answered).or(answered);
                    }
                    schedule.observe(observed, now);
                    known = cluster.generation;
                }
                Step::Look => {
                    schedule.resync_begins();
                    if !cluster.is_reconciled() {
                        let observed = cluster.observed(Origin::List(Some(version)), now);
                        if schedule.is_empty() {
                        entered.insert(published.len());
                        answered = Some(observed.generation).filter(|_| observed.answered).or(answered);
                    }
                        schedule.observe(observed, now);
                        known = cluster.generation;
                    }
                    schedule.resync_ends(true);
                }
                Step::Pass(millis) => now = later(now, Duration::from_millis(millis)),
                Step::Publish { works } => {
                    let Some(publication) = schedule.take_due(now) else { continue };
                    prop_assert!(schedule.take_due(now).is_none(), "one resource has one event at a time");
                    if works {
                        schedule.published(&publication, now);
                        published.push((publication.observed.generation, publication.reason, now, publication.observed.inputs));
                    } else {
                        schedule.failed(&publication, now, 0.5);
                    }
                }
            }
        }
        let newest = published.last().map(|it| it.0);
        prop_assert!(newest == Some(known) || answered == Some(known) || known == 0 || cluster.is_reconciled(), "{newest:?} of {known}");
        let mut repeats = 0;
        for (i, pair) in published.windows(2).enumerate() {
            let [(before, _, then, inputs), (generation, reason, moment, inputs_now)] = pair else { unreachable!() };
            if entered.contains(&(i + 1)) {
                repeats = u32::from(*reason == Reason::NotReconciled);
                continue;
            }
            prop_assert!(generation >= before);
            let waited = age(*then, *moment);
            match reason {
                Reason::NotReconciled => {
                    prop_assert!(waited >= repeat_after(repeats), "{waited:?} after {repeats}");
                    repeats += 1;
                }
                Reason::InputsChanged => {
                    prop_assert!(waited >= COALESCE);
                    prop_assert!(inputs != inputs_now);
                    repeats = 0;
                }
                _ => repeats = 0,
            }
        }
    }
}
