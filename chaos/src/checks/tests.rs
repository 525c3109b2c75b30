//! A sound history passes, and each way to break one is found. The history: two clusters are created, `A` is incremented
//! twice, marked and labelled, `B` is deleted and goes; one write is refused and one is never answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::feed::{Change, Labels, Spec};
use crate::history::{
    Action, Beginning, Event, EventKind, Operation, OperationId, Outcome, Read, Report, Reported, Stream,
    Tone, View, Walk, Watch,
};

const A: Uuid = Uuid::from_u128(1);
const B: Uuid = Uuid::from_u128(2);

/// The versions of the sound feed.
const CREATED: usize = 0;
const INCREMENTED: usize = 3;
const MARKED: usize = 4;
const REQUESTED: usize = 6;

fn id(number: u32) -> OperationId {
    OperationId { client: 1, number }
}

/// An operation that took from ten times its number on nine microseconds.
fn operation(number: u32, action: Action, resource: Uuid, outcome: Outcome) -> Operation {
    let started = u64::from(number) * 10;
    Operation { id: id(number), action, resource: Some(resource), started, ended: started + 9, outcome }
}

fn acknowledged(version: u64) -> Outcome {
    Outcome::Acknowledged { version: Some(version) }
}

/// Changes, each made of the last one of its resource.
#[derive(Default)]
struct Feed {
    changes: Vec<Change>,
    /// An operation that is lost.
    lost: Option<u32>,
}

impl Feed {
    fn add(&mut self, resource: Uuid, kind: EventKind, change: impl FnOnce(&mut Change)) {
        let version = self.changes.len() as u64 + 1;
        let before = self.changes.iter().rfind(|before| before.resource == resource).cloned();
        let mut next = before.unwrap_or(Change {
            version,
            kind,
            resource,
            owner: None,
            is_node_pool: false,
            generation: 1,
            is_finalizing: false,
            is_reconciled: true,
            spec: Arc::default(),
            labels: Labels::default(),
            digest: 0,
        });
        (next.version, next.kind, next.digest) = (version, kind, version * 100);
        change(&mut next);
        self.changes.push(next);
    }

    /// Changes the spec by an operation.
    fn respecify(&mut self, kind: EventKind, resource: Uuid, by: u32, change: impl FnOnce(&mut Spec)) {
        if self.lost == Some(by) {
            return;
        }
        self.add(resource, kind, |next| {
            let mut spec = Spec { by: Some(id(by)), ..Spec::clone(&next.spec) };
            change(&mut spec);
            next.generation += u64::from(kind == EventKind::Modified);
            next.spec = Arc::new(spec);
        });
    }
}

/// What a watch of a view must have received after a version.
fn watch(feed: &[Change], view: View, since: u64) -> Watch {
    let mut shown = BTreeMap::new();
    let mut events = Vec::new();
    for change in feed {
        let was_shown = shown.remove(&change.resource).is_some();
        if change.is_shown(view) {
            shown.insert(change.resource, change.digest);
        }
        let kind = match (was_shown, change.is_shown(view)) {
            (false, false) => continue,
            (false, true) => EventKind::Added,
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Deleted,
        };
        if change.version > since {
            events.push(Event { version: change.version, kind, digest: change.digest });
        }
    }
    Watch { view, beginning: Beginning::After(since), events, upto: feed.len() as u64 }
}

fn sound() -> Evidence {
    history_without(None)
}

/// The sound history, but for one operation that has left no trace.
fn history_without(lost: Option<u32>) -> Evidence {
    use EventKind::{Added, Deleted, Modified};
    let mut feed = Feed { lost, ..Feed::default() };
    feed.respecify(Added, A, 1, |_| {});
    feed.respecify(Added, B, 2, |_| {});
    feed.respecify(Modified, A, 3, |spec| spec.count = 1);
    feed.respecify(Modified, A, 4, |spec| spec.count = 2);
    feed.respecify(Modified, A, 5, |spec| spec.marks.extend([(1, 5)]));
    feed.add(A, Modified, |next| next.labels = Labels { by: Some(id(6)), tone: Some(Tone::Red) });
    feed.add(B, Modified, |next| (next.is_finalizing, next.generation) = (true, 2));
    feed.add(B, Deleted, |_| {});
    // Never answered, and executed.
    feed.respecify(Modified, A, 9, |spec| spec.count = 3);
    let feed = feed.changes;

    let operations = vec![
        operation(1, Action::Create, A, acknowledged(1)),
        operation(2, Action::Create, B, acknowledged(2)),
        operation(3, Action::Increment { to: 1 }, A, acknowledged(3)),
        operation(4, Action::Increment { to: 2 }, A, acknowledged(4)),
        operation(5, Action::Mark, A, acknowledged(5)),
        operation(6, Action::Label(Tone::Red), A, acknowledged(6)),
        operation(7, Action::Delete, B, acknowledged(7)),
        operation(8, Action::Increment { to: 2 }, A, Outcome::Refused),
        operation(9, Action::Increment { to: 3 }, A, Outcome::Unknown),
    ];
    let mut watches: Vec<Watch> =
        [View::Everything, View::Active, View::Red, View::NodePools].map(|view| watch(&feed, view, 0)).into();
    let mut joined = watch(&feed, View::Everything, 2);
    joined.beginning = Beginning::Present { objects: vec![(B, 200), (A, 100)], bookmark: 2 };
    watches.push(joined);
    let report = |number, outcome| Report { stream: 0, number, outcome };
    let history = History {
        operations,
        keys: vec![(id(1), A), (id(1), A), (id(2), B)],
        streams: vec![Stream { adapter: "chaos".to_owned(), resource: A, is_timed: true }],
        reports: vec![report(1, Reported::Stored), report(2, Reported::Unknown), report(3, Reported::Stored)],
        walks: vec![
            Walk { started: 30, ended: 40, ids: vec![A, B] },
            Walk { started: 80, ended: 90, ids: vec![A] },
        ],
        reads: vec![Read { started: 30, ended: 31, version: 2 }],
        watches,
        ..History::default()
    };
    let states = vec![BTreeMap::from([(A, 900)]); 3];
    Evidence {
        base: 0,
        feed,
        history,
        states,
        stored: vec![StoredReports { last: Some(3), timeline: vec![1, 3] }],
    }
}

fn findings(evidence: &Evidence) -> Findings {
    let mut findings = Findings::default();
    check(evidence, &mut findings);
    findings
}

/// Breaks the sound history and expects to be told so by this check, in these words.
#[track_caller]
fn finds(check: Check, words: &str, damage: impl FnOnce(&mut Evidence)) {
    let mut evidence = sound();
    damage(&mut evidence);
    let findings = findings(&evidence);
    let found = findings.violations.iter().any(|(found, what)| *found == check && what.contains(words));
    assert!(found, "{:#?}", findings.violations);
}

#[test]
fn a_sound_history_passes() {
    let findings = findings(&sound());
    assert!(findings.violations.is_empty(), "{:#?}", findings.violations);
}

#[test]
fn an_unknown_write_may_be_missing() {
    let mut evidence = sound();
    evidence.feed.pop();
    evidence.history.watches.clear();
    evidence.states = vec![BTreeMap::from([(A, 600)])];
    let findings = findings(&evidence);
    assert!(findings.violations.is_empty(), "{:#?}", findings.violations);
}

#[test]
fn a_lost_write_is_found() {
    finds(Check::Writes, "c1-5 Mark is acknowledged, and not in the feed", |evidence| {
        *evidence = history_without(Some(5));
    });
    finds(Check::Writes, "c1-3 Increment { to: 1 } is acknowledged, and not in the feed", |evidence| {
        *evidence = history_without(Some(3));
    });
    finds(Check::Writes, "c1-7 Delete is acknowledged, and not in the feed", |evidence| {
        evidence.feed.truncate(REQUESTED);
    });
    finds(Check::Writes, "was told version 4, and is at 5", |evidence| {
        evidence.feed.swap(INCREMENTED, MARKED);
        evidence.feed[INCREMENTED].version = 4;
        evidence.feed[MARKED].version = 5;
    });
}

#[test]
fn a_write_that_nobody_made_is_found() {
    finds(Check::Writes, "c1-8 Increment { to: 2 } was refused, and is at version 5", |evidence| {
        let spec = Arc::make_mut(&mut evidence.feed[MARKED].spec);
        spec.by = Some(id(8));
    });
    finds(Check::Writes, "no operation explains it", |evidence| {
        Arc::make_mut(&mut evidence.feed[MARKED].spec).by = Some(id(77));
    });
    finds(Check::Writes, "nobody requested its deletion", |evidence| {
        evidence.history.operations.retain(|operation| operation.action != Action::Delete);
    });
    finds(Check::Writes, "c1-3 was executed at version 3 before", |evidence| {
        Arc::make_mut(&mut evidence.feed[MARKED].spec).by = Some(id(3));
    });
}

#[test]
fn a_lost_update_is_found() {
    // Two writers read the same count, and both were acknowledged.
    finds(Check::Updates, "c1-4 set 2 on top of 0", |evidence| *evidence = history_without(Some(3)));
    finds(Check::Updates, "c1-4 set 1 on top of 1", |evidence| {
        evidence.history.operations[3].action = Action::Increment { to: 1 };
        Arc::make_mut(&mut evidence.feed[INCREMENTED].spec).count = 1;
    });
    // A write without If-Match took somebody else's with it.
    finds(Check::Updates, "c1-5 made", |evidence| Arc::make_mut(&mut evidence.feed[MARKED].spec).count = 1);
    finds(Check::Updates, "c1-6 made", |evidence| evidence.feed[5].labels.tone = Some(Tone::Blue));
}

#[test]
fn a_key_executed_twice_is_found() {
    finds(Check::Keys, "c1-1 was executed at version 1 before", |evidence| {
        let again = Change { version: 10, resource: Uuid::from_u128(3), ..evidence.feed[CREATED].clone() };
        evidence.feed.push(again);
    });
    finds(Check::Keys, "was answered with", |evidence| evidence.history.keys[1].1 = B);
}

#[test]
fn versions_against_the_order_of_acknowledgements_are_found() {
    finds(Check::Order, "c1-5 at version 5 began after c1-6 at version 6", |evidence| {
        let (earlier, later) = (evidence.history.operations[4], evidence.history.operations[5]);
        evidence.history.operations[5].started = earlier.started;
        evidence.history.operations[5].ended = earlier.started + 1;
        evidence.history.operations[4].started = later.started;
    });
    // A list that does not show what was acknowledged before it.
    finds(Check::Order, "a list at version 2 began after c1-3 at version 3", |evidence| {
        evidence.history.reads[0].started = 41;
    });
}

#[test]
fn an_event_that_comes_twice_is_found() {
    finds(Check::Watches, "came again", |evidence| {
        let events = &mut evidence.history.watches[0].events;
        events.insert(4, events[3]);
    });
}

#[test]
fn a_skipped_event_is_found() {
    finds(Check::Watches, "version: 4, kind: Modified, digest: 400 } was skipped after 3", |evidence| {
        evidence.history.watches[0].events.remove(3);
    });
    finds(Check::Watches, "was skipped", |evidence| evidence.history.watches[2].events.clear());
}

#[test]
fn events_out_of_order_and_other_events_are_found() {
    finds(Check::Watches, "was skipped", |evidence| evidence.history.watches[0].events.swap(2, 3));
    finds(Check::Watches, "came instead of", |evidence| evidence.history.watches[1].events[2].digest = 1);
    finds(Check::Watches, "came instead of", |evidence| {
        evidence.history.watches[1].events[2].kind = EventKind::Added;
    });
}

#[test]
fn a_wrong_present_state_is_found() {
    finds(Check::Watches, "the present state at 2 has 1 objects instead of 2", |evidence| {
        let objects = vec![(A, 100)];
        evidence.history.watches[4].beginning = Beginning::Present { objects, bookmark: 2 };
    });
}

#[test]
fn lost_and_repeated_reports_are_found() {
    finds(Check::Reports, "report 3 was stored, and is lost", |evidence| {
        evidence.stored[0] = StoredReports { last: Some(1), timeline: vec![1] };
    });
    finds(Check::Reports, "report 1 is in the timeline twice", |evidence| {
        evidence.stored[0].timeline = vec![1, 1, 3];
    });
    finds(Check::Reports, "an older report was stored over a newer one", |evidence| {
        evidence.stored[0] = StoredReports { last: Some(2), timeline: vec![1, 3, 2] };
    });
    finds(Check::Reports, "report 3 is newer than all before it, and was discarded", |evidence| {
        evidence.history.reports[2].outcome = Reported::Discarded;
    });
    finds(Check::Reports, "report Some(1) is stored, but the last in the timeline is Some(3)", |evidence| {
        evidence.stored[0].last = Some(1);
    });
}

#[test]
fn walks_that_lack_repeat_or_invent_a_resource_are_found() {
    finds(Check::Walks, "lacks", |evidence| evidence.history.walks[0].ids = vec![B]);
    finds(Check::Walks, "of 3 resources has 1 twice", |evidence| evidence.history.walks[0].ids.push(A));
    finds(Check::Walks, "which was not there", |evidence| evidence.history.walks[1].ids.push(B));
}

#[test]
fn a_replica_that_shows_another_state_is_found() {
    finds(Check::States, "replica 1", |evidence| evidence.states[1].extend([(A, 899)]));
    finds(Check::States, "replica 2", |evidence| evidence.states[2].clear());
}

#[test]
fn a_deletion_that_does_not_end_is_found() {
    finds(Check::Deletions, "is still finalizing", |evidence| evidence.feed.truncate(REQUESTED + 1));
    finds(Check::Deletions, "is still not reconciled", |evidence| {
        evidence.feed.last_mut().unwrap().is_reconciled = false;
    });
}

#[test]
fn an_unlawful_feed_is_found() {
    finds(Check::Feed, "version 6 follows 4", |evidence| drop(evidence.feed.remove(MARKED)));
    finds(Check::Feed, "version 2 follows 0", |evidence| drop(evidence.feed.remove(CREATED)));
    finds(Check::Feed, "Modified after Some(Deleted)", |evidence| {
        evidence.feed.push(Change { version: 10, kind: EventKind::Modified, ..evidence.feed[7].clone() });
    });
    finds(Check::Feed, "it is gone, and nobody requested it", |evidence| {
        drop(evidence.feed.remove(REQUESTED));
    });
    finds(Check::Feed, "generation 1 became 3, not 2", |evidence| evidence.feed[2].generation = 3);
    finds(Check::Feed, "its deletion was taken back", |evidence| {
        evidence.feed[7].kind = EventKind::Modified;
        evidence.feed[7].is_finalizing = false;
    });
}

#[test]
fn what_came_with_a_backup_is_taken_as_it_is() {
    let mut evidence = sound();
    evidence.base = 2;
    evidence.history.operations.drain(..2);
    evidence.history.keys.clear();
    let findings = findings(&evidence);
    assert!(findings.violations.is_empty(), "{:#?}", findings.violations);
}
