//! A bounded place for things that may be asked for again. Whoever uses one takes it out and puts it back, so what was
//! put there the longest ago is what was not asked for since, and is the first to go when room is needed.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How many marks of things that were taken out are kept before they are swept away.
const SWEPT_ABOVE: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Shelf<K, T> {
    things: HashMap<K, Kept<T>>,
    /// Who was put there in which turn, the longest ago first. What was taken out since leaves its mark behind.
    order: VecDeque<(K, u64)>,
    turn: u64,
    size: usize,
    room: usize,
}

#[derive(Debug)]
struct Kept<T> {
    thing: T,
    size: usize,
    turn: u64,
}

impl<K: Copy + Eq + Hash, T> Shelf<K, T> {
    pub(crate) fn new(room: usize) -> Self {
        Self { things: HashMap::new(), order: VecDeque::new(), turn: 0, size: 0, room }
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        self.things.get(&key).map(|kept| &kept.thing)
    }

    /// Takes a thing out, with its size.
    pub(crate) fn take(&mut self, key: K) -> Option<(T, usize)> {
        let Kept { thing, size, .. } = self.things.remove(&key)?;
        self.size -= size;
        Some((thing, size))
    }

    /// Puts a thing there, and lets go of what has waited the longest until all of it fits.
    pub(crate) fn put(&mut self, key: K, thing: T, size: usize) {
        self.take(key);
        self.turn += 1;
        self.size += size;
        self.things.insert(key, Kept { thing, size, turn: self.turn });
        self.order.push_back((key, self.turn));
        while self.size > self.room
            && let Some((key, turn)) = self.order.pop_front()
        {
            if self.is_there(key, turn) {
                self.take(key);
            }
        }
        if self.order.len() > 2 * self.things.len() + SWEPT_ABOVE {
            let order = std::mem::take(&mut self.order);
            self.order = order.into_iter().filter(|(key, turn)| self.is_there(*key, *turn)).collect();
        }
    }

    fn is_there(&self, key: K, turn: u64) -> bool {
        self.things.get(&key).is_some_and(|kept| kept.turn == turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_the_longest_goes_first_and_no_more_is_kept_than_fits() {
        let mut shelf = Shelf::new(30);
        (0..3).for_each(|key| shelf.put(key, (), 10));
        let (thing, size) = shelf.take(0).unwrap();
        shelf.put(0, thing, size);
        shelf.put(3, (), 10);
        assert_eq!([0, 1, 2, 3].map(|key| shelf.get(key).is_some()), [true, false, true, true]);
        shelf.put(4, (), 25);
        assert_eq!([0, 2, 3, 4].map(|key| shelf.get(key).is_some()), [false, false, false, true]);
        shelf.put(5, (), 31);
        assert_eq!((shelf.things.len(), shelf.size), (0, 0));
    }

    #[test]
    fn a_thing_that_is_used_again_and_again_leaves_few_marks() {
        let mut shelf = Shelf::new(30);
        (0..100_000).for_each(|_| shelf.put(1, (), 10));
        assert!(shelf.get(1).is_some());
        assert_eq!(shelf.size, 10);
        assert!(shelf.order.len() <= SWEPT_ABOVE + 2, "{}", shelf.order.len());
    }
}
