//! Runs one kind: feeds watch and searches into the schedule, and publishes due events. It decides nothing itself.

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

use crate::backoff::{age, shifted};
use crate::context::Context;
use crate::decide::Reason;
use crate::event::{self, Made};
use crate::membership::{Assignment, Ownership};
use crate::metrics::{OfReason, OfType};
use crate::observed::{Observed, Origin};
use crate::resync::Resync;
use crate::schedule::{Publication, Schedule};
use crate::search::{self, Search, SearchResults};

/// How often the watch is checked and pending resources are counted.
const TICK: Duration = Duration::from_secs(1);

pub(crate) struct Controller {
    plural: String,
    collection: Collection,
    topic: String,
    context: Context,
    assignment: watch::Receiver<Assignment>,
    schedule: Schedule,
    resync: Resync,
    watching: Watching,
    search: Option<RunningSearch>,
    /// Searches read everything, because the API has no conditions in its filters or `message_decision` is set.
    reads_all: bool,
    in_flight: JoinSet<(Publication, Result<(), BrokerError>)>,
    /// When pending resources were last counted, which visits all of them.
    counted: Option<Instant>,
}

enum Watching {
    /// The next search tells the position to begin at.
    Wanted,
    On(Watch),
    /// The API has no watch.
    Never,
}

struct RunningSearch {
    found: mpsc::Receiver<SearchResults>,
    since: Instant,
}

enum Input {
    SearchResults(Option<SearchResults>),
    Changed(Box<Result<WatchEvent, Error>>),
    Published(Publication, Result<(), BrokerError>),
    Time,
}

impl Controller {
    pub(crate) fn new(plural: &str, context: Context, assignment: watch::Receiver<Assignment>) -> Self {
        let work = &context.work;
        Self {
            plural: plural.to_owned(),
            collection: Collection::of(plural),
            topic: work.topic_of(plural),
            assignment,
            schedule: Schedule::new(work.parallel, work.decision.clone()),
            resync: Resync::new(work.poll_interval, context.clock.now()),
            watching: Watching::Wanted,
            search: None,
            reads_all: work.decision.is_some(),
            in_flight: JoinSet::new(),
            counted: None,
            context,
        }
    }

    /// Runs until the stop, and then waits for events in flight.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            let now = self.context.clock.now();
            self.act(now);
            let input = tokio::select! {
                () = stop.cancelled() => break,
                input = self.next(now) => input,
            };
            self.take(input);
        }
        while let Some(publish_ended) = self.in_flight.join_next().await {
            if let Ok((publication, outcome)) = publish_ended {
                self.publish_ended(&publication, outcome.as_ref().copied());
            }
        }
        self.context.forget(&self.plural);
        self.context.metrics.pending.remove(&self.labels());
    }

    async fn next(&mut self, now: Timestamp) -> Input {
        let until = self.assignment.borrow().until().filter(|until| *until > now);
        let wake = [self.resync.wake_at(), self.schedule.wake_at(), until].into_iter().flatten().min();
        let wait = wake.map_or(TICK, |wake| age(now, wake).min(TICK));
        tokio::select! {
            found = async { self.search.as_mut()?.found.recv().await }, if self.search.is_some() => Input::SearchResults(found),
            changed = changed(&mut self.watching) => Input::Changed(Box::new(changed)),
            Some(publish_ended) = self.in_flight.join_next(), if !self.in_flight.is_empty() => match publish_ended {
                Ok((publication, outcome)) => Input::Published(publication, outcome),
                Err(_) => Input::Time,
            },
            Ok(()) = self.assignment.changed() => Input::Time,
            () = tokio::time::sleep(wait) => Input::Time,
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.context.clock.now();
        match input {
            Input::Time => {}
            Input::Published(publication, outcome) => {
                self.publish_ended(&publication, outcome.as_ref().copied());
            }
            Input::SearchResults(Some(SearchResults::Page(version, items))) => {
                for item in items {
                    self.observe(item, Origin::List(version), now);
                }
            }
            Input::SearchResults(Some(SearchResults::End(end))) => self.resync_ended(end, now),
            Input::SearchResults(None) => {
                // The search panicked.
                let error = Error::unreachable(self.collection.to_string(), "the search panicked");
                self.resync_ended(Err(error), now);
            }
            Input::Changed(changed) => self.changed(*changed, now),
        }
    }

    /// Applies the current ranges, starts a due search, and publishes due events.
    fn act(&mut self, now: Timestamp) {
        let assignment = *self.assignment.borrow_and_update();
        match assignment.at(now) {
            Ownership::Lapsed => self.schedule.pause(),
            Ownership::Owns(ranges) => {
                if self.schedule.set_ranges(ranges, assignment.standby(), now) {
                    self.resync.request(now);
                }
            }
        }
        if let Watching::On(watch) = &self.watching
            && self.resync.set_watching(watch.is_connected(), now)
        {
            self.context.returned.notify_one();
        }
        self.resync.set_kinds(self.context.kinds.load(Ordering::Relaxed));
        if self.resync.begin(now) {
            self.start_resync(now);
        }
        while let Some(publication) = self.schedule.take_due(now) {
            self.publish(publication);
        }
        if self.counted.is_none_or(|counted| counted.elapsed() >= TICK) {
            self.counted = Some(Instant::now());
            self.context.metrics.pending.get_or_create(&self.labels()).set(self.schedule.pending() as i64);
        }
    }

    fn start_resync(&mut self, now: Timestamp) {
        self.schedule.resync_begins();
        let work = &self.context.work;
        let search = Search {
            client: self.context.client.clone(),
            collection: self.collection.clone(),
            page_size: work.page_size,
            filters: match self.reads_all {
                true => vec![search::selector(work)],
                false => search::due(work, shifted(now, self.context.api_ahead())),
            },
            fields: search::fields(work),
        };
        self.search = Some(RunningSearch { found: search.begin(), since: Instant::now() });
    }

    fn resync_ended(&mut self, end: Result<Option<String>, Error>, now: Timestamp) {
        let took = self.search.take().map(|search| search.since.elapsed()).unwrap_or_default();
        self.schedule.resync_ends(end.is_ok());
        self.context.record_api(&self.plural, end.as_ref().map(|_| ()));
        match end {
            Ok(position) => {
                self.resync.succeeded();
                let metrics = &self.context.metrics;
                metrics.poll_seconds.get_or_create(&self.labels()).observe(took.as_secs_f64());
                metrics.last_poll.get_or_create(&self.labels()).set(Timestamp::now().micros() / 1_000_000);
                if matches!(self.watching, Watching::Wanted)
                    && let Some(since) = position
                {
                    self.watching = Watching::On(self.watch(since));
                }
            }
            // A page token is refused when the database was restored meanwhile.
            Err(error) if error.status() == Some(400) && !self.reads_all && !concerns_page(&error) => {
                tracing::info!(
                    resource_type = self.plural,
                    "the API cannot filter by conditions; every search reads all resources"
                );
                self.reads_all = true;
                self.resync.succeeded();
                self.resync.request(now);
            }
            Err(error) => {
                if error.is_not_found() {
                    self.context.returned.notify_one();
                }
                self.resync.failed(now, fastrand::f64(), error.retry_after());
            }
        }
    }

    fn watch(&self, since: String) -> Watch {
        let query = WatchQuery {
            search: search::selector(&self.context.work),
            since: Some(since),
            fields: search::fields(&self.context.work),
            show_deleted: true,
            kind: None,
        };
        self.context.client.watch(&self.collection, &query)
    }

    fn changed(&mut self, changed: Result<WatchEvent, Error>, now: Timestamp) {
        match changed {
            Ok(WatchEvent::Added { version, resource } | WatchEvent::Modified { version, resource }) => {
                self.observe(resource, Origin::Watch(version), now);
            }
            Ok(WatchEvent::Deleted { version, resource }) => self.schedule.gone(resource.id(), Some(version)),
            Ok(WatchEvent::Bookmark { .. }) => {}
            Ok(WatchEvent::Restart) => {
                // The watch would now send the whole fleet; a search finds what is due in it. What is known may be of a
                // database that was restored, and would look newer than what is there now.
                self.watching = Watching::Wanted;
                self.schedule.history_ended();
                if self.search.take().is_some() {
                    self.resync.succeeded();
                }
                self.resync.set_watching(false, now);
                self.resync.request(now);
            }
            Err(Error::NoWatch) => {
                tracing::info!(
                    resource_type = self.plural,
                    "the API has no watch; changes are found by polling"
                );
                self.watching = Watching::Never;
                self.resync.set_watching(false, now);
            }
            Err(error) => {
                self.resync.set_watching(false, now);
                tracing::debug!(resource_type = self.plural, error = %error, "the watch was refused");
            }
        }
    }

    fn observe(&mut self, resource: Resource, origin: Origin, now: Timestamp) {
        let ahead = self.context.api_ahead();
        let observed = Observed::read(Arc::new(resource.into_value()), origin, shifted(now, ahead));
        let Some(observed) = observed.map(|observed| observed.by_clock_behind(ahead)) else { return };
        let work = &self.context.work;
        let observed =
            if work.decision.is_none() && work.data.is_none() { observed.slim() } else { observed };
        if let Some(skip) = self.schedule.observe(observed, now) {
            let labels = OfReason { resource_type: self.plural.clone(), reason: skip.as_str() };
            self.context.metrics.skipped.get_or_create(&labels).inc();
        }
        let displaced = self.schedule.take_displaced();
        if displaced > 0 {
            self.context.metrics.forgotten.get_or_create(&self.labels()).inc_by(displaced);
        }
        if let Some(fault) = self.schedule.take_fault() {
            tracing::warn!(resource_type = self.plural, fault, "message_decision failed");
        }
    }

    fn publish(&mut self, publication: Publication) {
        let observed = &publication.observed;
        let Made { event, fault } =
            event::make(&self.context.source, &self.context.work, &self.plural, observed, publication.reason);
        if let Some(fault) = fault {
            tracing::warn!(resource_type = self.plural, id = &*observed.id, fault, "message_data failed");
        }
        let evaluate = tracing::info_span!(
            "sentinel.evaluate",
            resource_type = self.plural,
            resource_id = &*observed.id,
            trace_id = event::trace_of(&event)
        );
        let span = tracing::info_span!(parent: &evaluate, "publish", topic = self.topic);
        let (broker, topic) = (self.context.broker.clone(), self.topic.clone());
        let publish = async move {
            let outcome = broker.publish(&topic, &event).await;
            match &outcome {
                Ok(()) => {
                    tracing::debug!(event = event.id, reason = publication.reason.as_str(), "published");
                }
                Err(error) => tracing::debug!(event = event.id, error = %error, "publish failed"),
            }
            (publication, outcome)
        };
        self.in_flight.spawn(publish.instrument(span));
    }

    fn publish_ended(&mut self, publication: &Publication, outcome: Result<(), &BrokerError>) {
        let now = self.context.clock.now();
        self.context.record_broker(&self.plural, outcome);
        if outcome.is_err() {
            return self.schedule.failed(publication, now, fastrand::f64());
        }
        self.schedule.published(publication, now);
        let metrics = &self.context.metrics;
        let reason = publication.reason;
        let labels = OfReason { resource_type: self.plural.clone(), reason: reason.as_str() };
        metrics.published.get_or_create(&labels).inc();
        let changed = match reason {
            Reason::NewGeneration if publication.observed.from_watch => publication.observed.updated(),
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

fn concerns_page(error: &Error) -> bool {
    error.problem().is_some_and(|problem| problem.errors.iter().any(|error| error.field == "pageToken"))
}

async fn changed(watching: &mut Watching) -> Result<WatchEvent, Error> {
    match watching {
        Watching::On(watch) => watch.next().await,
        Watching::Wanted | Watching::Never => std::future::pending().await,
    }
}
