//! The broker in this process, for `hyperfleet up` and tests: bounded, with the guarantees of the others for the life of
//! the process, and on tokio's clock, which tests can pause.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::broker::{RawMessage, Receipt as AnyReceipt};
use crate::error::BrokerError;
use crate::message::Message;

/// Unacknowledged messages of one subscription; beyond that a publish is refused.
const MAX_UNACKNOWLEDGED: usize = 100_000;
/// Beyond this many dead letters of a subscription the oldest are removed.
const MAX_DEAD_LETTERS: usize = 10_000;
/// Messages that a tail may lag behind before it misses some.
const TAIL_BUFFER: usize = 1_024;

/// Clones share one broker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    topics: HashMap<String, Topic>,
    dead_letters: HashMap<String, VecDeque<Message>>,
}

#[derive(Debug)]
struct Topic {
    subscriptions: HashMap<String, Arc<Queue>>,
    tails: broadcast::Sender<Message>,
}

impl Default for Topic {
    fn default() -> Self {
        Self { subscriptions: HashMap::new(), tails: broadcast::channel(TAIL_BUFFER).0 }
    }
}

#[derive(Debug, Default)]
struct Queue {
    content: Mutex<Content>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Content {
    ready: VecDeque<Queued>,
    delayed: BTreeMap<(Instant, u64), Queued>,
    /// Distinguishes messages that are due at the same time.
    sequence: u64,
    in_flight: usize,
}

#[derive(Debug)]
struct Queued {
    message: Message,
    deliveries: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let mut state = lock(&self.0);
        let Some(topic) = state.topics.get_mut(topic) else { return Ok(()) };
        // All or none, because a retried publish would reach some subscriptions twice otherwise.
        let full = topic.subscriptions.iter().find(|(_, queue)| lock(&queue.content).is_full());
        if let Some((name, _)) = full {
            return Err(BrokerError::Full(name.clone()));
        }
        for queue in topic.subscriptions.values() {
            lock(&queue.content).ready.push_back(Queued { message: message.clone(), deliveries: 0 });
            queue.arrived.notify_one();
        }
        // There may be no tail.
        let _ = topic.tails.send(message);
        Ok(())
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str) -> Source {
        let mut state = lock(&self.0);
        let topic = state.topics.entry(topic.to_owned()).or_default();
        Source(Arc::clone(topic.subscriptions.entry(subscription.to_owned()).or_default()))
    }

    pub(crate) fn tail_source(&self, topic: &str) -> TailSource {
        TailSource(lock(&self.0).topics.entry(topic.to_owned()).or_default().tails.subscribe())
    }

    pub(crate) async fn put_dead_letter(
        &self,
        destination: &str,
        letter: Message,
    ) -> Result<(), BrokerError> {
        let mut state = lock(&self.0);
        let dead_letters = state.dead_letters.entry(destination.to_owned()).or_default();
        if dead_letters.len() >= MAX_DEAD_LETTERS {
            dead_letters.pop_front();
        }
        dead_letters.push_back(letter);
        Ok(())
    }

    pub(crate) async fn dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<Message>, BrokerError> {
        let state = lock(&self.0);
        Ok(state.dead_letters.get(destination).into_iter().flatten().take(limit).cloned().collect())
    }

    pub(crate) async fn remove_dead_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let mut state = lock(&self.0);
        let Some(dead_letters) = state.dead_letters.get_mut(destination) else { return Ok(0) };
        let before = dead_letters.len();
        dead_letters.retain(|letter| !ids.contains(letter.id.as_str()));
        Ok(before - dead_letters.len())
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Content {
    fn is_full(&self) -> bool {
        self.ready.len() + self.delayed.len() + self.in_flight >= MAX_UNACKNOWLEDGED
    }

    fn take(&mut self) -> Option<Queued> {
        while let Some(due) = self.delayed.first_entry().filter(|entry| entry.key().0 <= Instant::now()) {
            self.ready.push_back(due.remove());
        }
        let mut queued = self.ready.pop_front()?;
        queued.deliveries += 1;
        self.in_flight += 1;
        Some(queued)
    }
}

/// A consumer of a queue.
#[derive(Debug)]
pub(crate) struct Source(Arc<Queue>);

impl Source {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    pub(crate) async fn next(&mut self, _prefetch: usize) -> Result<RawMessage, BrokerError> {
        loop {
            let (taken, delayed) = {
                let mut content = lock(&self.0.content);
                (content.take(), content.delayed.first_key_value().map(|((due, _), _)| *due))
            };
            if let Some(Queued { message, deliveries }) = taken {
                // Another consumer may wait for what is left.
                self.0.arrived.notify_one();
                let receipt =
                    Receipt { queue: Arc::clone(&self.0), message: Some(message.clone()), deliveries };
                return Ok(RawMessage { message, attempt: deliveries, receipt: AnyReceipt::Memory(receipt) });
            }
            let due = async {
                match delayed {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.0.arrived.notified() => {}
                () = due => {}
            }
        }
    }

    pub(crate) async fn stop_consuming(&mut self) -> Vec<RawMessage> {
        // Nothing is prefetched.
        Vec::new()
    }

    pub(crate) async fn close(self) {
        // Passes on a notification that this consumer may have received.
        self.0.arrived.notify_one();
    }
}

/// Settles one message. Dropping it requeues the message.
#[derive(Debug)]
pub(crate) struct Receipt {
    queue: Arc<Queue>,
    message: Option<Message>,
    deliveries: u32,
}

impl Receipt {
    pub(crate) async fn acknowledge(mut self) -> Result<(), BrokerError> {
        self.message = None;
        lock(&self.queue.content).in_flight -= 1;
        Ok(())
    }

    pub(crate) async fn redeliver_after(mut self, after: Duration) -> Result<(), BrokerError> {
        self.put_back(Some(Instant::now() + after));
        Ok(())
    }

    pub(crate) async fn requeue(mut self) -> Result<(), BrokerError> {
        self.deliveries -= 1;
        self.put_back(None);
        Ok(())
    }

    fn put_back(&mut self, due: Option<Instant>) {
        let Some(message) = self.message.take() else { return };
        let queued = Queued { message, deliveries: self.deliveries };
        let mut content = lock(&self.queue.content);
        content.in_flight -= 1;
        match due {
            None => content.ready.push_front(queued),
            Some(due) => {
                content.sequence += 1;
                let key = (due, content.sequence);
                content.delayed.insert(key, queued);
            }
        }
        drop(content);
        self.queue.arrived.notify_one();
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.put_back(None);
    }
}

/// The broker's side of a tail.
#[derive(Debug)]
pub(crate) struct TailSource(broadcast::Receiver<Message>);

impl TailSource {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        loop {
            match self.0.recv().await {
                Ok(message) => return Ok(message),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    pub(crate) async fn close(self) {}
}
