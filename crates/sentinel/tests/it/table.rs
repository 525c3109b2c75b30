//! The table of decisions, case by case.

use std::sync::Arc;

use hyperfleet_sentinel::book::Book;
use hyperfleet_sentinel::decide::{Decision, Published, Reason, Skip, decide};
use hyperfleet_sentinel::ranges::Ranges;
use hyperfleet_sentinel::seen::{Learned, Reconciled, Seen};
use serde_json::json;

use crate::given::{Cluster, at};

const MINUTE: f64 = 60.0;

#[test]
fn a_created_resource_is_published_at_once() {
    let created = Cluster::new("a", at(0.0));
    assert_eq!(created.decide(None, at(0.0)), Decision::Publish(Reason::NewGeneration));
}

#[test]
fn a_new_generation_is_published_at_once_however_recent_the_last_event() {
    let cluster = Cluster::new("a", at(0.0));
    let published = cluster.published(Reason::NewGeneration, at(0.0));
    let patched = cluster.patched(at(0.1));
    assert_eq!(patched.decide(Some(&published), at(0.1)), Decision::Publish(Reason::NewGeneration));
}

#[test]
fn a_generation_that_was_never_published_is_even_when_it_is_reconciled_by_then() {
    let cluster = Cluster::new("a", at(0.0));
    let published = cluster.published(Reason::NewGeneration, at(0.0));
    let done = cluster.patched(at(1.0)).all_report(true, at(2.0));
    assert_eq!(done.decide(Some(&published), at(2.0)), Decision::Publish(Reason::NewGeneration));
}

#[test]
fn after_a_restart_a_resource_that_is_reconciled_at_its_generation_counts_as_published() {
    let done = Cluster::new("a", at(0.0)).all_report(true, at(1.0));
    assert_eq!(done.decide(None, at(2.0)), Decision::Rest(Skip::Reconciled));
}

#[test]
fn after_a_restart_a_resource_that_is_reconciled_at_an_older_generation_is_published() {
    let mut resource = Cluster::new("a", at(0.0)).all_report(true, at(1.0)).json();
    resource["generation"] = json!(2);
    let seen = Seen::read(Arc::new(resource), Learned::State(None), at(2.0)).unwrap();
    assert_eq!(decide(&seen, None, at(2.0)), Decision::Publish(Reason::NewGeneration));
}

#[test]
fn a_resource_without_conditions_counts_as_not_reconciled() {
    for conditions in [
        json!(null),
        json!([]),
        json!([{"type": "Reconciled", "status": "Unknown", "observed_generation": 1}]),
    ] {
        let resource = json!({"id": "a", "generation": 1, "status": {"conditions": conditions}});
        let seen = Seen::read(Arc::new(resource), Learned::State(None), at(0.0)).unwrap();
        assert_eq!(seen.reconciled, Reconciled::No);
        assert_eq!(decide(&seen, None, at(0.0)), Decision::Publish(Reason::NewGeneration));
    }
}

#[test]
fn an_unreconciled_resource_is_published_again_after_10_s_20_s_40_s_and_so_on_up_to_5_min() {
    let stuck = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let mut published = stuck.published(Reason::NewGeneration, at(0.0));
    let mut waits = Vec::new();
    for _ in 0..8 {
        let Decision::Wait { until, reason, skip } = stuck.decide(Some(&published), published.at) else {
            panic!()
        };
        assert_eq!((reason, skip), (Reason::NotReconciled, Skip::BackingOff));
        assert_eq!(stuck.decide(Some(&published), until), Decision::Publish(Reason::NotReconciled));
        waits.push((until.micros() - published.at.micros()) / 1_000_000);
        published = Published::of(&stuck.state(until), Some(&published), Reason::NotReconciled, until);
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn a_report_that_says_nothing_new_puts_the_repetition_off_and_keeps_its_back_off() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let published = Published { repeats: 2, ..stuck.published(Reason::NotReconciled, at(100.0)) };
    stuck.report(0, false, at(130.0));
    let expected = Decision::Wait { until: at(170.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(stuck.decide(Some(&published), at(135.0)), expected);
}

#[test]
fn a_report_from_the_future_puts_the_repetition_off_no_longer_than_one_from_now() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let published = stuck.published(Reason::NewGeneration, at(0.0));
    stuck.report(0, false, at(290.0));
    let expected = Decision::Wait { until: at(15.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(stuck.decide(Some(&published), at(5.0)), expected);
}

#[test]
fn a_report_that_altered_a_condition_is_published_at_once_and_at_most_once_a_second() {
    let mut cluster = Cluster::new("a", at(0.0));
    let published = cluster.published(Reason::NewGeneration, at(0.0));
    cluster.report(0, true, at(0.4));
    let expected = Decision::Wait { until: at(1.0), reason: Reason::InputsChanged, skip: Skip::Coalesced };
    assert_eq!(cluster.decide(Some(&published), at(0.4)), expected);
    assert_eq!(cluster.decide(Some(&published), at(1.0)), Decision::Publish(Reason::InputsChanged));
}

#[test]
fn a_change_starts_the_back_off_anew() {
    let mut cluster = Cluster::new("a", at(0.0));
    let published = Published { repeats: 5, ..cluster.published(Reason::NotReconciled, at(0.0)) };
    cluster.report(0, true, at(30.0));
    let again = Published::of(&cluster.state(at(30.0)), Some(&published), Reason::InputsChanged, at(30.0));
    let expected = Decision::Wait { until: at(40.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(cluster.decide(Some(&again), at(30.0)), expected);
}

#[test]
fn a_report_that_altered_data_only_is_known_by_the_change_itself() {
    let cluster = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let first = cluster.seen(Learned::Change(7), at(1.0));
    let published = Published::of(&first, None, Reason::NewGeneration, at(1.0));
    let after = |learned| {
        let mut seen = cluster.seen(learned, at(5.0));
        seen.follow(&first);
        decide(&seen, Some(&published), at(5.0))
    };
    assert_eq!(after(Learned::Change(9)), Decision::Publish(Reason::InputsChanged));
    assert!(matches!(after(Learned::Change(7)), Decision::Wait { .. }), "the same change again");
    assert!(matches!(after(Learned::State(Some(9))), Decision::Wait { .. }), "a look");
}

#[test]
fn a_change_of_labels_is_no_report() {
    let mut cluster = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let first = cluster.seen(Learned::Change(7), at(1.0));
    let published = Published::of(&first, None, Reason::NewGeneration, at(1.0));
    cluster.updated = at(4.0);
    let mut seen = cluster.seen(Learned::Change(9), at(5.0));
    seen.follow(&first);
    assert!(matches!(
        decide(&seen, Some(&published), at(5.0)),
        Decision::Wait { reason: Reason::NotReconciled, .. }
    ));
}

#[test]
fn a_reconciled_resource_is_published_when_unconfirmed_for_30_min_and_unpublished_for_30_min() {
    let done = Cluster::new("a", at(0.0)).all_report(true, at(0.0));
    assert_eq!(done.decide(None, at(30.0 * MINUTE - 1.0)), Decision::Rest(Skip::Reconciled));
    assert_eq!(done.decide(None, at(30.0 * MINUTE)), Decision::Publish(Reason::Stale));
    let published = done.published(Reason::Stale, at(30.0 * MINUTE));
    assert_eq!(done.decide(Some(&published), at(59.0 * MINUTE)), Decision::Rest(Skip::Reconciled));
    assert_eq!(done.decide(Some(&published), at(60.0 * MINUTE)), Decision::Publish(Reason::Stale));
    let confirmed = done.all_report(true, at(45.0 * MINUTE));
    assert_eq!(confirmed.decide(Some(&published), at(74.0 * MINUTE)), Decision::Rest(Skip::Reconciled));
}

#[test]
fn a_kind_without_required_adapters_is_never_stale() {
    let done = Cluster::without_adapters("a", at(0.0));
    assert_eq!(done.decide(None, at(90.0 * MINUTE)), Decision::Rest(Skip::NoRequiredAdapters));
}

#[test]
fn a_kind_without_required_adapters_is_published_when_a_change_is_seen_as_it_happens() {
    let done = Cluster::without_adapters("a", at(0.0));
    let change = done.seen(Learned::Change(3), at(0.0));
    assert_eq!(decide(&change, None, at(0.0)), Decision::Publish(Reason::NewGeneration));
    let published = Published::of(&change, None, Reason::NewGeneration, at(0.0));
    assert_eq!(decide(&change, Some(&published), at(1.0)), Decision::Rest(Skip::NoRequiredAdapters));
}

#[test]
fn an_event_says_who_it_is_about_and_whose_it_is() {
    let owner = json!({"id": "c", "kind": "Cluster", "href": "/api/hyperfleet/v1/clusters/c"});
    let resource = json!({"id": "n", "kind": "NodePool", "href": "/api/hyperfleet/v1/nodepools/n", "generation": 2,
                          "owner_references": owner, "spec": {"secret": 1}, "status": {"conditions": []}});
    let seen = Seen::read(Arc::new(resource), Learned::State(None), at(0.0)).unwrap();
    let expected = json!({"id": "n", "kind": "NodePool", "href": "/api/hyperfleet/v1/nodepools/n", "generation": 2,
                          "owner_references": owner});
    assert_eq!(seen.data(), expected);
    assert_eq!(seen.slim().data(), expected);
}

#[test]
fn a_new_owner_goes_on_with_the_back_off_of_the_old_one_where_all_adapters_have_answered() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(1.0));
    for time in [11.0, 31.0, 71.0] {
        stuck = stuck.all_report(false, at(time));
    }
    let mut book = book();
    assert_eq!(book.see(stuck.state(at(80.0)), at(80.0)), Some(Skip::BackingOff));
    assert_eq!(book.wake_at(), Some(at(151.0)));
    let publication = book.take_due(at(151.0)).unwrap();
    assert_eq!(publication.reason, Reason::NotReconciled);
    book.published(&publication, at(151.0));
    assert_eq!(book.wake_at(), Some(at(311.0)));
}

#[test]
fn a_new_owner_publishes_at_once_what_an_adapter_may_not_have_heard_of() {
    let known = Cluster::new("a", at(0.0)).all_report(false, at(1.0)).all_report(false, at(11.0));
    let mut silent = Cluster::new("a", at(0.0));
    silent.report(0, true, at(1.0));
    silent.report(0, true, at(31.0));
    let mut news = known.clone();
    news.report(0, true, at(12.0));
    for (cluster, next) in [(silent, 40.0), (news, 10.0), (known.patched(at(12.0)), 10.0)] {
        let mut book = book();
        assert_eq!(book.see(cluster.state(at(40.0)), at(40.0)), None);
        let publication = book.take_due(at(40.0)).unwrap();
        book.published(&publication, at(40.0));
        assert_eq!(
            book.wake_at(),
            Some(at(40.0 + next)),
            "the pace of the old one as far as reports show it"
        );
    }
}

#[test]
fn what_happens_after_a_hand_over_is_published_at_once() {
    let stuck = Cluster::new("a", at(0.0)).all_report(false, at(1.0)).all_report(false, at(31.0));
    let mut book = book();
    book.see(stuck.seen(Learned::State(Some(5)), at(32.0)), at(32.0));
    assert!(book.take_due(at(33.0)).is_none());
    let other_data = stuck.all_report(false, at(33.0));
    book.see(other_data.seen(Learned::Change(6), at(33.0)), at(33.0));
    assert_eq!(book.take_due(at(33.0)).unwrap().reason, Reason::InputsChanged);
}

/// A book that holds everything.
fn book() -> Book {
    let mut book = Book::new(8, None);
    book.hold(Ranges::ALL, Ranges::NONE, at(0.0));
    book
}

#[test]
fn a_reconciled_resource_takes_no_room() {
    let mut book = book();
    let cluster = Cluster::new("a", at(0.0));
    book.see(cluster.state(at(0.0)), at(0.0));
    let publication = book.take_due(at(0.0)).unwrap();
    book.published(&publication, at(0.0));
    assert_eq!(book.len(), 1);
    book.see(cluster.all_report(true, at(1.0)).state(at(1.0)), at(1.0));
    assert_eq!((book.len(), book.wake_at()), (0, None));
}

#[test]
fn a_stale_resource_that_was_published_is_remembered_for_30_min_and_then_forgotten() {
    let mut book = book();
    let cluster = Cluster::new("a", at(0.0)).all_report(true, at(0.0));
    book.see(cluster.state(at(2000.0)), at(2000.0));
    let publication = book.take_due(at(2000.0)).unwrap();
    assert_eq!(publication.reason, Reason::Stale);
    book.published(&publication, at(2000.0));
    assert_eq!(book.see(cluster.state(at(2030.0)), at(2030.0)), Some(Skip::Reconciled));
    assert!(book.take_due(at(2030.0)).is_none());
    assert_eq!(book.wake_at(), Some(at(3800.0)));
    assert!(book.take_due(at(3800.0)).is_none());
    assert!(book.is_empty());
}

#[test]
fn what_changes_while_its_event_is_on_its_way_is_published_afterwards() {
    let mut book = book();
    let cluster = Cluster::new("a", at(0.0));
    book.see(cluster.state(at(0.0)), at(0.0));
    let first = book.take_due(at(0.0)).unwrap();
    book.see(cluster.patched(at(0.1)).state(at(0.1)), at(0.1));
    assert!(book.take_due(at(0.1)).is_none(), "one event at a time for one resource");
    book.published(&first, at(0.2));
    assert_eq!(book.take_due(at(0.2)).unwrap().seen.generation, 2);
}

#[test]
fn while_publishing_fails_one_event_at_a_time_tries_and_afterwards_all_go() {
    let mut book = book();
    for i in 0..4 {
        book.see(Cluster::new(format!("{i}"), at(0.0)).state(at(0.0)), at(0.0));
    }
    let flying: Vec<_> = std::iter::from_fn(|| book.take_due(at(0.0))).collect();
    assert_eq!(flying.len(), 4);
    flying.iter().for_each(|publication| book.failed(publication, at(1.0), 0.0));
    assert!(book.take_due(at(1.4)).is_none());
    assert_eq!(book.wake_at(), Some(at(1.5)), "four failures of one outage count once");
    let probe = book.take_due(at(1.5)).unwrap();
    assert!(book.take_due(at(1.5)).is_none());
    book.failed(&probe, at(1.6), 0.0);
    assert_eq!(book.wake_at(), Some(at(2.6)));
    let probe = book.take_due(at(2.6)).unwrap();
    book.published(&probe, at(2.6));
    assert_eq!(std::iter::from_fn(|| book.take_due(at(3.0))).count(), 3);
}

#[test]
fn an_older_state_that_a_look_brings_late_changes_nothing() {
    let mut book = book();
    let cluster = Cluster::new("a", at(0.0));
    let old = cluster.seen(Learned::State(Some(5)), at(2.0));
    book.look_begins();
    book.see(cluster.seen(Learned::Change(5), at(0.0)), at(0.0));
    let publication = book.take_due(at(0.0)).unwrap();
    book.published(&publication, at(0.0));
    book.see(cluster.all_report(true, at(1.0)).seen(Learned::Change(6), at(1.0)), at(1.0));
    book.see(old, at(2.0));
    book.look_ends(true);
    assert!(book.is_empty());
    assert!(book.take_due(at(60.0)).is_none());
}

#[test]
fn what_a_look_does_not_find_is_not_repeated_any_more() {
    let mut book = book();
    book.see(Cluster::new("a", at(0.0)).state(at(0.0)), at(0.0));
    let publication = book.take_due(at(0.0)).unwrap();
    book.published(&publication, at(0.0));
    book.look_begins();
    book.look_ends(false);
    assert_eq!(book.len(), 1, "a look that failed tells nothing");
    book.look_begins();
    book.look_ends(true);
    assert!(book.take_due(at(60.0)).is_none());
}

#[test]
fn a_lost_range_is_forgotten_and_a_lapsed_one_waits() {
    let mut book = book();
    book.see(Cluster::new("a", at(0.0)).state(at(0.0)), at(0.0));
    book.pause();
    assert!(book.take_due(at(0.0)).is_none());
    assert_eq!(book.wake_at(), None);
    assert!(!book.hold(Ranges::ALL, Ranges::NONE, at(0.0)), "nothing is new");
    let publication = book.take_due(at(0.0)).unwrap();
    book.hold(Ranges::NONE, Ranges::NONE, at(0.0));
    book.published(&publication, at(0.0));
    assert!(book.is_empty());
    assert_eq!(book.see(Cluster::new("a", at(1.0)).state(at(1.0)), at(1.0)), Some(Skip::OtherReplica));
    assert!(book.hold(Ranges::ALL, Ranges::NONE, at(1.0)));
}

#[test]
fn whoever_gets_a_range_publishes_what_no_look_would_find_there_unless_it_is_long_ago() {
    let mut book = Book::new(8, None);
    let changed =
        |id: &str, version, now| Cluster::without_adapters(id, now).seen(Learned::Change(version), now);
    book.hold(Ranges::NONE, Ranges::NONE, at(0.0));
    assert_eq!(book.see(changed("old", 1, at(0.0)), at(0.0)), Some(Skip::OtherReplica));
    book.see(Cluster::new("a look finds it", at(1.0)).seen(Learned::Change(2), at(1.0)), at(1.0));
    book.hold(Ranges::NONE, Ranges::NONE, at(20.0));
    book.see(changed("young", 3, at(20.0)), at(20.0));
    assert!(book.take_due(at(20.0)).is_none() && book.is_empty());
    // While nobody knows whose the ranges are, nothing becomes old.
    book.pause();
    assert!(book.hold(Ranges::ALL, Ranges::NONE, at(90.0)));
    let publication = book.take_due(at(90.0)).unwrap();
    assert_eq!((&*publication.seen.id, publication.reason), ("young", Reason::NewGeneration));
    assert!(book.take_due(at(90.0)).is_none());
}

#[test]
fn one_that_stands_in_publishes_what_no_look_would_find_and_nothing_else() {
    let mut book = Book::new(8, None);
    book.see(Cluster::without_adapters("before", at(0.0)).seen(Learned::Change(1), at(0.0)), at(0.0));
    assert!(!book.hold(Ranges::NONE, Ranges::ALL, at(1.0)));
    book.see(Cluster::without_adapters("after", at(1.0)).seen(Learned::Change(2), at(1.0)), at(1.0));
    book.see(Cluster::new("a look finds it", at(1.0)).seen(Learned::Change(3), at(1.0)), at(1.0));
    let published: Vec<_> = std::iter::from_fn(|| book.take_due(at(1.0))).collect();
    assert_eq!(published.iter().map(|it| &*it.seen.id).collect::<Vec<_>>(), ["before", "after"]);
}

#[test]
fn an_event_that_nobody_else_may_know_of_stays_owed_when_its_range_is_lost() {
    let mut book = book();
    book.see(Cluster::without_adapters("a", at(0.0)).seen(Learned::Change(1), at(0.0)), at(0.0));
    book.see(Cluster::new("b", at(0.0)).seen(Learned::Change(2), at(0.0)), at(0.0));
    let publications: Vec<_> = std::iter::from_fn(|| book.take_due(at(0.0))).collect();
    assert_eq!(publications.len(), 2);
    book.hold(Ranges::NONE, Ranges::NONE, at(1.0));
    publications.iter().for_each(|publication| book.failed(publication, at(1.0), 0.0));
    let again = book.take_due(at(2.0)).unwrap();
    assert_eq!(&*again.seen.id, "a");
    book.published(&again, at(2.0));
    assert!(book.is_empty());
}
