//! Whose turn it is: messages wait in the order they came, and of those with the same key one at a time is out.
//! A plain structure without time or I/O.

use std::collections::{HashSet, VecDeque};

#[derive(Debug)]
pub(crate) struct Lanes<T> {
    waiting: VecDeque<(String, T)>,
    out: HashSet<String>,
    /// Most that may be out at one time.
    parallelism: usize,
}

impl<T> Lanes<T> {
    pub(crate) fn new(parallelism: usize) -> Self {
        Self { waiting: VecDeque::new(), out: HashSet::new(), parallelism: parallelism.max(1) }
    }

    pub(crate) fn push(&mut self, key: String, item: T) {
        self.waiting.push_back((key, item));
    }

    /// The oldest whose key is not out, when another may go out at all.
    pub(crate) fn take(&mut self) -> Option<(String, T)> {
        if self.out.len() >= self.parallelism {
            return None;
        }
        let place = self.waiting.iter().position(|(key, _)| !self.out.contains(key))?;
        let (key, item) = self.waiting.remove(place)?;
        self.out.insert(key.clone());
        Some((key, item))
    }

    /// What was taken with this key is settled.
    pub(crate) fn done(&mut self, key: &str) {
        self.out.remove(key);
    }

    /// Nothing is out.
    pub(crate) fn idle(&self) -> bool {
        self.out.is_empty()
    }

    /// Everything that was not taken.
    pub(crate) fn clear(&mut self) -> Vec<T> {
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
        Done(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![(0..4_u8).prop_map(Step::Push), Just(Step::Take), (0..4_usize).prop_map(Step::Done)]
    }

    proptest! {
        #[test]
        fn one_key_is_out_once_in_order_within_the_bound_and_nothing_waits_without_cause(
            steps in proptest::collection::vec(step(), 0..100), parallelism in 1..4_usize,
        ) {
            let mut lanes = Lanes::new(parallelism);
            let mut out: Vec<(String, usize)> = Vec::new();
            let mut last = std::collections::HashMap::new();
            let mut waiting = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(key) => {
                        waiting.push((key.to_string(), number));
                        lanes.push(key.to_string(), number);
                    }
                    Step::Done(which) if which < out.len() => lanes.done(&out.swap_remove(which).0),
                    Step::Done(_) => {}
                    Step::Take => {
                        let free = |key: &String| out.iter().all(|(other, _)| other != key);
                        let expected = (out.len() < parallelism)
                            .then(|| waiting.iter().position(|(key, _)| free(key)))
                            .flatten()
                            .map(|place| waiting.remove(place));
                        let taken = lanes.take();
                        prop_assert_eq!(&taken, &expected);
                        if let Some((key, item)) = taken {
                            prop_assert!(last.insert(key.clone(), item).is_none_or(|before| before < item));
                            out.push((key, item));
                        }
                    }
                }
                prop_assert_eq!(lanes.idle(), out.is_empty());
            }
        }
    }
}
