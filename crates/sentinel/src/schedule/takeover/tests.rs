//! What is remembered of others' changes, and when that is looked through.

use serde_json::json;

use super::super::Schedule;
use super::*;
use crate::observed::Origin;
use crate::ranges::range_of;

/// That many seconds after the beginning.
fn at(seconds: u64) -> Timestamp {
    later(Timestamp::from_micros(1_790_000_000_000_000), Duration::from_secs(seconds))
}

/// A change to a resource whose kind requires no adapters, which made this generation and version.
fn changed(id: &str, generation: u64) -> Observed {
    let reconciled = json!({"type": "Reconciled", "status": "True", "observed_generation": generation});
    let resource = json!({"id": id, "generation": generation, "status": {"conditions": [reconciled]}});
    Observed::read(Arc::new(resource), Origin::Watch(generation), at(0)).unwrap()
}

/// What is published at that moment.
fn due(schedule: &mut Schedule, now: Timestamp) -> Vec<(String, u64)> {
    let due = std::iter::from_fn(|| schedule.take_due(now));
    due.map(|publication| (publication.observed.id.to_string(), publication.observed.generation)).collect()
}

fn publication(id: &str, generation: u64) -> (String, u64) {
    (id.to_owned(), generation)
}

#[test]
fn the_buffer_is_scanned_only_for_a_range_that_is_taken_over() {
    let range = |id: &str| Ranges::NONE.with(range_of(id));
    let (ours, theirs) = ("0", "1");
    assert_ne!(range(ours), range(theirs));
    let mut schedule = Schedule::new(8, None);
    schedule.set_ranges(range(ours), Ranges::NONE, at(0));
    // Changes in owned ranges are not buffered.
    schedule.takeover.remember(changed(ours, 1), at(0));
    schedule.observe(changed(theirs, 1), at(0));
    schedule.set_ranges(range(ours), Ranges::NONE, at(1));
    assert!(due(&mut schedule, at(1)).is_empty());
    assert!(schedule.set_ranges(range(ours).and(range(theirs)), Ranges::NONE, at(2)));
    assert_eq!(due(&mut schedule, at(2)), [publication(theirs, 1)]);
    assert_eq!(schedule.takeover.changes.len(), 1);
}

#[test]
fn the_buffer_is_scanned_when_a_lost_range_returns() {
    for (held, standby) in [(Ranges::ALL, Ranges::NONE), (Ranges::NONE, Ranges::ALL)] {
        let mut schedule = Schedule::new(8, None);
        for now in [0, 10, 20] {
            schedule.set_ranges(held, standby, at(now));
            schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(now + 1));
            let id = format!("heard at {now}");
            schedule.observe(changed(&id, 1), at(now + 2));
            schedule.pause();
            schedule.set_ranges(held, standby, at(now + 3));
            assert_eq!(due(&mut schedule, at(now + 3)), [publication(&id, 1)]);
        }
    }
}

#[test]
fn the_buffer_keeps_only_the_latest_change_of_a_resource() {
    let mut schedule = Schedule::new(8, None);
    for generation in 1..=100 {
        schedule.observe(changed("a", generation), at(generation));
    }
    assert_eq!((schedule.takeover.changes.len(), schedule.takeover.positions.len()), (1, 1));
    schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(119));
    schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(119));
    assert_eq!(due(&mut schedule, at(119)), [publication("a", 100)]);
    assert!(schedule.takeover.changes.is_empty() && schedule.takeover.positions.is_empty());
}

#[test]
fn a_removed_resource_has_no_event_after_a_takeover() {
    let mut schedule = Schedule::new(8, None);
    schedule.observe(changed("gone", 1), at(0));
    schedule.observe(changed("there", 2), at(0));
    schedule.gone("gone", Some(3));
    schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(1));
    assert_eq!(due(&mut schedule, at(1)), [publication("there", 2)]);
}

#[test]
fn a_full_buffer_drops_and_counts_the_oldest_changes() {
    let mut schedule = Schedule::new(1, None);
    schedule.pause();
    for i in 0..CAPACITY + 2 {
        schedule.observe(changed(&i.to_string(), 1), at(0));
    }
    schedule.observe(changed("2", 2), at(0));
    assert_eq!((schedule.takeover.changes.len(), schedule.takeover.positions.len()), (CAPACITY, CAPACITY));
    assert_eq!((schedule.take_displaced(), schedule.take_displaced()), (2, 0));
    schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(1));
    assert_eq!(due(&mut schedule, at(1)), [publication("3", 1)]);
}

#[test]
fn changes_expire() {
    let mut buffer = TakeoverBuffer::default();
    let left = |buffer: &TakeoverBuffer| (buffer.changes.len(), buffer.positions.len());
    buffer.remember(changed("a", 1), at(1_000));
    buffer.remember(changed("b", 2), at(1_005));
    buffer.expire(at(1_019));
    assert_eq!(left(&buffer), (2, 2));
    buffer.expire(at(1_020));
    assert_eq!(left(&buffer), (1, 1));
    buffer.remember(changed("c", 3), at(1_021));
    buffer.expire(at(1_025));
    assert_eq!(buffer.take(Ranges::ALL), [changed("c", 3)]);
    assert_eq!(left(&buffer), (0, 0));
}
