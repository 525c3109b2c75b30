//! Values by adapter, sorted by its name: a short list, which takes less than a map and keeps no name twice.

use crate::{Report, ReportSummary};

/// A value of one adapter.
pub(super) trait OfAdapter {
    /// Its name.
    fn adapter(&self) -> &str;
}

impl OfAdapter for Report {
    fn adapter(&self) -> &str {
        &self.adapter
    }
}

impl OfAdapter for ReportSummary {
    fn adapter(&self) -> &str {
        &self.adapter
    }
}

#[derive(Debug)]
pub(super) struct ByAdapter<T>(Vec<T>);

impl<T> Default for ByAdapter<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> ByAdapter<T> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T: OfAdapter> ByAdapter<T> {
    fn position(&self, adapter: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|thing| thing.adapter().cmp(adapter))
    }

    pub(super) fn get(&self, adapter: &str) -> Option<&T> {
        self.position(adapter).ok().map(|position| &self.0[position])
    }

    /// Inserts a value, and returns the adapter's value before it.
    pub(super) fn insert(&mut self, thing: T) -> Option<T> {
        match self.position(thing.adapter()) {
            Ok(position) => Some(std::mem::replace(&mut self.0[position], thing)),
            Err(position) => {
                self.0.insert(position, thing);
                None
            }
        }
    }
}

impl<T: OfAdapter> FromIterator<T> for ByAdapter<T> {
    fn from_iter<I: IntoIterator<Item = T>>(things: I) -> Self {
        let things = things.into_iter();
        let mut all = Self(Vec::with_capacity(things.size_hint().0));
        things.for_each(|thing| drop(all.insert(thing)));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Entry(String, u8);

    impl OfAdapter for Entry {
        fn adapter(&self) -> &str {
            &self.0
        }
    }

    proptest! {
        #[test]
        fn the_list_agrees_with_a_map_in_the_order_of_names(
            first in prop::collection::vec(("[a-d]{1,2}", any::<u8>()), 0..12),
            second in prop::collection::vec(("[a-d]{1,2}", any::<u8>()), 0..12),
        ) {
            let (mut list, mut map) = (ByAdapter::new(), BTreeMap::new());
            for (name, value) in &first {
                let before = list.insert(Entry(name.clone(), *value));
                prop_assert_eq!(before.map(|thing| thing.1), map.insert(name.clone(), *value));
            }
            for (name, value) in second {
                list.insert(Entry(name.clone(), value));
                map.insert(name, value);
            }
            for (name, value) in &map {
                prop_assert_eq!(list.get(name).map(|thing| thing.1), Some(*value));
            }
            prop_assert!(list.get("e").is_none());
            let all: Vec<_> = list.iter().map(|thing| (thing.0.clone(), thing.1)).collect();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }
}
