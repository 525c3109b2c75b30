//! Messages wait in their order of arrival, and of those with the same key one at a time is in flight. Without I/O.

use std::collections::{HashSet, VecDeque};

#[derive(Debug)]
pub(crate) struct KeyedQueue<T> {
    waiting: VecDeque<(String, T)>,
    in_flight: HashSet<String>,
    max_in_flight: usize,
}

impl<T> KeyedQueue<T> {
    pub(crate) fn new(max_in_flight: usize) -> Self {
        Self { waiting: VecDeque::new(), in_flight: HashSet::new(), max_in_flight: max_in_flight.max(1) }
    }

    pub(crate) fn push(&mut self, key: String, item: T) {
        self.waiting.push_back((key, item));
    }

    /// Takes the oldest item whose key is not in flight, unless the maximum is reached.
    pub(crate) fn take(&mut self) -> Option<(String, T)> {
        if self.in_flight.len() >= self.max_in_flight {
            return None;
        }
        let index = self.waiting.iter().position(|(key, _)| !self.in_flight.contains(key))?;
        let (key, item) = self.waiting.remove(index)?;
        self.in_flight.insert(key.clone());
        Some((key, item))
    }

    pub(crate) fn settled(&mut self, key: &str) {
        self.in_flight.remove(key);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Removes everything that was not taken.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8),
        Take,
        Settled(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(0..4_u8).prop_map(Step::Push), Just(Step::Take), (0..4_usize).prop_map(Step::Settled)]
    }

    proptest! {
        #[test]
        fn a_key_is_in_flight_once_in_order_within_the_bound_and_nothing_waits_without_cause(
            steps in proptest::collection::vec(step(), 0..100), parallelism in 1..4_usize,
        ) {
            let mut queue = KeyedQueue::new(parallelism);
            let mut in_flight: Vec<(String, usize)> = Vec::new();
            let mut last = std::collections::HashMap::new();
            let mut waiting = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(key) => {
                        waiting.push((key.to_string(), number));
                        queue.push(key.to_string(), number);
                    }
                    Step::Settled(which) if which < in_flight.len() => queue.settled(&in_flight.swap_remove(which).0),
                    Step::Settled(_) => {}
                    Step::Take => {
                        let free = |key: &String| in_flight.iter().all(|(other, _)| other != key);
                        let expected = (in_flight.len() < parallelism)
                            .then(|| waiting.iter().position(|(key, _)| free(key)))
                            .flatten()
                            .map(|place| waiting.remove(place));
                        let taken = queue.take();
                        prop_assert_eq!(&taken, &expected);
                        if let Some((key, item)) = taken {
                            prop_assert!(last.insert(key.clone(), item).is_none_or(|before| before < item));
                            in_flight.push((key, item));
                        }
                    }
                }
                prop_assert_eq!(queue.is_idle(), in_flight.is_empty());
            }
        }
    }
}
