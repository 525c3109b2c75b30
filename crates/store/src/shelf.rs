//! A bounded place for things that may be asked for again. Whoever uses one takes it out and puts it back, so what was
//! put there the longest ago is what was not asked for since, and is the first to go when room is needed.

use std::collections::VecDeque;

use hyperfleet_core::{IdMap, ResourceId};

/// How many marks of things that were taken out are kept before they are swept away.
const SWEPT_ABOVE: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Shelf<T> {
    things: IdMap<Kept<T>>,
    /// Who was put there in which turn, the longest ago first. What was taken out since leaves its mark behind.
    order: VecDeque<(ResourceId, u64)>,
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

impl<T> Shelf<T> {
    pub(crate) fn new(room: usize) -> Self {
        Self { things: IdMap::default(), order: VecDeque::new(), turn: 0, size: 0, room }
    }

    pub(crate) fn get(&self, id: ResourceId) -> Option<&T> {
        self.things.get(&id).map(|kept| &kept.thing)
    }

    /// Takes a thing out, with its size.
    pub(crate) fn take(&mut self, id: ResourceId) -> Option<(T, usize)> {
        let Kept { thing, size, .. } = self.things.remove(&id)?;
        self.size -= size;
        Some((thing, size))
    }

    /// Puts a thing there, and lets go of what has waited the longest until all of it fits.
    pub(crate) fn put(&mut self, id: ResourceId, thing: T, size: usize) {
        self.take(id);
        self.turn += 1;
        self.size += size;
        self.things.insert(id, Kept { thing, size, turn: self.turn });
        self.order.push_back((id, self.turn));
        while self.size > self.room
            && let Some((id, turn)) = self.order.pop_front()
        {
            if self.is_there(id, turn) {
                self.take(id);
            }
        }
        if self.order.len() > 2 * self.things.len() + SWEPT_ABOVE {
            let order = std::mem::take(&mut self.order);
            self.order = order.into_iter().filter(|(id, turn)| self.is_there(*id, *turn)).collect();
        }
    }

    fn is_there(&self, id: ResourceId, turn: u64) -> bool {
        self.things.get(&id).is_some_and(|kept| kept.turn == turn)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> ResourceId {
        Uuid::from_u128(number).into()
    }

    #[test]
    fn what_was_not_asked_for_the_longest_goes_first_and_no_more_is_kept_than_fits() {
        let mut shelf = Shelf::new(30);
        (0..3).for_each(|n| shelf.put(id(n), (), 10));
        let (thing, size) = shelf.take(id(0)).unwrap();
        shelf.put(id(0), thing, size);
        shelf.put(id(3), (), 10);
        assert_eq!([0, 1, 2, 3].map(|n| shelf.get(id(n)).is_some()), [true, false, true, true]);
        shelf.put(id(4), (), 25);
        assert_eq!([0, 2, 3, 4].map(|n| shelf.get(id(n)).is_some()), [false, false, false, true]);
        shelf.put(id(5), (), 31);
        assert_eq!((shelf.things.len(), shelf.size), (0, 0));
    }

    #[test]
    fn a_thing_that_is_used_again_and_again_leaves_few_marks() {
        let mut shelf = Shelf::new(30);
        (0..100_000).for_each(|_| shelf.put(id(1), (), 10));
        assert!(shelf.get(id(1)).is_some());
        assert_eq!(shelf.size, 10);
        assert!(shelf.order.len() <= SWEPT_ABOVE + 2, "{}", shelf.order.len());
    }
}
