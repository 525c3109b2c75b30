//! The number of resyncs, and the resources that left the schedule during one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::observed::Observed;

#[derive(Debug, Default)]
pub(super) struct Resyncs {
    pub(super) number: u64,
    /// Versions of resources that left during a running resync, which may bring an older state of them.
    left: Option<HashMap<Arc<str>, Option<u64>>>,
}

impl Resyncs {
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

    /// Whether this observation is from before the resource left.
    pub(super) fn outdated(&self, observed: &Observed) -> bool {
        let left = self.left.as_ref().and_then(|left| left.get(&observed.id));
        left.is_some_and(|left| {
            left.zip(observed.origin.as_of()).is_some_and(|(left, observed)| observed <= left)
        })
    }
}
