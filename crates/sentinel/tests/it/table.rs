//! The table of decisions, case by case.

use std::sync::Arc;

use hyperfleet_sentinel::decide::{Decision, Published, Reason, Skip, decide};
use hyperfleet_sentinel::observed::{Observed, Origin, Reconciled};
use hyperfleet_sentinel::ranges::Ranges;
use hyperfleet_sentinel::schedule::Schedule;
use serde_json::json;

use crate::fixtures::{Cluster, at};

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
fn an_unpublished_generation_is_published_even_if_it_is_reconciled() {
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
    let observed = Observed::read(Arc::new(resource), Origin::List(None), at(2.0)).unwrap();
    assert_eq!(decide(&observed, None, at(2.0)), Decision::Publish(Reason::NewGeneration));
}

#[test]
fn a_resource_without_conditions_counts_as_not_reconciled() {
    for conditions in [
        json!(null),
        json!([]),
        json!([{"type": "Reconciled", "status": "Unknown", "observed_generation": 1}]),
    ] {
        let resource = json!({"id": "a", "generation": 1, "status": {"conditions": conditions}});
        let observed = Observed::read(Arc::new(resource), Origin::List(None), at(0.0)).unwrap();
        assert_eq!(observed.reconciled, Reconciled::No);
        assert_eq!(decide(&observed, None, at(0.0)), Decision::Publish(Reason::NewGeneration));
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
fn a_report_without_changes_postpones_the_repetition_and_keeps_its_back_off() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let published = Published { repeats: 2, ..stuck.published(Reason::NotReconciled, at(100.0)) };
    stuck.report(0, false, at(130.0));
    let expected = Decision::Wait { until: at(170.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(stuck.decide(Some(&published), at(135.0)), expected);
}

#[test]
fn a_report_from_the_future_postpones_the_repetition_no_longer_than_one_from_now() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let published = stuck.published(Reason::NewGeneration, at(0.0));
    stuck.report(0, false, at(290.0));
    let expected = Decision::Wait { until: at(15.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(stuck.decide(Some(&published), at(5.0)), expected);
}

#[test]
fn a_report_that_changed_a_condition_is_published_at_once_and_at_most_once_a_second() {
    let mut cluster = Cluster::new("a", at(0.0));
    let published = cluster.published(Reason::NewGeneration, at(0.0));
    cluster.report(0, true, at(0.4));
    let expected = Decision::Wait { until: at(1.0), reason: Reason::InputsChanged, skip: Skip::Coalesced };
    assert_eq!(cluster.decide(Some(&published), at(0.4)), expected);
    assert_eq!(cluster.decide(Some(&published), at(1.0)), Decision::Publish(Reason::InputsChanged));
}

#[test]
fn a_change_resets_the_back_off() {
    let mut cluster = Cluster::new("a", at(0.0));
    let published = Published { repeats: 5, ..cluster.published(Reason::NotReconciled, at(0.0)) };
    cluster.report(0, true, at(30.0));
    let again = Published::of(&cluster.state(at(30.0)), Some(&published), Reason::InputsChanged, at(30.0));
    let expected = Decision::Wait { until: at(40.0), reason: Reason::NotReconciled, skip: Skip::BackingOff };
    assert_eq!(cluster.decide(Some(&again), at(30.0)), expected);
}

#[test]
fn a_report_that_changed_only_data_is_recognised_by_its_watch_event() {
    let cluster = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let first = cluster.observed(Origin::Watch(7), at(1.0));
    let published = Published::of(&first, None, Reason::NewGeneration, at(1.0));
    let after = |origin| {
        let mut observed = cluster.observed(origin, at(5.0));
        observed.follow(&first);
        decide(&observed, Some(&published), at(5.0))
    };
    assert_eq!(after(Origin::Watch(9)), Decision::Publish(Reason::InputsChanged));
    assert!(matches!(after(Origin::Watch(7)), Decision::Wait { .. }), "the same change again");
    assert!(matches!(after(Origin::List(Some(9))), Decision::Wait { .. }), "a list");
}

#[test]
fn a_change_of_labels_is_no_report() {
    let mut cluster = Cluster::new("a", at(0.0)).all_report(false, at(0.0));
    let first = cluster.observed(Origin::Watch(7), at(1.0));
    let published = Published::of(&first, None, Reason::NewGeneration, at(1.0));
    cluster.updated = at(4.0);
    let mut observed = cluster.observed(Origin::Watch(9), at(5.0));
    observed.follow(&first);
    assert!(matches!(
        decide(&observed, Some(&published), at(5.0)),
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
fn a_kind_without_required_adapters_is_published_when_the_watch_shows_a_change() {
    let done = Cluster::without_adapters("a", at(0.0));
    let change = done.observed(Origin::Watch(3), at(0.0));
    assert_eq!(decide(&change, None, at(0.0)), Decision::Publish(Reason::NewGeneration));
    let published = Published::of(&change, None, Reason::NewGeneration, at(0.0));
    assert_eq!(decide(&change, Some(&published), at(1.0)), Decision::Rest(Skip::NoRequiredAdapters));
}

#[test]
fn an_event_names_its_resource_and_the_owner() {
    let owner = json!({"id": "c", "kind": "Cluster", "href": "/api/hyperfleet/v1/clusters/c"});
    let resource = json!({"id": "n", "kind": "NodePool", "href": "/api/hyperfleet/v1/nodepools/n", "generation": 2,
                          "owner_references": owner, "spec": {"secret": 1}, "status": {"conditions": []}});
    let observed = Observed::read(Arc::new(resource), Origin::List(None), at(0.0)).unwrap();
    let expected = json!({"id": "n", "kind": "NodePool", "href": "/api/hyperfleet/v1/nodepools/n", "generation": 2,
                          "owner_references": owner});
    assert_eq!(observed.data(), expected);
    assert_eq!(observed.slim().data(), expected);
}

#[test]
fn a_new_owner_continues_the_back_off_if_all_adapters_have_answered() {
    let mut stuck = Cluster::new("a", at(0.0)).all_report(false, at(1.0));
    for time in [11.0, 31.0, 71.0] {
        stuck = stuck.all_report(false, at(time));
    }
    let mut schedule = schedule();
    assert_eq!(schedule.observe(stuck.state(at(80.0)), at(80.0)), Some(Skip::BackingOff));
    assert_eq!(schedule.wake_at(), Some(at(151.0)));
    let publication = schedule.take_due(at(151.0)).unwrap();
    assert_eq!(publication.reason, Reason::NotReconciled);
    schedule.published(&publication, at(151.0));
    assert_eq!(schedule.wake_at(), Some(at(311.0)));
}

#[test]
fn a_new_owner_publishes_at_once_if_an_adapter_may_have_missed_the_event() {
    let known = Cluster::new("a", at(0.0)).all_report(false, at(1.0)).all_report(false, at(11.0));
    let mut silent = Cluster::new("a", at(0.0));
    silent.report(0, true, at(1.0));
    silent.report(0, true, at(31.0));
    let mut news = known.clone();
    news.report(0, true, at(12.0));
    for (cluster, next) in [(silent, 40.0), (news, 10.0), (known.patched(at(12.0)), 10.0)] {
        let mut schedule = schedule();
        assert_eq!(schedule.observe(cluster.state(at(40.0)), at(40.0)), None);
        let publication = schedule.take_due(at(40.0)).unwrap();
        schedule.published(&publication, at(40.0));
        assert_eq!(
            schedule.wake_at(),
            Some(at(40.0 + next)),
            "the pace of the old one as far as reports show it"
        );
    }
}

#[test]
fn changes_after_a_takeover_are_published_at_once() {
    let stuck = Cluster::new("a", at(0.0)).all_report(false, at(1.0)).all_report(false, at(31.0));
    let mut schedule = schedule();
    schedule.observe(stuck.observed(Origin::List(Some(5)), at(32.0)), at(32.0));
    assert!(schedule.take_due(at(33.0)).is_none());
    let other_data = stuck.all_report(false, at(33.0));
    schedule.observe(other_data.observed(Origin::Watch(6), at(33.0)), at(33.0));
    assert_eq!(schedule.take_due(at(33.0)).unwrap().reason, Reason::InputsChanged);
}

/// A schedule that owns every range.
fn schedule() -> Schedule {
    let mut schedule = Schedule::new(8, None);
    schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(0.0));
    schedule
}

#[test]
fn a_reconciled_resource_is_not_kept() {
    let mut schedule = schedule();
    let cluster = Cluster::new("a", at(0.0));
    schedule.observe(cluster.state(at(0.0)), at(0.0));
    let publication = schedule.take_due(at(0.0)).unwrap();
    schedule.published(&publication, at(0.0));
    assert_eq!(schedule.len(), 1);
    schedule.observe(cluster.all_report(true, at(1.0)).state(at(1.0)), at(1.0));
    assert_eq!((schedule.len(), schedule.wake_at()), (0, None));
}

#[test]
fn a_published_stale_resource_is_kept_for_30_min() {
    let mut schedule = schedule();
    let cluster = Cluster::new("a", at(0.0)).all_report(true, at(0.0));
    schedule.observe(cluster.state(at(2000.0)), at(2000.0));
    let publication = schedule.take_due(at(2000.0)).unwrap();
    assert_eq!(publication.reason, Reason::Stale);
    schedule.published(&publication, at(2000.0));
    assert_eq!(schedule.observe(cluster.state(at(2030.0)), at(2030.0)), Some(Skip::Reconciled));
    assert!(schedule.take_due(at(2030.0)).is_none());
    assert_eq!(schedule.wake_at(), Some(at(3800.0)));
    assert!(schedule.take_due(at(3800.0)).is_none());
    assert!(schedule.is_empty());
}

#[test]
fn a_change_during_a_publish_is_published_afterwards() {
    let mut schedule = schedule();
    let cluster = Cluster::new("a", at(0.0));
    schedule.observe(cluster.state(at(0.0)), at(0.0));
    let first = schedule.take_due(at(0.0)).unwrap();
    schedule.observe(cluster.patched(at(0.1)).state(at(0.1)), at(0.1));
    assert!(schedule.take_due(at(0.1)).is_none(), "one event at a time for one resource");
    schedule.published(&first, at(0.2));
    assert_eq!(schedule.take_due(at(0.2)).unwrap().observed.generation, 2);
}

#[test]
fn during_an_outage_one_event_at_a_time_is_tried_and_afterwards_all_are_published() {
    let mut schedule = schedule();
    for i in 0..4 {
        schedule.observe(Cluster::new(format!("{i}"), at(0.0)).state(at(0.0)), at(0.0));
    }
    let flying: Vec<_> = std::iter::from_fn(|| schedule.take_due(at(0.0))).collect();
    assert_eq!(flying.len(), 4);
    flying.iter().for_each(|publication| schedule.failed(publication, at(1.0), 0.0));
    assert!(schedule.take_due(at(1.4)).is_none());
    assert_eq!(schedule.wake_at(), Some(at(1.5)), "four failures of one outage count once");
    let probe = schedule.take_due(at(1.5)).unwrap();
    assert!(schedule.take_due(at(1.5)).is_none());
    schedule.failed(&probe, at(1.6), 0.0);
    assert_eq!(schedule.wake_at(), Some(at(2.6)));
    let probe = schedule.take_due(at(2.6)).unwrap();
    schedule.published(&probe, at(2.6));
    assert_eq!(std::iter::from_fn(|| schedule.take_due(at(3.0))).count(), 3);
}

#[test]
fn an_older_state_from_a_resync_is_ignored() {
    let mut schedule = schedule();
    let cluster = Cluster::new("a", at(0.0));
    let old = cluster.observed(Origin::List(Some(5)), at(2.0));
    schedule.resync_begins();
    schedule.observe(cluster.observed(Origin::Watch(5), at(0.0)), at(0.0));
    let publication = schedule.take_due(at(0.0)).unwrap();
    schedule.published(&publication, at(0.0));
    schedule.observe(cluster.all_report(true, at(1.0)).observed(Origin::Watch(6), at(1.0)), at(1.0));
    schedule.observe(old, at(2.0));
    schedule.resync_ends(true);
    assert!(schedule.is_empty());
    assert!(schedule.take_due(at(60.0)).is_none());
}

#[test]
fn after_a_restore_an_earlier_version_and_generation_is_observed_and_published() {
    let mut schedule = schedule();
    let cluster = Cluster::new("a", at(0.0));
    let lost = cluster.clone().patched(at(1.0));
    schedule.observe(lost.observed(Origin::Watch(9), at(1.0)), at(1.0));
    let publication = schedule.take_due(at(1.0)).unwrap();
    schedule.published(&publication, at(1.0));
    schedule.observe(cluster.observed(Origin::List(Some(5)), at(2.0)), at(2.0));
    assert!(schedule.take_due(at(2.0)).is_none(), "it is older");
    schedule.history_ended();
    schedule.observe(cluster.observed(Origin::List(Some(5)), at(3.0)), at(3.0));
    assert_eq!(schedule.take_due(at(3.0)).unwrap().observed.generation, 1);
}

#[test]
fn a_resource_that_a_resync_does_not_find_is_no_longer_repeated() {
    let mut schedule = schedule();
    schedule.observe(Cluster::new("a", at(0.0)).state(at(0.0)), at(0.0));
    let publication = schedule.take_due(at(0.0)).unwrap();
    schedule.published(&publication, at(0.0));
    schedule.resync_begins();
    schedule.resync_ends(false);
    assert_eq!(schedule.len(), 1, "a failed resync removes nothing");
    schedule.resync_begins();
    schedule.resync_ends(true);
    assert!(schedule.take_due(at(60.0)).is_none());
}

#[test]
fn lost_ranges_are_dropped_and_lapsed_ones_wait() {
    let mut schedule = schedule();
    schedule.observe(Cluster::new("a", at(0.0)).state(at(0.0)), at(0.0));
    schedule.pause();
    assert!(schedule.take_due(at(0.0)).is_none());
    assert_eq!(schedule.wake_at(), None);
    assert!(!schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(0.0)), "nothing is new");
    let publication = schedule.take_due(at(0.0)).unwrap();
    schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(0.0));
    schedule.published(&publication, at(0.0));
    assert!(schedule.is_empty());
    assert_eq!(
        schedule.observe(Cluster::new("a", at(1.0)).state(at(1.0)), at(1.0)),
        Some(Skip::OtherReplica)
    );
    assert!(schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(1.0)));
}

#[test]
fn a_new_owner_publishes_recent_changes_that_no_resync_would_find() {
    let mut schedule = Schedule::new(8, None);
    let changed =
        |id: &str, version, now| Cluster::without_adapters(id, now).observed(Origin::Watch(version), now);
    schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(0.0));
    assert_eq!(schedule.observe(changed("old", 1, at(0.0)), at(0.0)), Some(Skip::OtherReplica));
    schedule.observe(Cluster::new("a look finds it", at(1.0)).observed(Origin::Watch(2), at(1.0)), at(1.0));
    schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(20.0));
    schedule.observe(changed("young", 3, at(20.0)), at(20.0));
    assert!(schedule.take_due(at(20.0)).is_none() && schedule.is_empty());
    // While ownership has lapsed, nothing expires.
    schedule.pause();
    assert!(schedule.set_ranges(Ranges::ALL, Ranges::NONE, at(90.0)));
    let publication = schedule.take_due(at(90.0)).unwrap();
    assert_eq!((&*publication.observed.id, publication.reason), ("young", Reason::NewGeneration));
    assert!(schedule.take_due(at(90.0)).is_none());
}

#[test]
fn a_standby_publishes_only_changes_that_no_resync_would_find() {
    let mut schedule = Schedule::new(8, None);
    schedule
        .observe(Cluster::without_adapters("before", at(0.0)).observed(Origin::Watch(1), at(0.0)), at(0.0));
    assert!(!schedule.set_ranges(Ranges::NONE, Ranges::ALL, at(1.0)));
    schedule
        .observe(Cluster::without_adapters("after", at(1.0)).observed(Origin::Watch(2), at(1.0)), at(1.0));
    schedule.observe(Cluster::new("a look finds it", at(1.0)).observed(Origin::Watch(3), at(1.0)), at(1.0));
    let published: Vec<_> = std::iter::from_fn(|| schedule.take_due(at(1.0))).collect();
    assert_eq!(published.iter().map(|it| &*it.observed.id).collect::<Vec<_>>(), ["before", "after"]);
}

#[test]
fn an_event_that_no_other_replica_may_know_stays_due_when_its_range_is_lost() {
    let mut schedule = schedule();
    schedule.observe(Cluster::without_adapters("a", at(0.0)).observed(Origin::Watch(1), at(0.0)), at(0.0));
    schedule.observe(Cluster::new("b", at(0.0)).observed(Origin::Watch(2), at(0.0)), at(0.0));
    let publications: Vec<_> = std::iter::from_fn(|| schedule.take_due(at(0.0))).collect();
    assert_eq!(publications.len(), 2);
    schedule.set_ranges(Ranges::NONE, Ranges::NONE, at(1.0));
    publications.iter().for_each(|publication| schedule.failed(publication, at(1.0), 0.0));
    let again = schedule.take_due(at(2.0)).unwrap();
    assert_eq!(&*again.observed.id, "a");
    schedule.published(&again, at(2.0));
    assert!(schedule.is_empty());
}
