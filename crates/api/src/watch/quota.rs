//! A bounded number of shares. No identity and no tenant holds more than a quarter of them, so that one caller cannot
//! take all. Without tokens and tenants callers cannot be told apart, and only the total is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyperfleet_core::Tenant;

use crate::gate::AdmittedCaller;

/// Cheap to clone; all clones count the same shares.
#[derive(Debug, Clone)]
pub(super) struct Quota(Arc<Shared>);

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
    /// The holders that a caller counts for. Callers whose token names no identity count as one identity.
    pub(super) fn of(caller: &AdmittedCaller) -> Vec<Self> {
        let identity = || Self::Identity(caller.identity().unwrap_or_default().to_owned());
        let tenant = |tenant: &Tenant| Self::Tenant(tenant.as_str().to_owned());
        caller.has_token().then(identity).into_iter().chain(caller.tenant().map(tenant)).collect()
    }
}

/// One share, returned when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    quota: Quota,
    holders: Vec<Holder>,
}

impl Quota {
    pub(super) fn new(number: usize) -> Self {
        Self(Arc::new(Shared { number, taken: Mutex::default() }))
    }

    /// A share, if one is free and none of these holders has its quarter already.
    pub(super) fn take(&self, holders: Vec<Holder>) -> Option<Share> {
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
        Some(Share { quota: self.clone(), holders })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.quota.taken();
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
        let quota = Quota::new(8);
        let bob = || vec![Holder::Identity("bob".to_owned()), Holder::Tenant("a".to_owned())];
        let first = quota.take(ann_of("a")).unwrap();
        let _second = quota.take(ann_of("b")).unwrap();
        assert!(quota.take(ann_of("c")).is_none(), "ann has two of eight");
        let _third = quota.take(bob()).unwrap();
        assert!(quota.take(bob()).is_none(), "tenant a has two of eight");
        drop(first);
        let _again = quota.take(ann_of("a")).unwrap();
    }

    #[test]
    fn shares_are_bounded_and_returned_shares_are_forgotten() {
        let quota = Quota::new(8);
        let mut held: Vec<Share> = (0..8).map(|_| quota.take(Vec::new()).unwrap()).collect();
        assert!(quota.take(ann_of("a")).is_none());
        held.clear();
        drop(quota.take(ann_of("a")).unwrap());
        let taken = quota.taken();
        assert_eq!((taken.all, taken.by.len()), (0, 0));
    }
}
