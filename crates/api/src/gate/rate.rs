//! Rate limits: a bucket of tokens for each caller and each kind of request. One caller that asks too much spends its
//! own tokens and nobody else's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyperfleet_core::{Error, ErrorKind};

/// More callers than this are never remembered; the ones with full buckets are forgotten first.
const MAX_CALLERS: usize = 100_000;

/// How fast tokens come, and how many are kept.
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
    /// Whatever only reads.
    pub reads: Budget,
    /// Whatever changes wishes.
    pub writes: Budget,
    /// Reports of adapters.
    pub reports: Budget,
}

/// What a request is spent from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Read,
    Write,
    Report,
}

/// The buckets of all callers.
pub(crate) struct Limiter {
    budgets: Budgets,
    buckets: Mutex<HashMap<(String, Purpose), Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Budget {
    fn filled(self, bucket: Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + since * f64::from(self.per_second)).min(f64::from(self.burst))
    }

    /// Takes a token out, or says how long it takes until there is one.
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
        Self { budgets, buckets: Mutex::default() }
    }

    /// Spends one token of `caller`.
    pub(crate) fn spend(&self, caller: &str, purpose: Purpose, now: Instant) -> Result<(), Error> {
        let budget = self.budget(purpose);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CALLERS {
            buckets.retain(|(_, purpose), bucket| {
                let budget = self.budget(*purpose);
                budget.filled(*bucket, now) < f64::from(budget.burst)
            });
            // So many at once are an attack by numbers. Memory matters more than what they still owe.
            if buckets.len() >= MAX_CALLERS {
                buckets.clear();
            }
        }
        let full = Bucket { tokens: f64::from(budget.burst), at: now };
        let bucket = buckets.entry((caller.to_owned(), purpose)).or_insert(full);
        budget.take(bucket, now).map_err(|wait| {
            let retry_after = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let limit = u64::from(budget.per_second);
            let detail =
                format!("More than {limit} requests a second of this kind. Try again in {retry_after} s.");
            Error::new(ErrorKind::RateLimited { limit, retry_after }, detail)
        })
    }

    fn budget(&self, purpose: Purpose) -> Budget {
        match purpose {
            Purpose::Read => self.budgets.reads,
            Purpose::Write => self.budgets.writes,
            Purpose::Report => self.budgets.reports,
        }
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
        let spend =
            |caller, purpose, after| limiter.spend(caller, purpose, start + Duration::from_millis(after));
        for _ in 0..3 {
            assert!(spend("ann", Purpose::Read, 0).is_ok());
        }
        let refused = spend("ann", Purpose::Read, 0).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::RateLimited { limit: 2, retry_after: 1 });
        assert!(spend("bob", Purpose::Read, 0).is_ok(), "others have their own");
        assert!(spend("ann", Purpose::Report, 0).is_ok(), "and so have other kinds of requests");
        assert!(spend("ann", Purpose::Read, 400).is_err());
        assert!(spend("ann", Purpose::Read, 500).is_ok());
        assert!(spend("ann", Purpose::Read, 500).is_err());
        for _ in 0..3 {
            assert!(spend("ann", Purpose::Read, 60_000).is_ok(), "no more than a burst is saved");
        }
        assert!(spend("ann", Purpose::Read, 60_000).is_err());
    }

    #[test]
    fn however_many_callers_there_are_no_more_than_so_many_are_remembered() {
        let budget = Budget { per_second: 1, burst: 1 };
        let limiter = Limiter::new(Budgets { reads: budget, writes: budget, reports: budget });
        let start = Instant::now();
        let remembered = || limiter.buckets.lock().unwrap().len();
        let crowd = |now: Instant| {
            for caller in 0..MAX_CALLERS + 10 {
                assert!(limiter.spend(&caller.to_string(), Purpose::Read, now).is_ok());
                assert!(remembered() <= MAX_CALLERS);
            }
        };
        crowd(start);
        assert_eq!(remembered(), 10, "so many debts at once are forgiven");
        // Those who owe nothing any more are forgotten before anyone who does.
        let later = start + Duration::from_secs(5);
        (0..MAX_CALLERS - 11)
            .for_each(|old| drop(limiter.spend(&format!("old {old}"), Purpose::Read, start)));
        assert!(limiter.spend("debtor", Purpose::Read, later).is_ok());
        assert_eq!(remembered(), MAX_CALLERS);
        assert!(limiter.spend("another", Purpose::Read, later).is_ok());
        assert_eq!(remembered(), 2);
        assert!(limiter.spend("debtor", Purpose::Read, later).is_err());
    }
}
