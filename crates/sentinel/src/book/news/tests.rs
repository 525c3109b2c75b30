//! What is remembered of others' changes, and when that is looked through.

use serde_json::json;

use super::super::Book;
use super::*;
use crate::ranges::range_of;
use crate::seen::Learned;

/// That many seconds after the beginning.
fn at(seconds: u64) -> Timestamp {
    later(Timestamp::from_micros(1_790_000_000_000_000), Duration::from_secs(seconds))
}

/// A change to a resource whose kind requires no adapters, which made this generation and version.
fn changed(id: &str, generation: u64) -> Seen {
    let reconciled = json!({"type": "Reconciled", "status": "True", "observed_generation": generation});
    let resource = json!({"id": id, "generation": generation, "status": {"conditions": [reconciled]}});
    Seen::read(Arc::new(resource), Learned::Change(generation), at(0)).unwrap()
}

/// What is published at that moment.
fn due(book: &mut Book, now: Timestamp) -> Vec<(String, u64)> {
    let due = std::iter::from_fn(|| book.take_due(now));
    due.map(|publication| (publication.seen.id.to_string(), publication.seen.generation)).collect()
}

fn told(id: &str, generation: u64) -> (String, u64) {
    (id.to_owned(), generation)
}

#[test]
fn changes_of_others_are_looked_through_only_when_a_range_is_taken_over_and_then_for_that_one() {
    let range = |id: &str| Ranges::NONE.with(range_of(id));
    let (ours, theirs) = ("0", "1");
    assert_ne!(range(ours), range(theirs));
    let mut book = Book::new(8, None);
    book.hold(range(ours), Ranges::NONE, at(0));
    // Nothing of a range that is ours gets there; whoever looked would find it.
    book.of_others.hear(changed(ours, 1), at(0));
    book.see(changed(theirs, 1), at(0));
    book.hold(range(ours), Ranges::NONE, at(1));
    assert!(due(&mut book, at(1)).is_empty());
    assert!(book.hold(range(ours).and(range(theirs)), Ranges::NONE, at(2)));
    assert_eq!(due(&mut book, at(2)), [told(theirs, 1)]);
    assert_eq!(book.of_others.heard.len(), 1);
}

#[test]
fn a_range_that_was_given_away_is_looked_through_when_it_comes_back() {
    for (held, stands_in) in [(Ranges::ALL, Ranges::NONE), (Ranges::NONE, Ranges::ALL)] {
        let mut book = Book::new(8, None);
        for now in [0, 10, 20] {
            book.hold(held, stands_in, at(now));
            book.hold(Ranges::NONE, Ranges::NONE, at(now + 1));
            let id = format!("heard at {now}");
            book.see(changed(&id, 1), at(now + 2));
            book.pause();
            book.hold(held, stands_in, at(now + 3));
            assert_eq!(due(&mut book, at(now + 3)), [told(&id, 1)]);
        }
    }
}

#[test]
fn of_one_resource_only_the_latest_change_is_remembered() {
    let mut book = Book::new(8, None);
    for generation in 1..=100 {
        book.see(changed("a", generation), at(generation));
    }
    assert_eq!((book.of_others.heard.len(), book.of_others.places.len()), (1, 1));
    book.hold(Ranges::NONE, Ranges::NONE, at(119));
    book.hold(Ranges::ALL, Ranges::NONE, at(119));
    assert_eq!(due(&mut book, at(119)), [told("a", 100)]);
    assert!(book.of_others.heard.is_empty() && book.of_others.places.is_empty());
}

#[test]
fn what_is_gone_is_owed_no_event_by_whoever_takes_over() {
    let mut book = Book::new(8, None);
    book.see(changed("gone", 1), at(0));
    book.see(changed("there", 2), at(0));
    book.gone("gone", Some(3));
    book.hold(Ranges::ALL, Ranges::NONE, at(1));
    assert_eq!(due(&mut book, at(1)), [told("there", 2)]);
}

#[test]
fn the_oldest_changes_make_room_when_there_are_too_many_and_are_counted() {
    let mut book = Book::new(1, None);
    book.pause();
    for i in 0..MOST + 2 {
        book.see(changed(&i.to_string(), 1), at(0));
    }
    book.see(changed("2", 2), at(0));
    assert_eq!((book.of_others.heard.len(), book.of_others.places.len()), (MOST, MOST));
    assert_eq!((book.take_displaced(), book.take_displaced()), (2, 0));
    book.hold(Ranges::ALL, Ranges::NONE, at(1));
    assert_eq!(due(&mut book, at(1)), [told("3", 1)]);
}

#[test]
fn changes_are_forgotten_when_they_are_old_even_if_the_clock_was_put_back() {
    let mut news = News::default();
    let left = |news: &News| (news.heard.len(), news.places.len());
    news.hear(changed("a", 1), at(1_000));
    news.hear(changed("b", 2), at(1_005));
    news.expire(at(1_019));
    assert_eq!(left(&news), (2, 2));
    news.expire(at(1_020));
    assert_eq!(left(&news), (1, 1));
    news.expire(at(10));
    news.hear(changed("c", 3), at(11));
    news.expire(at(29));
    assert_eq!(left(&news), (2, 2));
    news.expire(at(30));
    assert_eq!(news.take(Ranges::ALL), [changed("c", 3)]);
    assert_eq!(left(&news), (0, 0));
}
