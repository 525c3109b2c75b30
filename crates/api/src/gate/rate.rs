//! Rate limits: a token bucket for each caller and each kind of request, so that a caller can exhaust only its own
//! budget.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::RETRY_AFTER;
use hyperfleet_service::http_error::{HttpError, Refused};

use crate::problem_types::RATE_LIMITED;

/// The most buckets of one kind; full buckets are dropped first.
const MAX_CALLERS: usize = 33_000;

/// The rate and the capacity of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Tokens a second.
    pub per_second: u32,
    /// The most that a bucket holds.
    pub burst: u32,
}

/// A budget for each kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budgets {
    /// Reads.
    pub reads: Budget,
    /// Changes of desired state.
    pub writes: Budget,
    /// Reports of adapters.
    pub reports: Budget,
}

/// Which budget a request spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BudgetKind {
    Read,
    Write,
    Report,
}

/// The buckets of all callers.
pub(crate) struct Limiter {
    reads: Buckets,
    writes: Buckets,
    reports: Buckets,
}

/// The buckets of one kind of request, by a hash of the caller with a secret, so that no caller can choose a name that
/// shares another's bucket.
struct Buckets {
    budget: Budget,
    secret: RandomState,
    callers: Mutex<HashMap<u64, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// The address that identifies an anonymous caller. A client network has 2⁶⁴ IPv6 addresses and may use all of them, so
/// only the prefix counts.
pub(crate) fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl Budget {
    fn filled(self, bucket: Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + since * f64::from(self.per_second)).min(f64::from(self.burst))
    }

    /// Takes a token, or returns the time until there is one.
    fn take(self, bucket: &mut Bucket, now: Instant) -> Result<(), Duration> {
        let tokens = self.filled(*bucket, now);
        *bucket = Bucket { tokens, at: now };
        if tokens >= 1.0 {
            bucket.tokens -= 1.0;
            Ok(())
        } else {
            Err(Duration::from_secs_f64((1.0 - tokens) / f64::from(self.per_second.max(1))))
        }
    }
}

impl Limiter {
    pub(crate) fn new(budgets: Budgets) -> Self {
        let empty = |budget| Buckets { budget, secret: RandomState::new(), callers: Mutex::default() };
        Self { reads: empty(budgets.reads), writes: empty(budgets.writes), reports: empty(budgets.reports) }
    }

    /// Spends one token of `caller`.
    pub(crate) fn spend(
        &self,
        caller: impl Hash,
        budget_kind: BudgetKind,
        now: Instant,
    ) -> Result<(), HttpError> {
        let buckets = match budget_kind {
            BudgetKind::Read => &self.reads,
            BudgetKind::Write => &self.writes,
            BudgetKind::Report => &self.reports,
        };
        buckets.spend(caller, now).map_err(|wait| {
            let retry_after = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let limit = u64::from(buckets.budget.per_second);
            let detail =
                format!("More than {limit} requests a second of this kind. Try again in {retry_after} s.");
            Refused::new(&RATE_LIMITED, detail)
                .member("limit", limit)
                .member("window", "1s")
                .member("retry_after", retry_after)
                .header(RETRY_AFTER, retry_after.into())
                .into()
        })
    }
}

impl Buckets {
    fn spend(&self, caller: impl Hash, now: Instant) -> Result<(), Duration> {
        let Self { budget, secret, callers } = self;
        let caller = secret.hash_one(caller);
        let mut callers = callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = callers.get_mut(&caller) {
            return budget.take(bucket, now);
        }
        if callers.len() >= MAX_CALLERS {
            callers.retain(|_, bucket| budget.filled(*bucket, now) < f64::from(budget.burst));
            // That many active callers are an attack, so bounded memory and time matter more than the spent budgets.
            if callers.len() > MAX_CALLERS / 2 {
                callers.clear();
            }
        }
        let full = Bucket { tokens: f64::from(budget.burst), at: now };
        budget.take(callers.entry(caller).or_insert(full), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_spent_at_once_and_comes_back_at_its_rate() {
        let budget = Budget { per_second: 2, burst: 3 };
        let limiter = Limiter::new(Budgets { reads: budget, writes: budget, reports: budget });
        let start = Instant::now();
        let spend = |caller: &str, budget_kind, after| {
            limiter.spend(caller, budget_kind, start + Duration::from_millis(after))
        };
        for _ in 0..3 {
            assert!(spend("ann", BudgetKind::Read, 0).is_ok());
        }
        let refused = spend("ann", BudgetKind::Read, 0).unwrap_err();
        assert_eq!(refused.problem_type(), RATE_LIMITED);
        assert_eq!(refused.detail(), "More than 2 requests a second of this kind. Try again in 1 s.");
        assert!(spend("bob", BudgetKind::Read, 0).is_ok(), "others have their own");
        assert!(spend("ann", BudgetKind::Report, 0).is_ok(), "and so have other kinds of requests");
        assert!(spend("ann", BudgetKind::Read, 400).is_err());
        assert!(spend("ann", BudgetKind::Read, 500).is_ok());
        assert!(spend("ann", BudgetKind::Read, 500).is_err());
        for _ in 0..3 {
            assert!(spend("ann", BudgetKind::Read, 60_000).is_ok(), "no more than a burst is saved");
        }
        assert!(spend("ann", BudgetKind::Read, 60_000).is_err());
    }

    #[test]
    fn all_ipv6_addresses_of_a_client_network_are_one_caller() {
        let network_of = |address: &str| client_network(address.parse().unwrap()).to_string();
        assert_eq!(network_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network_of("2001:db8:1:2:ffff:ffff:ffff:ffff"), "2001:db8:1:2::");
        assert_eq!(network_of("2001:db8:1:3::6"), "2001:db8:1:3::");
        for whole in ["192.0.2.7", "::ffff:192.0.2.7"] {
            assert_eq!(network_of(whole), "192.0.2.7", "an address of version 4 is someone's own");
        }
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let budget = Budget { per_second: 1, burst: 2 };
        let limiter = Limiter::new(Budgets { reads: budget, writes: budget, reports: budget });
        let now = Instant::now();
        for caller in 0..3 * MAX_CALLERS {
            assert!(limiter.spend(caller, BudgetKind::Write, now).is_ok());
            assert!(limiter.writes.callers.lock().unwrap().len() <= MAX_CALLERS);
        }
    }
}
