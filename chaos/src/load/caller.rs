//! What all clients share, and one client: how it sends requests, what answers mean, and what is recorded of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyperfleet_testkit::{Answer, Call, Client};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use uuid::Uuid;

use super::BASE;
use crate::history::{Action, History, Micros, Operation, OperationId, Outcome};

/// A client waits so long for an answer; then the outcome is unknown to it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A cluster or NodePool that can be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) id: Uuid,
    pub(super) plural: &'static str,
    pub(super) owner: Option<Uuid>,
}

impl Target {
    pub(super) fn path(&self) -> String {
        format!("{BASE}/{}/{}", self.plural, self.id)
    }
}

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    began: Instant,
    /// The replicas, through their proxies.
    pub(crate) replicas: Vec<Client>,
    history: Mutex<History>,
    /// Resources that writers may choose; those that come and go stand behind the counters.
    targets: Mutex<Vec<Target>>,
    /// Requests a second of all clients.
    rate: u32,
    pub(super) stop: watch::Sender<bool>,
    /// The version that watchers follow the feed to.
    pub(super) finish: watch::Sender<Option<u64>>,
}

impl Shared {
    pub(super) fn new(replicas: Vec<Client>, began: Instant, rate: u32) -> Self {
        Self {
            began,
            replicas,
            history: Mutex::default(),
            targets: Mutex::default(),
            rate,
            stop: watch::Sender::new(false),
            finish: watch::Sender::new(None),
        }
    }

    pub(crate) fn now(&self) -> Micros {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn targets(&self) -> MutexGuard<'_, Vec<Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Sends a call once. Nothing when no whole answer came in time.
    pub(super) async fn send(&self, call: Call) -> Option<Answer> {
        let answer = tokio::time::timeout(PATIENCE, call.send()).await.ok().and_then(Result::ok);
        *self.history().answers.entry(answer.as_ref().map_or(0, |answer| answer.status)).or_default() += 1;
        answer
    }

    /// What an answer means for a write. Codes of `refusals` are what the situation may bring; another refusal of a valid
    /// request is out of place, and so is a 500: no fault of the surroundings is one of the server.
    pub(super) fn outcome(&self, what: &str, answer: Option<&Answer>, refusals: &[&str]) -> Outcome {
        let Some(answer) = answer else { return Outcome::Unknown };
        match answer.status {
            200..300 => Outcome::Acknowledged { version: answer.version() },
            501.. => Outcome::Unknown,
            status => {
                let code = code(answer);
                if !refusals.contains(&code.as_str()) {
                    let body = String::from_utf8_lossy(&answer.body);
                    self.unexpected(format!("{what}: {status} {body}"));
                }
                if status == 500 { Outcome::Unknown } else { Outcome::Refused }
            }
        }
    }

    pub(super) fn unexpected(&self, what: String) {
        let mut history = self.history();
        // The first ones tell; the list must not grow with an outage.
        if history.unexpected.len() < 1000 {
            history.unexpected.push(what);
        }
    }

    pub(super) fn record(&self, operation: Operation) {
        let mut history = self.history();
        if operation.is_acknowledged() {
            history.acknowledged.push(operation.ended);
        }
        history.operations.push(operation);
    }
}

fn code(answer: &Answer) -> String {
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    body["code"].as_str().unwrap_or_default().to_owned()
}

/// A client: its number, its random choices, and the replica that it talks to.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) shared: Arc<Shared>,
    pub(super) client: u16,
    number: u32,
    pub(super) home: usize,
    /// The last request has failed.
    pub(super) was_lost: bool,
    pub(super) random: fastrand::Rng,
}

impl Caller {
    pub(super) fn new(shared: &Arc<Shared>, client: u16, random: fastrand::Rng) -> Self {
        let home = usize::from(client) % shared.replicas.len();
        Self { shared: Arc::clone(shared), client, number: 0, home, was_lost: false, random }
    }

    /// Ticks for one of `clients` that make up `percent` of the load. They begin at any time, so that clients do not come
    /// all at once.
    pub(super) fn pace(&mut self, clients: usize, percent: u32) -> Interval {
        let rate = f64::from(self.shared.rate * percent) / 100.0 / clients as f64;
        let period = Duration::from_secs_f64(1.0 / rate);
        let mut interval = interval_at(Instant::now() + period.mul_f64(self.random.f64()), period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        interval
    }

    pub(super) fn next_id(&mut self) -> OperationId {
        self.number += 1;
        OperationId { client: self.client, number: self.number }
    }

    /// Its own replica, or any other after a failure, as behind a load balancer.
    pub(super) fn replica(&mut self) -> Client {
        let replicas = &self.shared.replicas;
        let away = if self.was_lost { self.random.usize(1..replicas.len().max(2)) } else { 0 };
        replicas[(self.home + away) % replicas.len()].clone()
    }

    /// Sends one write and records it.
    pub(super) async fn write(
        &mut self,
        id: OperationId,
        action: Action,
        target: Target,
        refusals: &[&str],
        call: impl FnOnce(Client) -> Call,
    ) -> Outcome {
        let call = call(self.replica());
        let started = self.shared.now();
        let answer = self.shared.send(call).await;
        let outcome = self.shared.outcome(&format!("{id} {action:?}"), answer.as_ref(), refusals);
        self.was_lost = outcome == Outcome::Unknown;
        let resource = Some(target.id);
        let ended = self.shared.now();
        self.shared.record(Operation { id, action, resource, started, ended, outcome });
        outcome
    }
}
