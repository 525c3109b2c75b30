//! One lane a resource: what happens to an event, from the delivery to its settlement. Nothing is lost and nothing is
//! hammered: an event is acknowledged after its report, comes again after what may pass, and is held while a dependency
//! is away.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use hyperfleet_client::{Client, Collection, Context, ItemPath};
use hyperfleet_events::{Delivery, Event, Subject};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::metrics::{Metrics, OfReason};
use crate::engine::{Execution, Finished, Input, Outcome, Program, Settle};
use crate::intake::Gate;

/// Entries of the memory of executions; beyond that it is cleared, and work is repeated without harm.
const CAPACITY: usize = 200_000;
/// An event is given back when its dependency was away for this long, because some brokers count silence.
const HELD: Duration = Duration::from_secs(300);
/// Members of an event that tell its resource.
const TELLING: [&str; 5] = ["id", "kind", "href", "generation", "owner_references"];
const FIRST_PROBE: Duration = Duration::from_millis(500);
const LONGEST_PROBE: Duration = Duration::from_secs(30);
/// Pause before a resource is looked at again when nothing will tell of its change.
const RECHECK: Duration = Duration::from_secs(1);

/// The state of all lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) program: Arc<Program>,
    pub(super) driver: Driver,
    pub(super) client: Client,
    pub(super) attempts: u32,
    pub(super) deadline: Duration,
    pub(super) gate: Gate,
    pub(super) metrics: Metrics,
    pub(super) memory: Mutex<HashMap<String, Last>>,
    pub(super) stop: CancellationToken,
}

/// What is remembered of a resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Last {
    /// When the last good execution began.
    began: Option<Instant>,
    /// The generation that was last reported.
    generation: i64,
    /// Where the resource is.
    item: Option<ItemPath>,
    /// What it was last asked with.
    event: serde_json::Map<String, serde_json::Value>,
    /// Whether an execution runs.
    lane: Arc<tokio::sync::Mutex<()>>,
    /// Whether a look is asked for already.
    pending: Arc<AtomicBool>,
}

impl Lanes {
    fn memory<T>(&self, with: impl FnOnce(&mut HashMap<String, Last>) -> T) -> T {
        with(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn last(&self, id: &str) -> Last {
        self.memory(|all| {
            if all.len() >= CAPACITY && !all.contains_key(id) {
                // Lanes in use stay, so that a resource never has two.
                all.retain(|_, last| Arc::strong_count(&last.lane) > 1);
            }
            all.entry(id.to_owned()).or_default().clone()
        })
    }

    /// Works on an event and settles it.
    pub(super) async fn handle(self: Arc<Self>, delivery: Delivery, cancelled: CancellationToken) {
        let received = Instant::now();
        self.metrics.last_event.set(hyperfleet_core::Timestamp::now().micros() / 1_000_000);
        let Some(subject) = delivery.event.resource() else {
            return self.reject(delivery, "the event names no resource").await;
        };
        let settled = match cancelled.run_until_cancelled(self.settle(&delivery, &subject, received)).await {
            Some(Settled::Acknowledge) => delivery.acknowledge().await,
            None | Some(Settled::GiveBack) => delivery.requeue().await,
            Some(Settled::Retry(why)) => {
                self.metrics.nacks.get_or_create(&OfReason { why: "retry" }).inc();
                delivery.nack(why).await
            }
        };
        self.warn(settled);
    }

    async fn reject(&self, delivery: Delivery, why: &str) {
        self.metrics.nacks.get_or_create(&OfReason { why: "malformed" }).inc();
        self.warn(delivery.nack(why).await);
    }

    fn warn(&self, settled: Result<(), hyperfleet_events::BrokerError>) {
        if let Err(error) = settled {
            tracing::warn!(adapter = self.program.adapter, %error, "an event could not be settled and will be redelivered");
        }
    }

    async fn settle(self: &Arc<Self>, delivery: &Delivery, subject: &Subject, received: Instant) -> Settled {
        let last = self.last(&subject.id);
        let lane = last.lane.lock().await;
        // That execution saw a state at least as new as this event tells of.
        if self.last(&subject.id).began.is_some_and(|began| began > received) {
            self.metrics.superseded.inc();
            return Settled::Acknowledge;
        }
        let mut outage: Option<Outage<'_>> = None;
        loop {
            let finished = self.run(&delivery.event, subject, delivery.attempt).await;
            match finished.settle {
                Settle::Acknowledge => {
                    drop(lane);
                    if finished.recheck {
                        self.look_again(subject.id.clone(), RECHECK);
                    }
                    return Settled::Acknowledge;
                }
                Settle::Retry(why) => return Settled::Retry(why),
                Settle::Outage { reason, retry_after } => {
                    let outage = outage.get_or_insert_with(|| Outage::begin(self, &reason));
                    if outage.since.elapsed() >= HELD {
                        return Settled::GiveBack;
                    }
                    let pause = outage.next().max(retry_after.unwrap_or_default().min(LONGEST_PROBE));
                    if self.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                        return Settled::GiveBack;
                    }
                }
            }
        }
    }

    /// One execution, logged and counted.
    async fn run(&self, event: &Event, subject: &Subject, attempt: u32) -> Finished {
        let began = Instant::now();
        let item = item_of(subject);
        let data = event.data.as_object().cloned().unwrap_or_default();
        let input = Input {
            event: data.clone(),
            id: subject.id.clone(),
            attempt,
            attempts: self.attempts,
            once: false,
            reported_generation: self.last(&subject.id).generation,
        };
        let context = Context { traceparent: event.traceparent.clone(), request_id: None };
        // An invalid trace is dropped.
        let client = self.client.in_context(&context).unwrap_or_else(|_| self.client.clone());
        let execution = Execution::new(self.program.clone(), input);
        let run = self.driver.execute(&client, &item, execution);
        let failed = |why: String| Finished {
            outcome: Outcome::Error,
            settle: Settle::Retry(why),
            generation: 0,
            recheck: false,
            journal: crate::engine::Journal::default(),
        };
        let finished = match tokio::time::timeout(self.deadline, AssertUnwindSafe(run).catch_unwind()).await {
            Ok(Ok(finished)) => finished,
            Ok(Err(_)) => failed("the execution panicked".to_owned()),
            Err(_) => failed(format!("the execution did not end within {:?}", self.deadline)),
        };
        let took = began.elapsed();
        self.metrics.count(&finished, took.as_secs_f64());
        self.log(event, subject, attempt, &finished, took);
        self.memory(|all| {
            if finished.outcome == Outcome::Gone {
                all.remove(&subject.id);
                return;
            }
            let last = all.entry(subject.id.clone()).or_default();
            if finished.generation > 0 {
                // Only what tells the resource: an event may be large, and there are many resources.
                let told = data.into_iter().filter(|(name, _)| TELLING.contains(&name.as_str()));
                (last.item, last.event) = (Some(item), told.collect());
            }
            if finished.settle == Settle::Acknowledge && finished.outcome != Outcome::Error {
                (last.began, last.generation) = (Some(began), finished.generation);
            }
        });
        finished
    }

    fn log(&self, event: &Event, subject: &Subject, attempt: u32, finished: &Finished, took: Duration) {
        let journal = &finished.journal;
        for (level, message) in &journal.logs {
            match *level {
                "error" => tracing::error!(resource_id = subject.id, "[task] {message}"),
                "warn" => tracing::warn!(resource_id = subject.id, "[task] {message}"),
                "debug" => tracing::debug!(resource_id = subject.id, "[task] {message}"),
                _ => tracing::info!(resource_id = subject.id, "[task] {message}"),
            }
        }
        for warning in &journal.warnings {
            tracing::debug!(resource_id = subject.id, "{warning}");
        }
        let operations: Vec<_> =
            journal.resources.iter().map(|record| format!("{}={}", record.name, record.operation)).collect();
        let error = journal.errors.first().map(|(phase, message)| format!("{phase}: {message}"));
        tracing::info!(
            adapter = self.program.adapter,
            event_id = event.id,
            resource_type = subject.kind.as_deref().unwrap_or_default(),
            resource_id = subject.id,
            generation = finished.generation,
            outcome = finished.outcome.name(),
            operations = operations.join(" "),
            error = error.unwrap_or_default(),
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            attempt,
            "executed"
        );
    }

    /// Looks at a resource again, without an event. Looks that are asked for meanwhile become one.
    pub(super) fn look_again(self: &Arc<Self>, id: String, after: Duration) {
        let last = self.last(&id);
        let item = last.item.clone().unwrap_or_else(|| Collection::any().item(&id));
        if last.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        // At most one look a second.
        let since = last.began.map_or(Duration::MAX, |began| began.elapsed());
        let after = after.max(RECHECK.saturating_sub(since));
        let lanes = self.clone();
        tokio::spawn(async move {
            let stop = lanes.stop.clone();
            let look = async {
                tokio::time::sleep(after).await;
                let _lane = last.lane.lock().await;
                last.pending.store(false, Ordering::Release);
                let href = format!("{}{item}", hyperfleet_client::BASE);
                let subject =
                    Subject { id: id.clone(), kind: None, href: Some(href), generation: None, owner: None };
                let mut data = last.event.clone();
                data.entry("id").or_insert_with(|| id.clone().into());
                data.entry("href").or_insert_with(|| subject.href.clone().into());
                let data = serde_json::Value::Object(data);
                let event = Event::reconcile("hyperfleet-adapter", "resource", data, None);
                lanes.run(&event, &subject, 1).await
            };
            let finished = stop.run_until_cancelled(look).await;
            if finished.is_some_and(|finished| finished.recheck || finished.settle != Settle::Acknowledge) {
                lanes.look_again(id.clone(), RECHECK * 5);
            }
        });
    }
}

/// What becomes of a delivery.
enum Settled {
    Acknowledge,
    Retry(String),
    GiveBack,
}

/// A dependency is away: no new deliveries are taken.
struct Outage<'a> {
    lanes: &'a Lanes,
    _closed: crate::intake::Closed,
    since: Instant,
    probes: u32,
}

impl<'a> Outage<'a> {
    fn begin(lanes: &'a Lanes, reason: &str) -> Self {
        tracing::warn!(
            adapter = lanes.program.adapter,
            reason,
            "a dependency is away; no new events are taken"
        );
        let closed = lanes.gate.close();
        lanes.metrics.intake_paused.set(1);
        Self { lanes, _closed: closed, since: Instant::now(), probes: 0 }
    }

    fn next(&mut self) -> Duration {
        self.probes += 1;
        let doubled = FIRST_PROBE.saturating_mul(1 << (self.probes - 1).min(16));
        doubled.min(LONGEST_PROBE).mul_f64(0.75 + fastrand::f64() / 4.0)
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        // This one is still counted.
        if self.lanes.gate.is_held_once() {
            self.lanes.metrics.intake_paused.set(0);
            tracing::info!(adapter = self.lanes.program.adapter, "the dependency is back");
        }
    }
}

/// Where the resource of an event is. The href must end with the id of the event.
pub(crate) fn item_of(subject: &Subject) -> ItemPath {
    let href = subject.href.as_deref().filter(|href| href.rsplit('/').next() == Some(subject.id.as_str()));
    href.and_then(ItemPath::of_href).unwrap_or_else(|| Collection::any().item(&subject.id))
}
