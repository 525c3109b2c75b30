//! The owned ranges over time.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::later;
use hyperfleet_sentinel::membership::{Membership, Ownership, RENEW_INTERVAL, TTL};
use hyperfleet_sentinel::ranges::{COUNT, Ranges};

use crate::fixtures::at;

/// Renews and lists at a moment, with answers that take no time.
fn renew(membership: &mut Membership, others: &[&str], now: Timestamp) {
    membership.granted(now, now);
    let me = membership.me().to_owned();
    membership.listed(others.iter().copied().chain([me.as_str()]), now, now);
}

fn held(membership: &Membership, now: Timestamp) -> Ranges {
    match membership.ownership(now) {
        Ownership::Owns(ranges) => ranges,
        Ownership::Lapsed => Ranges::NONE,
    }
}

#[test]
fn a_single_replica_owns_every_range_at_once() {
    let mut one = Membership::new("one");
    assert_eq!((held(&one, at(0.0)), one.uncovered(at(0.0))), (Ranges::NONE, COUNT));
    renew(&mut one, &[], at(0.0));
    assert_eq!((held(&one, at(0.0)), one.uncovered(at(0.0))), (Ranges::ALL, 0));
}

#[test]
fn a_new_replica_begins_when_every_list_without_it_has_expired() {
    let (mut old, mut new) = (Membership::new("old"), Membership::new("new"));
    renew(&mut old, &[], at(0.0));
    renew(&mut new, &["old"], at(1.0));
    assert!(held(&new, at(6.9)).is_empty() && new.uncovered(at(1.0)) > 0);
    assert_eq!(new.next_renewal(at(4.0), true, at(4.0)), at(7.0), "it resyncs again when it may begin");

    renew(&mut old, &["new"], at(3.0));
    assert_eq!(held(&old, at(5.9)), Ranges::ALL, "what a list gave is held until it ends");
    let kept = held(&old, at(6.0));
    renew(&mut new, &["old"], at(4.0));
    renew(&mut old, &["new"], at(6.0));
    renew(&mut new, &["old"], at(7.0));
    let taken = held(&new, at(7.0));
    assert_eq!(kept.and(taken), Ranges::ALL);
    assert_eq!(kept.len() + taken.len(), COUNT);
    assert_eq!(new.uncovered(at(7.0)), 0);
}

#[test]
fn only_the_ranges_of_a_replica_that_left_move() {
    let mut one = Membership::new("one");
    renew(&mut one, &["other", "third"], at(0.0));
    renew(&mut one, &["other", "third"], at(3.0));
    renew(&mut one, &["other", "third"], at(6.0));
    let before = held(&one, at(6.0));
    renew(&mut one, &["other"], at(9.0));
    let after = held(&one, at(9.0));
    assert!(before.minus(after).is_empty() && before.len() < after.len() && after.len() < COUNT);
}

#[test]
fn an_unrenewed_lease_lapses_and_the_replica_rejoins_like_a_new_one() {
    let mut one = Membership::new("one");
    renew(&mut one, &[], at(0.0));
    assert_eq!(one.next_renewal(at(3.0), false, at(3.0)), at(4.0), "it hurries while there is time");
    assert_eq!(one.next_renewal(at(7.0), false, at(7.0)), later(at(7.0), RENEW_INTERVAL));
    assert_eq!(one.ownership(later(at(0.0), TTL)), Ownership::Lapsed);
    assert_eq!(one.uncovered(later(at(0.0), TTL)), COUNT);
    renew(&mut one, &["other"], at(8.0));
    assert_eq!(one.ownership(at(13.9)), Ownership::Lapsed, "and forgets nothing meanwhile");
    renew(&mut one, &["other"], at(11.0));
    renew(&mut one, &["other"], at(14.0));
    assert!(!held(&one, at(14.0)).is_empty());
}

#[test]
fn a_list_without_this_replica_gives_no_ranges() {
    let mut one = Membership::new("one");
    one.granted(at(0.0), at(0.0));
    one.listed(["other"], at(0.0), at(0.0));
    assert!(held(&one, at(0.0)).is_empty());
}

#[test]
fn the_validity_of_a_slow_answer_counts_from_its_request() {
    let mut one = Membership::new("one");
    one.granted(at(0.0), at(2.0));
    one.listed(["one"], at(2.0), at(4.0));
    assert_eq!(one.wake_at(at(4.0)), Some(at(6.0)));
    assert_eq!(one.ownership(later(at(0.0), TTL)), Ownership::Lapsed);
}

#[test]
fn a_replica_that_leaves_owns_nothing() {
    let mut one = Membership::new("one");
    renew(&mut one, &[], at(0.0));
    one.leave();
    assert_eq!(one.ownership(at(0.0)), Ownership::Owns(Ranges::NONE));
    let mut alone = Membership::new("alone");
    alone.alone();
    assert_eq!(alone.ownership(later(at(0.0), Duration::from_secs(3_600))), Ownership::Owns(Ranges::ALL));
}

#[test]
fn established_replicas_are_standbys_for_new_ones() {
    let mut one = Membership::new("one");
    for second in [0.0, 3.0, 6.0, 9.0] {
        renew(&mut one, &["other"], at(second));
    }
    assert_eq!(one.standby(), held(&one, at(9.0)));
    // The other one is gone, and its ranges belong to the one that starts next.
    renew(&mut one, &["new"], at(12.0));
    assert_eq!(one.standby(), Ranges::ALL);
    for second in [15.0, 18.0] {
        renew(&mut one, &["new"], at(second));
        assert_eq!(one.standby(), Ranges::ALL);
    }
    renew(&mut one, &["new"], at(21.0));
    assert_eq!(one.standby(), held(&one, at(21.0)));
}
