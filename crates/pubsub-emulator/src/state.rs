//! The state of the service: messages that wait, outstanding messages with their subscriber, and delivery counts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::Status;
use uuid::Uuid;

use super::proto::{PubsubMessage, Received};

/// The service lets a lease run out when its holder goes; so that tests need not wait for that, it does so soon.
const AFTER_A_STREAM: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct State {
    world: Mutex<World>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct World {
    topics: HashSet<String>,
    subscriptions: HashMap<String, Subscription>,
}

#[derive(Debug)]
struct Subscription {
    wanted: Value,
    waiting: VecDeque<Waiting>,
    outstanding: HashMap<String, Outstanding>,
}

#[derive(Debug)]
struct Waiting {
    message: PubsubMessage,
    handed_out: u32,
    not_before: Instant,
}

#[derive(Debug)]
struct Outstanding {
    message: PubsubMessage,
    handed_out: u32,
    until: Instant,
    stream: Uuid,
}

/// One open stream of one subscription.
#[derive(Debug, Clone)]
pub(super) struct StreamId {
    subscription: String,
    id: Uuid,
    most: usize,
}

impl State {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(super) fn has_topic(&self, name: &str) -> bool {
        self.world().topics.contains(name)
    }

    pub(super) fn make_topic(&self, name: &str) -> bool {
        self.world().topics.insert(name.to_owned())
    }

    pub(super) fn subscription(&self, name: &str) -> Option<Value> {
        self.world().subscriptions.get(name).map(|subscription| subscription.wanted.clone())
    }

    pub(super) fn make_subscription(&self, name: &str, wanted: &Value) -> bool {
        let mut world = self.world();
        if world.subscriptions.contains_key(name) {
            return false;
        }
        let (wanted, waiting, outstanding) = (wanted.clone(), VecDeque::new(), HashMap::new());
        world.subscriptions.insert(name.to_owned(), Subscription { wanted, waiting, outstanding });
        true
    }

    pub(super) fn remove_subscription(&self, name: &str) -> bool {
        self.world().subscriptions.remove(name).is_some()
    }

    pub(super) fn publish(&self, topic: &str, messages: Vec<PubsubMessage>) -> Result<Vec<String>, Status> {
        let mut world = self.world();
        if !world.topics.contains(topic) {
            return Err(Status::not_found("no such topic"));
        }
        let mut ids = Vec::new();
        for mut message in messages {
            message.message_id = Uuid::now_v7().to_string();
            ids.push(message.message_id.clone());
            for subscription in world.subscriptions.values_mut() {
                if subscription.wanted["topic"] == topic {
                    let (message, not_before) = (message.clone(), Instant::now());
                    subscription.waiting.push_back(Waiting { message, handed_out: 0, not_before });
                }
            }
        }
        self.changed.notify_waiters();
        Ok(ids)
    }

    pub(super) fn open(&self, subscription: &str, most: i64) -> Result<StreamId, Status> {
        if !self.world().subscriptions.contains_key(subscription) {
            return Err(Status::not_found("no such subscription"));
        }
        let most = usize::try_from(most).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
        Ok(StreamId { subscription: subscription.to_owned(), id: Uuid::new_v4(), most })
    }

    pub(super) fn close(&self, stream: &StreamId) {
        if let Some(subscription) = self.world().subscriptions.get_mut(&stream.subscription) {
            let soon = Instant::now() + AFTER_A_STREAM;
            for lease in subscription.outstanding.values_mut().filter(|lease| lease.stream == stream.id) {
                lease.until = lease.until.min(soon);
            }
        }
    }

    /// Hands out what is due, as far as the stream may hold it.
    pub(super) fn lease(&self, stream: &StreamId) -> Result<Vec<Received>, Status> {
        let mut world = self.world();
        let subscription = world
            .subscriptions
            .get_mut(&stream.subscription)
            .ok_or_else(|| Status::not_found("no such subscription"))?;
        let now = Instant::now();
        let ended: Vec<String> = subscription
            .outstanding
            .iter()
            .filter(|(_, lease)| lease.until <= now)
            .map(|(id, _)| id.clone())
            .collect();
        ended.iter().for_each(|id| subscription.take_back(id));
        let counts = subscription.wanted.get("deadLetterPolicy").is_some();
        let held = subscription.outstanding.values().filter(|lease| lease.stream == stream.id).count();
        let mut received = Vec::new();
        while held + received.len() < stream.most {
            let Some(place) = subscription.waiting.iter().position(|waiting| waiting.not_before <= now)
            else {
                break;
            };
            let Some(Waiting { message, handed_out, .. }) = subscription.waiting.remove(place) else { break };
            let (ack_id, handed_out) = (Uuid::new_v4().to_string(), handed_out + 1);
            let delivery_attempt = if counts { i32::try_from(handed_out).unwrap_or(i32::MAX) } else { 0 };
            received.push(Received {
                ack_id: ack_id.clone(),
                message: Some(message.clone()),
                delivery_attempt,
            });
            let until = now + Duration::from_secs(60);
            subscription
                .outstanding
                .insert(ack_id, Outstanding { message, handed_out, until, stream: stream.id });
        }
        Ok(received)
    }

    pub(super) fn acknowledge(&self, subscription: &str, ack_ids: &[String]) {
        if let Some(subscription) = self.world().subscriptions.get_mut(subscription) {
            ack_ids.iter().for_each(|id| drop(subscription.outstanding.remove(id)));
        }
        self.changed.notify_waiters();
    }

    /// No time at all means that the message is not wanted now.
    pub(super) fn modify_ack_deadline(&self, subscription: &str, ack_ids: &[String], time: Duration) {
        if let Some(subscription) = self.world().subscriptions.get_mut(subscription) {
            for id in ack_ids {
                if time.is_zero() {
                    subscription.take_back(id);
                } else if let Some(lease) = subscription.outstanding.get_mut(id) {
                    lease.until = Instant::now() + time;
                }
            }
        }
        self.changed.notify_waiters();
    }
}

impl Subscription {
    fn take_back(&mut self, ack_id: &str) {
        let Some(Outstanding { message, handed_out, .. }) = self.outstanding.remove(ack_id) else { return };
        let policy = &self.wanted["retryPolicy"];
        let time = |name: &str| -> f64 {
            policy[name].as_str().and_then(|text| text.trim_end_matches('s').parse().ok()).unwrap_or(0.0)
        };
        let wait = time("minimumBackoff") * f64::powi(2.0, i32::try_from(handed_out).unwrap_or(i32::MAX) - 1);
        let not_before = Instant::now() + Duration::from_secs_f64(wait.min(time("maximumBackoff")));
        self.waiting.push_back(Waiting { message, handed_out, not_before });
    }
}
