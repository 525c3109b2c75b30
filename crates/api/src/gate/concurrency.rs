//! The concurrency limiter bounds how many requests are being answered at one time. A request without a permit is refused
//! at once, before any work is done for it; nothing waits here. The closer the limiter is to its limit, the fewer
//! requests get a permit: lists and history are refused first, then other requests for one resource, and reports last, because
//! adapters that cannot report would stop the whole fleet.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use hyperfleet_core::{Error, ErrorKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The priority of a request when there are too few permits for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Reads many rows: lists, explanations, history, and the beginning of a watch.
    List,
    /// Other requests for one resource.
    Resource,
    /// A report of an adapter.
    Report,
}

impl Priority {
    const ALL: [Self; 3] = [Self::List, Self::Resource, Self::Report];

    /// Up to which part of the limit, in percent, this priority gets permits.
    fn share(self) -> usize {
        match self {
            Self::List => 50,
            Self::Resource => 85,
            Self::Report => 100,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Resource => "resource",
            Self::Report => "report",
        }
    }
}

/// The limiter of one server.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    limit: usize,
    in_use: AtomicUsize,
    priorities: [Counts; 3],
}

#[derive(Debug)]
struct Counts {
    in_flight: Gauge,
    shed: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    priority: &'static str,
}

/// The permit of one request until it is [released](Self::release), which is when the head of its answer is made at the
/// latest: a client that sends or reads slowly, or that watches for hours, holds a connection and no permit.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<ConcurrencyLimiter>,
    priority: Priority,
    released: AtomicBool,
}

impl ConcurrencyLimiter {
    /// A limiter of that many permits, with its metrics registered under their public names.
    pub(crate) fn register(registry: &mut Registry, limit: usize) -> Arc<Self> {
        let (in_flight, shed) = (Family::<Labels, Gauge>::default(), Family::<Labels, Counter>::default());
        let priorities = Priority::ALL.map(|priority| {
            let labels = Labels { priority: priority.label() };
            Counts {
                in_flight: in_flight.get_or_create_owned(&labels),
                shed: shed.get_or_create_owned(&labels),
            }
        });
        let api = registry.sub_registry_with_prefix("hyperfleet_api");
        api.register("requests_in_flight", "Requests that are being answered", in_flight);
        api.register("requests_shed", "Requests refused because too many were being answered", shed);
        Arc::new(Self { limit, in_use: AtomicUsize::new(0), priorities })
    }

    /// A permit, or the refusal for a request without one.
    pub(crate) fn acquire(self: &Arc<Self>, priority: Priority) -> Result<Permit, Error> {
        self.take(priority)?;
        Ok(Permit { limiter: Arc::clone(self), priority, released: AtomicBool::new(false) })
    }

    fn take(&self, priority: Priority) -> Result<(), Error> {
        let limit = (self.limit * priority.share() / 100).max(1);
        let one_more = |in_use: usize| (in_use < limit).then_some(in_use + 1);
        if self.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            self.counts(priority).shed.inc();
            let detail = "The server is busy with other requests. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        }
        self.counts(priority).in_flight.inc();
        Ok(())
    }

    fn counts(&self, priority: Priority) -> &Counts {
        &self.priorities[priority as usize]
    }
}

impl Permit {
    /// Gives the permit back early, for a request that only waits for something to happen.
    pub(crate) fn release(&self) {
        if !self.released.swap(true, Ordering::Relaxed) {
            self.limiter.counts(self.priority).in_flight.dec();
            self.limiter.in_use.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for `awaited` without holding the permit. Fails if no permit is free when the wait is over.
    pub(crate) async fn wait_without<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Error> {
        let mut awaited = pin!(awaited);
        if let Poll::Ready(output) = futures_util::poll!(&mut awaited) {
            return Ok(output);
        }
        self.release();
        let output = awaited.await;
        self.reacquire()?;
        Ok(output)
    }

    fn reacquire(&self) -> Result<(), Error> {
        self.limiter.take(self.priority)?;
        self.released.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(limiter: &Arc<ConcurrencyLimiter>, priority: Priority) -> Vec<Permit> {
        std::iter::from_fn(|| limiter.acquire(priority).ok()).take(1_000).collect()
    }

    #[test]
    fn higher_priorities_get_permits_closer_to_the_limit() {
        let limiter = ConcurrencyLimiter::register(&mut Registry::default(), 20);
        let lists = fill(&limiter, Priority::List);
        assert_eq!(lists.len(), 10);
        let resources = fill(&limiter, Priority::Resource);
        assert_eq!(resources.len(), 7);
        let reports = fill(&limiter, Priority::Report);
        assert_eq!(reports.len(), 3);
        drop((lists, resources));
        assert_eq!(fill(&limiter, Priority::List).len(), 7, "permits of higher priorities count too");
        reports.iter().for_each(Permit::release);
        drop(reports);
        assert_eq!(fill(&limiter, Priority::Report).len(), 20, "a released permit is given back once");
    }

    #[tokio::test]
    async fn a_waiting_request_holds_no_permit() {
        let limiter = ConcurrencyLimiter::register(&mut Registry::default(), 1);
        let permit = limiter.acquire(Priority::Report).unwrap();
        assert_eq!(permit.wait_without(std::future::ready(7)).await.ok(), Some(7));
        let (tell, told) = tokio::sync::oneshot::channel();
        let waits = async { permit.wait_without(told).await };
        let others = async {
            let other = limiter.acquire(Priority::Report).expect("the permit is free");
            tell.send(()).unwrap();
            tokio::task::yield_now().await;
            other
        };
        let (waited, other) = tokio::join!(waits, others);
        assert_eq!(waited.unwrap_err().kind, ErrorKind::Overloaded, "the permit was taken meanwhile");
        drop(other);
        assert!(limiter.acquire(Priority::Report).is_ok());
    }

    #[test]
    fn the_smallest_limiter_has_a_permit_for_each_priority() {
        let limiter = ConcurrencyLimiter::register(&mut Registry::default(), 1);
        for priority in Priority::ALL {
            assert_eq!(fill(&limiter, priority).len(), 1, "{priority:?}");
        }
    }

    #[test]
    fn concurrent_requests_never_hold_more_permits_than_the_limit() {
        let limiter = ConcurrencyLimiter::register(&mut Registry::default(), 8);
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for priority in Priority::ALL.into_iter().cycle().take(12) {
                let (limiter, most) = (&limiter, &most);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let permit = limiter.acquire(priority);
                        most.fetch_max(limiter.in_use.load(Ordering::Relaxed), Ordering::Relaxed);
                        drop(permit);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 8);
        assert_eq!(limiter.in_use.load(Ordering::Relaxed), 0);
        assert!(limiter.priorities.iter().all(|counts| counts.in_flight.get() == 0));
    }
}
