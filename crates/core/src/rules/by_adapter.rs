//! What there is of each adapter of a resource, in the order of their names: a short list. There are a few of them, and
//! what is remembered of thousands of resources holds two such lists each; a map would have room for eleven from the
//! first on, and keep each name twice.

use crate::{Report, Standing};

/// Something that is of one adapter.
pub(super) trait OfAdapter {
    /// Its name.
    fn adapter(&self) -> &str;
}

impl OfAdapter for Report {
    fn adapter(&self) -> &str {
        &self.adapter
    }
}

impl OfAdapter for Standing {
    fn adapter(&self) -> &str {
        &self.adapter
    }
}

/// See above.
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
    fn place(&self, adapter: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|thing| thing.adapter().cmp(adapter))
    }

    pub(super) fn get(&self, adapter: &str) -> Option<&T> {
        self.place(adapter).ok().map(|place| &self.0[place])
    }

    /// Puts it in the place of what there was of its adapter, if anything, which is returned.
    pub(super) fn insert(&mut self, thing: T) -> Option<T> {
        match self.place(thing.adapter()) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place], thing)),
            Err(place) => {
                // Hardly ever another comes after the last.
                self.0.reserve_exact(1);
                self.0.insert(place, thing);
                None
            }
        }
    }

    /// Takes all of these in.
    pub(super) fn merge(&mut self, more: Self) {
        if self.0.is_empty() {
            *self = more;
        } else {
            self.0.reserve_exact(more.0.len());
            more.0.into_iter().for_each(|thing| drop(self.insert(thing)));
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
    struct Thing(String, u8);

    impl OfAdapter for Thing {
        fn adapter(&self) -> &str {
            &self.0
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map_in_the_order_of_names(
            first in prop::collection::vec(("[a-d]{1,2}", any::<u8>()), 0..12),
            second in prop::collection::vec(("[a-d]{1,2}", any::<u8>()), 0..12),
        ) {
            let (mut list, mut map) = (ByAdapter::new(), BTreeMap::new());
            for (name, value) in &first {
                let before = list.insert(Thing(name.clone(), *value));
                prop_assert_eq!(before.map(|thing| thing.1), map.insert(name.clone(), *value));
            }
            list.merge(second.iter().map(|(name, value)| Thing(name.clone(), *value)).collect());
            map.extend(second);
            for (name, value) in &map {
                prop_assert_eq!(list.get(name).map(|thing| thing.1), Some(*value));
            }
            prop_assert!(list.get("e").is_none());
            let all: Vec<_> = list.iter().map(|thing| (thing.0.clone(), thing.1)).collect();
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
        }
    }
}
