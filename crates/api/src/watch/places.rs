//! Places of which there are only so many, shared out so that nobody takes them all: no identity and no tenant holds
//! more than a quarter. Without tokens and tenants nobody is told apart, and nobody held to less than all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::Tenant;

use crate::gate::Visitor;

/// Cheap to clone; all clones share the same places.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    number: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<Holder, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Holder {
    Identity(String),
    Tenant(String),
}

impl Holder {
    /// Whose places count for a visitor. Those whom their token does not name share one name.
    pub(super) fn of(visitor: &Visitor) -> Vec<Self> {
        let identity = || Self::Identity(visitor.identity().unwrap_or_default().to_owned());
        let tenant = |tenant: &Tenant| Self::Tenant(tenant.as_str().to_owned());
        visitor.has_token().then(identity).into_iter().chain(visitor.tenant().map(tenant)).collect()
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    holders: Vec<Holder>,
}

impl Places {
    pub(super) fn new(number: usize) -> Self {
        Self(Arc::new(Shared { number, taken: Mutex::default() }))
    }

    /// A place, if there is one and none of these has its share already.
    pub(super) fn take(&self, holders: Vec<Holder>) -> Option<Place> {
        let mut taken = self.taken();
        let share = self.0.number / 4;
        let has_share = |holder| taken.by.get(holder).is_some_and(|held| *held >= share);
        if taken.all >= self.0.number || holders.iter().any(has_share) {
            return None;
        }
        taken.all += 1;
        for holder in &holders {
            *taken.by.entry(holder.clone()).or_default() += 1;
        }
        Some(Place { places: self.clone(), holders })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        for holder in &self.holders {
            if let Some(held) = taken.by.get_mut(holder) {
                *held -= 1;
                if *held == 0 {
                    taken.by.remove(holder);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann_of(tenant: &str) -> Vec<Holder> {
        vec![Holder::Identity("ann".to_owned()), Holder::Tenant(tenant.to_owned())]
    }

    #[test]
    fn neither_an_identity_nor_a_tenant_takes_more_than_a_quarter() {
        let places = Places::new(8);
        let bob = || vec![Holder::Identity("bob".to_owned()), Holder::Tenant("a".to_owned())];
        let first = places.take(ann_of("a")).unwrap();
        let _second = places.take(ann_of("b")).unwrap();
        assert!(places.take(ann_of("c")).is_none(), "ann has two of eight");
        let _third = places.take(bob()).unwrap();
        assert!(places.take(bob()).is_none(), "tenant a has two of eight");
        drop(first);
        let _again = places.take(ann_of("a")).unwrap();
    }

    #[test]
    fn there_are_only_so_many_and_what_is_given_back_is_forgotten() {
        let places = Places::new(8);
        let mut held: Vec<Place> = (0..8).map(|_| places.take(Vec::new()).unwrap()).collect();
        assert!(places.take(ann_of("a")).is_none());
        held.clear();
        drop(places.take(ann_of("a")).unwrap());
        let taken = places.taken();
        assert_eq!((taken.all, taken.by.len()), (0, 0));
    }
}
