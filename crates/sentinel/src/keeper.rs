//! Looks after one kind: feeds what the watch and the searches tell into the book, and publishes what the book wants.
//! It decides nothing itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyperfleet_client::{Collection, Error, Resource, Watch, WatchEvent, WatchQuery};
use hyperfleet_core::Timestamp;
use hyperfleet_events::BrokerError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::backoff::age;
use crate::book::{Book, Publication};
use crate::cycle::Cycle;
use crate::decide::Reason;
use crate::event::{self, Made};
use crate::look::{self, Found, Search};
use crate::metrics::{OfReason, OfType};
use crate::seen::{Learned, Seen};
use crate::shares::{Held, Standing};
use crate::surroundings::Surroundings;

/// How often the connection of a watch is looked at, and what waits is counted.
const GLANCE: Duration = Duration::from_secs(1);

pub(crate) struct Keeper {
    plural: String,
    collection: Collection,
    topic: String,
    around: Surroundings,
    held: watch::Receiver<Held>,
    book: Book,
    cycle: Cycle,
    watching: Watching,
    looking: Option<Looking>,
    /// The API finds no conditions, so everything must be read.
    reads_all: bool,
    flights: JoinSet<(Publication, Result<(), BrokerError>)>,
    /// When those were last counted that wait, which costs a look at each.
    counted: Option<Instant>,
}

enum Watching {
    /// A search must tell where to begin.
    Wanted,
    On(Watch),
    /// The API knows none.
    Never,
}

struct Looking {
    found: mpsc::Receiver<Found>,
    since: Instant,
}

/// What came in.
enum Input {
    Found(Option<Found>),
    Changed(Box<Result<WatchEvent, Error>>),
    Landed(Publication, Result<(), BrokerError>),
    Time,
}

impl Keeper {
    pub(crate) fn new(plural: &str, around: Surroundings, held: watch::Receiver<Held>) -> Self {
        let work = &around.work;
        Self {
            plural: plural.to_owned(),
            collection: Collection::of(plural),
            topic: work.topic_of(plural),
            held,
            book: Book::new(work.parallel, work.decision.clone()),
            cycle: Cycle::new(work.poll_interval, Timestamp::now()),
            watching: Watching::Wanted,
            looking: None,
            reads_all: work.decision.is_some(),
            flights: JoinSet::new(),
            counted: None,
            around,
        }
    }

    /// Works until told to stop, and then waits for what is on its way.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let now = Timestamp::now();
            self.pursue(now);
            let input = tokio::select! {
                () = stop.cancelled() => break,
                input = self.next(now) => input,
            };
            self.take(input);
        }
        while let Some(landed) = self.flights.join_next().await {
            if let Ok((publication, outcome)) = landed {
                self.landed(&publication, outcome.as_ref().copied());
            }
        }
        self.around.forget(&self.plural);
        self.around.metrics.pending.remove(&self.labels());
    }

    /// Waits for anything to happen.
    async fn next(&mut self, now: Timestamp) -> Input {
        let until = self.held.borrow().until().filter(|until| *until > now);
        let wake = [self.cycle.wake_at(), self.book.wake_at(), until].into_iter().flatten().min();
        let wait = wake.map_or(GLANCE, |wake| age(now, wake).min(GLANCE));
        tokio::select! {
            found = async { self.looking.as_mut()?.found.recv().await }, if self.looking.is_some() => Input::Found(found),
            changed = changed(&mut self.watching) => Input::Changed(Box::new(changed)),
            Some(landed) = self.flights.join_next(), if !self.flights.is_empty() => match landed {
                Ok((publication, outcome)) => Input::Landed(publication, outcome),
                Err(_) => Input::Time,
            },
            Ok(()) = self.held.changed() => Input::Time,
            () = tokio::time::sleep(wait) => Input::Time,
        }
    }

    fn take(&mut self, input: Input) {
        let now = Timestamp::now();
        match input {
            Input::Time => {}
            Input::Landed(publication, outcome) => self.landed(&publication, outcome.as_ref().copied()),
            Input::Found(Some(Found::Page(version, items))) => {
                for item in items {
                    self.see(item, Learned::State(version), now);
                }
            }
            Input::Found(Some(Found::End(end))) => self.looked(end, now),
            Input::Found(None) => {
                // It panicked, so what it did not find may be there.
                let (url, why) = (self.collection.to_string(), "the look broke off".to_owned());
                self.looked(Err(Error::Unreachable { url, why }), now);
            }
            Input::Changed(changed) => self.changed(*changed, now),
        }
    }

    /// Does whatever is due by now.
    fn pursue(&mut self, now: Timestamp) {
        let held = *self.held.borrow_and_update();
        match held.at(now) {
            Standing::Lapsed => self.book.pause(),
            Standing::Holds(ranges) => {
                if self.book.hold(ranges, held.stands_in(), now) {
                    self.cycle.hurry(now);
                }
            }
        }
        if let Watching::On(watch) = &self.watching
            && self.cycle.watch(watch.is_connected(), now)
        {
            self.around.returned.notify_one();
        }
        self.cycle.beside(self.around.kinds.load(Ordering::Relaxed));
        if self.cycle.begin(now) {
            self.look(now);
        }
        while let Some(publication) = self.book.take_due(now) {
            self.publish(publication);
        }
        if self.counted.is_none_or(|counted| counted.elapsed() >= GLANCE) {
            self.counted = Some(Instant::now());
            self.around.metrics.pending.get_or_create(&self.labels()).set(self.book.pending() as i64);
        }
    }

    fn look(&mut self, now: Timestamp) {
        self.book.look_begins();
        let work = &self.around.work;
        let search = Search {
            client: self.around.client.clone(),
            collection: self.collection.clone(),
            page_size: work.page_size,
            filters: if self.reads_all { vec![look::selector(work)] } else { look::due(work, now) },
            fields: look::fields(work),
        };
        self.looking = Some(Looking { found: search.begin(), since: Instant::now() });
    }

    fn looked(&mut self, end: Result<Option<u64>, Error>, now: Timestamp) {
        let took = self.looking.take().map(|looking| looking.since.elapsed()).unwrap_or_default();
        self.book.look_ends(end.is_ok());
        self.around.api(&self.plural, end.as_ref().map(|_| ()));
        match end {
            Ok(version) => {
                self.cycle.succeeded();
                let metrics = &self.around.metrics;
                metrics.poll_seconds.get_or_create(&self.labels()).observe(took.as_secs_f64());
                metrics.last_poll.get_or_create(&self.labels()).set(now.micros() / 1_000_000);
                if matches!(self.watching, Watching::Wanted)
                    && let Some(since) = version
                {
                    self.watching = Watching::On(self.watch(since));
                }
            }
            Err(error) if error.status() == Some(400) && !self.reads_all => {
                tracing::info!(
                    resource_type = self.plural,
                    "the API finds no conditions, so every look reads everything"
                );
                self.reads_all = true;
                self.cycle.succeeded();
                self.cycle.hurry(now);
            }
            Err(error) => {
                if error.is_not_found() {
                    self.around.returned.notify_one();
                }
                self.cycle.failed(now, chance(), error.retry_after());
            }
        }
    }

    fn watch(&self, since: u64) -> Watch {
        let query = WatchQuery {
            search: look::selector(&self.around.work),
            since: Some(since),
            fields: look::fields(&self.around.work),
            show_deleted: true,
            kind: None,
        };
        self.around.client.watch(&self.collection, &query)
    }

    fn changed(&mut self, changed: Result<WatchEvent, Error>, now: Timestamp) {
        match changed {
            Ok(WatchEvent::Added { version, resource } | WatchEvent::Modified { version, resource }) => {
                self.see(resource, Learned::Change(version), now);
            }
            Ok(WatchEvent::Deleted { version, resource }) => self.book.gone(resource.id(), Some(version)),
            Ok(WatchEvent::Bookmark { .. }) => {}
            Ok(WatchEvent::Restart) => {
                // What would follow is the whole fleet; a search finds the part of it that matters.
                self.watching = Watching::Wanted;
                self.cycle.watch(false, now);
                self.cycle.hurry(now);
            }
            Err(Error::NoWatch) => {
                tracing::info!(
                    resource_type = self.plural,
                    "the API knows no watch, so changes are found by looking"
                );
                self.watching = Watching::Never;
                self.cycle.watch(false, now);
            }
            Err(error) => {
                self.cycle.watch(false, now);
                tracing::debug!(resource_type = self.plural, error = %error, "the watch was refused");
            }
        }
    }

    fn see(&mut self, resource: Resource, learned: Learned, now: Timestamp) {
        let Some(seen) = Seen::read(Arc::new(resource.into_value()), learned, now) else { return };
        let work = &self.around.work;
        let seen = if work.decision.is_none() && work.data.is_none() { seen.slim() } else { seen };
        if let Some(skip) = self.book.see(seen, now) {
            let labels = OfReason { resource_type: self.plural.clone(), reason: skip.as_str() };
            self.around.metrics.skipped.get_or_create(&labels).inc();
        }
        let displaced = self.book.take_displaced();
        if displaced > 0 {
            self.around.metrics.forgotten.get_or_create(&self.labels()).inc_by(displaced);
        }
        if let Some(fault) = self.book.take_fault() {
            tracing::warn!(resource_type = self.plural, fault, "message_decision failed");
        }
    }

    fn publish(&mut self, publication: Publication) {
        let seen = &publication.seen;
        let Made { event, fault } =
            event::make(&self.around.source, &self.around.work, &self.plural, seen, publication.reason);
        if let Some(fault) = fault {
            tracing::warn!(resource_type = self.plural, id = &*seen.id, fault, "message_data failed");
        }
        let evaluate = tracing::info_span!(
            "sentinel.evaluate",
            resource_type = self.plural,
            resource_id = &*seen.id,
            trace_id = event::trace_of(&event)
        );
        let span = tracing::info_span!(parent: &evaluate, "publish", topic = self.topic);
        let (broker, topic) = (self.around.broker.clone(), self.topic.clone());
        let flight = async move {
            let outcome = broker.publish(&topic, &event).await;
            match &outcome {
                Ok(()) => {
                    tracing::debug!(event = event.id, reason = publication.reason.as_str(), "published");
                }
                Err(error) => tracing::debug!(event = event.id, error = %error, "not published"),
            }
            (publication, outcome)
        };
        self.flights.spawn(flight.instrument(span));
    }

    fn landed(&mut self, publication: &Publication, outcome: Result<(), &BrokerError>) {
        let now = Timestamp::now();
        self.around.broker(&self.plural, outcome);
        if outcome.is_err() {
            return self.book.failed(publication, now, chance());
        }
        self.book.published(publication, now);
        let metrics = &self.around.metrics;
        let reason = publication.reason;
        let labels = OfReason { resource_type: self.plural.clone(), reason: reason.as_str() };
        metrics.published.get_or_create(&labels).inc();
        let changed = match reason {
            Reason::NewGeneration if publication.seen.news => publication.seen.updated,
            Reason::NewGeneration | Reason::InputsChanged => Some(publication.noticed),
            _ => None,
        };
        if let Some(changed) = changed {
            let took = age(changed, now).as_secs_f64();
            metrics.change_to_publish.get_or_create(&self.labels()).observe(took);
        }
    }

    fn labels(&self) -> OfType {
        OfType { resource_type: self.plural.clone() }
    }
}

async fn changed(watching: &mut Watching) -> Result<WatchEvent, Error> {
    match watching {
        Watching::On(watch) => watch.next().await,
        Watching::Wanted | Watching::Never => std::future::pending().await,
    }
}

/// A number from 0 to 1.
pub(crate) fn chance() -> f64 {
    f64::from((uuid::Uuid::new_v4().as_u128() >> 96) as u32) / f64::from(u32::MAX)
}
