//! How many requests are inside at one time. Whoever finds no room is sent away at once, before anything was spent on
//! them, and the fuller it gets the fewer are let in: lists first stay outside, then whatever reads or writes one
//! resource, and reports last of all, because adapters that cannot report would stop the whole fleet. Nobody waits
//! here, and whoever is sent away has changed nothing.

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

/// What matters when there is not room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Reads many things: lists, and the beginning of a watch.
    List,
    /// Reads or writes one resource.
    Resource,
    /// What an adapter found.
    Report,
}

impl Rank {
    const ALL: [Self; 3] = [Self::List, Self::Resource, Self::Report];

    /// How full it may be, in percent, for one more of this rank.
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

/// The room of one server.
#[derive(Debug)]
pub(crate) struct Room {
    limit: usize,
    inside: AtomicUsize,
    ranks: [Counts; 3],
}

#[derive(Debug)]
struct Counts {
    in_flight: Gauge,
    shed: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    class: &'static str,
}

/// A request that is inside until it [leaves](Self::leave), which is when the head of its answer is made at the latest:
/// a client that sends or reads slowly, or that watches for hours, holds a connection and no room.
#[derive(Debug)]
pub(crate) struct Stay {
    room: Arc<Room>,
    rank: Rank,
    left: AtomicBool,
}

impl Room {
    /// Room for so many, with its metrics visible under their public names.
    pub(crate) fn register(registry: &mut Registry, limit: usize) -> Arc<Self> {
        let (in_flight, shed) = (Family::<Labels, Gauge>::default(), Family::<Labels, Counter>::default());
        let ranks = Rank::ALL.map(|rank| {
            let labels = Labels { class: rank.label() };
            Counts {
                in_flight: in_flight.get_or_create_owned(&labels),
                shed: shed.get_or_create_owned(&labels),
            }
        });
        let api = registry.sub_registry_with_prefix("hyperfleet_api");
        api.register("requests_in_flight", "Requests that are being answered", in_flight);
        api.register("requests_shed", "Requests refused because too many were being answered", shed);
        Arc::new(Self { limit, inside: AtomicUsize::new(0), ranks })
    }

    /// Lets one more in, or sends it away.
    pub(crate) fn enter(self: &Arc<Self>, rank: Rank) -> Result<Stay, Error> {
        self.take_in(rank)?;
        Ok(Stay { room: Arc::clone(self), rank, left: AtomicBool::new(false) })
    }

    fn take_in(&self, rank: Rank) -> Result<(), Error> {
        let room = (self.limit * rank.share() / 100).max(1);
        let one_more = |inside: usize| (inside < room).then_some(inside + 1);
        if self.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            self.counts(rank).shed.inc();
            let detail = "The server is busy with other requests. Please try again later.";
            return Err(Error::new(ErrorKind::Overloaded, detail));
        }
        self.counts(rank).in_flight.inc();
        Ok(())
    }

    fn counts(&self, rank: Rank) -> &Counts {
        &self.ranks[rank as usize]
    }
}

impl Stay {
    /// Makes room for another. For a request that has only to wait for something to happen.
    pub(crate) fn leave(&self) {
        if !self.left.swap(true, Ordering::Relaxed) {
            self.room.counts(self.rank).in_flight.dec();
            self.room.inside.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for something that is not there yet, and takes up no room meanwhile. There may be none any more when the
    /// waiting is over.
    pub(crate) async fn wait_outside<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Error> {
        let mut awaited = pin!(awaited);
        if let Poll::Ready(there) = futures_util::poll!(&mut awaited) {
            return Ok(there);
        }
        self.leave();
        let there = awaited.await;
        self.come_back()?;
        Ok(there)
    }

    fn come_back(&self) -> Result<(), Error> {
        self.room.take_in(self.rank)?;
        self.left.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(room: &Arc<Room>, rank: Rank) -> Vec<Stay> {
        std::iter::from_fn(|| room.enter(rank).ok()).take(1_000).collect()
    }

    #[test]
    fn the_fuller_it_is_the_higher_the_rank_must_be() {
        let room = Room::register(&mut Registry::default(), 20);
        let lists = fill(&room, Rank::List);
        assert_eq!(lists.len(), 10);
        let resources = fill(&room, Rank::Resource);
        assert_eq!(resources.len(), 7);
        let reports = fill(&room, Rank::Report);
        assert_eq!(reports.len(), 3);
        drop((lists, resources));
        assert_eq!(fill(&room, Rank::List).len(), 7, "who came in by a higher rank counts too");
        reports.iter().for_each(Stay::leave);
        drop(reports);
        assert_eq!(fill(&room, Rank::Report).len(), 20, "who has left leaves nobody else's place");
    }

    #[tokio::test]
    async fn whoever_waits_for_something_waits_outside() {
        let room = Room::register(&mut Registry::default(), 1);
        let stay = room.enter(Rank::Report).unwrap();
        assert_eq!(stay.wait_outside(std::future::ready(7)).await.ok(), Some(7));
        let (tell, told) = tokio::sync::oneshot::channel();
        let waits = async { stay.wait_outside(told).await };
        let others = async {
            let other = room.enter(Rank::Report).expect("the place is free");
            tell.send(()).unwrap();
            tokio::task::yield_now().await;
            other
        };
        let (waited, other) = tokio::join!(waits, others);
        assert_eq!(waited.unwrap_err().kind, ErrorKind::Overloaded, "the place was taken meanwhile");
        drop(other);
        assert!(room.enter(Rank::Report).is_ok());
    }

    #[test]
    fn the_smallest_room_has_a_place_for_each_rank() {
        let room = Room::register(&mut Registry::default(), 1);
        for rank in Rank::ALL {
            assert_eq!(fill(&room, rank).len(), 1, "{rank:?}");
        }
    }

    #[test]
    fn no_crowd_gets_more_in_than_there_is_room_for() {
        let room = Room::register(&mut Registry::default(), 8);
        let most = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for rank in Rank::ALL.into_iter().cycle().take(12) {
                let (room, most) = (&room, &most);
                scope.spawn(move || {
                    for _ in 0..2_000 {
                        let stay = room.enter(rank);
                        most.fetch_max(room.inside.load(Ordering::Relaxed), Ordering::Relaxed);
                        drop(stay);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 8);
        assert_eq!(room.inside.load(Ordering::Relaxed), 0);
        assert!(room.ranks.iter().all(|counts| counts.in_flight.get() == 0));
    }
}
