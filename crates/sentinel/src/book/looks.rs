//! Looks at everything that may be due, and what left the book while one runs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::seen::Seen;

#[derive(Debug, Default)]
pub(super) struct Looks {
    /// How many there were.
    pub(super) number: u64,
    /// Of what left the book while a look runs, the version: the look may bring an older state of it.
    left: Option<HashMap<Arc<str>, Option<u64>>>,
}

impl Looks {
    pub(super) fn begin(&mut self) {
        self.number += 1;
        self.left = Some(HashMap::new());
    }

    pub(super) fn end(&mut self) {
        self.left = None;
    }

    pub(super) fn leaves(&mut self, id: Arc<str>, version: Option<u64>) {
        if let Some(left) = &mut self.left {
            left.insert(id, version);
        }
    }

    /// Whether this is what a resource was before it left.
    pub(super) fn outdated(&self, seen: &Seen) -> bool {
        let left = self.left.as_ref().and_then(|left| left.get(&seen.id));
        left.is_some_and(|left| left.zip(seen.learned.as_of()).is_some_and(|(left, seen)| seen <= left))
    }
}
