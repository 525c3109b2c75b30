//! Who looks after what, moment by moment.

use std::time::Duration;

use hyperfleet_core::Timestamp;
use hyperfleet_sentinel::backoff::later;
use hyperfleet_sentinel::ranges::{COUNT, Ranges};
use hyperfleet_sentinel::shares::{BEAT, Shares, Standing, TTL};

use crate::given::at;

/// Renews and lists at a moment, with answers that take no time.
fn beat(shares: &mut Shares, others: &[&str], now: Timestamp) {
    shares.granted(now, now);
    let me = shares.me().to_owned();
    shares.listed(others.iter().copied().chain([me.as_str()]), now, now);
}

fn held(shares: &Shares, now: Timestamp) -> Ranges {
    match shares.standing(now) {
        Standing::Holds(ranges) => ranges,
        Standing::Lapsed => Ranges::NONE,
    }
}

#[test]
fn the_only_replica_begins_at_once_and_holds_everything() {
    let mut one = Shares::new("one");
    assert_eq!((held(&one, at(0.0)), one.uncovered(at(0.0))), (Ranges::NONE, COUNT));
    beat(&mut one, &[], at(0.0));
    assert_eq!((held(&one, at(0.0)), one.uncovered(at(0.0))), (Ranges::ALL, 0));
}

#[test]
fn a_newcomer_begins_when_every_list_without_it_has_ended() {
    let (mut old, mut new) = (Shares::new("old"), Shares::new("new"));
    beat(&mut old, &[], at(0.0));
    beat(&mut new, &["old"], at(1.0));
    assert!(held(&new, at(6.9)).is_empty() && new.uncovered(at(1.0)) > 0);
    assert_eq!(new.next_beat(at(4.0), true, at(4.0)), at(7.0), "it looks again when it may begin");

    beat(&mut old, &["new"], at(3.0));
    assert_eq!(held(&old, at(5.9)), Ranges::ALL, "what a list gave is held until it ends");
    let kept = held(&old, at(6.0));
    beat(&mut new, &["old"], at(4.0));
    beat(&mut old, &["new"], at(6.0));
    beat(&mut new, &["old"], at(7.0));
    let taken = held(&new, at(7.0));
    assert_eq!(kept.and(taken), Ranges::ALL);
    assert_eq!(kept.len() + taken.len(), COUNT);
    assert_eq!(new.uncovered(at(7.0)), 0);
}

#[test]
fn the_ranges_of_one_that_is_gone_are_taken_at_once_and_no_others_move() {
    let mut one = Shares::new("one");
    beat(&mut one, &["other", "third"], at(0.0));
    beat(&mut one, &["other", "third"], at(3.0));
    beat(&mut one, &["other", "third"], at(6.0));
    let before = held(&one, at(6.0));
    beat(&mut one, &["other"], at(9.0));
    let after = held(&one, at(9.0));
    assert!(before.minus(after).is_empty() && before.len() < after.len() && after.len() < COUNT);
}

#[test]
fn what_is_not_renewed_in_time_lapses_and_is_taken_up_again_like_a_newcomer_would() {
    let mut one = Shares::new("one");
    beat(&mut one, &[], at(0.0));
    assert_eq!(one.next_beat(at(3.0), false, at(3.0)), at(4.0), "it hurries while there is time");
    assert_eq!(one.next_beat(at(7.0), false, at(7.0)), later(at(7.0), BEAT));
    assert_eq!(one.standing(later(at(0.0), TTL)), Standing::Lapsed);
    assert_eq!(one.uncovered(later(at(0.0), TTL)), COUNT);
    beat(&mut one, &["other"], at(8.0));
    assert_eq!(one.standing(at(13.9)), Standing::Lapsed, "and forgets nothing meanwhile");
    beat(&mut one, &["other"], at(11.0));
    beat(&mut one, &["other"], at(14.0));
    assert!(!held(&one, at(14.0)).is_empty());
}

#[test]
fn a_list_without_us_gives_nothing() {
    let mut one = Shares::new("one");
    one.granted(at(0.0), at(0.0));
    one.listed(["other"], at(0.0), at(0.0));
    assert!(held(&one, at(0.0)).is_empty());
}

#[test]
fn a_slow_answer_counts_from_when_it_was_asked_for() {
    let mut one = Shares::new("one");
    one.granted(at(0.0), at(2.0));
    one.listed(["one"], at(2.0), at(4.0));
    assert_eq!(one.wake_at(at(4.0)), Some(at(6.0)));
    assert_eq!(one.standing(later(at(0.0), TTL)), Standing::Lapsed);
}

#[test]
fn one_that_leaves_holds_nothing() {
    let mut one = Shares::new("one");
    beat(&mut one, &[], at(0.0));
    one.leave();
    assert_eq!(one.standing(at(0.0)), Standing::Holds(Ranges::NONE));
    let mut alone = Shares::new("alone");
    alone.alone();
    assert_eq!(alone.standing(later(at(0.0), Duration::from_secs(3_600))), Standing::Holds(Ranges::ALL));
}

#[test]
fn whoever_is_there_for_long_stands_in_for_those_who_came_lately() {
    let mut one = Shares::new("one");
    for second in [0.0, 3.0, 6.0, 9.0] {
        beat(&mut one, &["other"], at(second));
    }
    assert_eq!(one.stands_in(), held(&one, at(9.0)));
    // The other one is gone, and its ranges are a newcomer's.
    beat(&mut one, &["new"], at(12.0));
    assert_eq!(one.stands_in(), Ranges::ALL);
    for second in [15.0, 18.0] {
        beat(&mut one, &["new"], at(second));
        assert_eq!(one.stands_in(), Ranges::ALL);
    }
    beat(&mut one, &["new"], at(21.0));
    assert_eq!(one.stands_in(), held(&one, at(21.0)));
}
