//! The broker within one process, for the single-process mode and for tests: the same promises as the others as
//! long as the process lives, bounded, and on tokio's clock, so that a paused clock drives it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::broker::{Raw, Receipt as AnyReceipt};
use crate::error::BrokerError;
use crate::message::Message;

/// Most messages of one subscription that are not settled; more are refused, and their publisher comes again.
const WAITING_AT_MOST: usize = 100_000;
/// Most dead letters of one subscription; the oldest go first.
const LETTERS_AT_MOST: usize = 10_000;
/// Messages that a look may be behind before it misses some.
const SEEN_BEHIND: usize = 1_024;

/// A handle on the broker; clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    topics: HashMap<String, Topic>,
    letters: HashMap<String, VecDeque<Message>>,
}

#[derive(Debug)]
struct Topic {
    subscriptions: HashMap<String, Arc<Queue>>,
    looks: broadcast::Sender<Message>,
}

impl Default for Topic {
    fn default() -> Self {
        Self { subscriptions: HashMap::new(), looks: broadcast::channel(SEEN_BEHIND).0 }
    }
}

#[derive(Debug, Default)]
struct Queue {
    content: Mutex<Content>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Content {
    ready: VecDeque<Pending>,
    later: BTreeMap<(Instant, u64), Pending>,
    /// Tells those apart that come again at one moment.
    sequence: u64,
    out: usize,
}

#[derive(Debug)]
struct Pending {
    message: Message,
    handed_out: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let mut state = lock(&self.0);
        let Some(topic) = state.topics.get_mut(topic) else { return Ok(()) };
        // All or none: otherwise the publisher's second try would come twice to some.
        let full = topic.subscriptions.iter().find(|(_, queue)| lock(&queue.content).is_full());
        if let Some((name, _)) = full {
            return Err(BrokerError::Full(name.clone()));
        }
        for queue in topic.subscriptions.values() {
            lock(&queue.content).ready.push_back(Pending { message: message.clone(), handed_out: 0 });
            queue.arrived.notify_one();
        }
        // Nobody may be looking.
        let _ = topic.looks.send(message);
        Ok(())
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str) -> Source {
        let mut state = lock(&self.0);
        let topic = state.topics.entry(topic.to_owned()).or_default();
        Source(Arc::clone(topic.subscriptions.entry(subscription.to_owned()).or_default()))
    }

    pub(crate) fn look(&self, topic: &str) -> Look {
        Look(lock(&self.0).topics.entry(topic.to_owned()).or_default().looks.subscribe())
    }

    pub(crate) async fn put_letter(&self, destination: &str, letter: Message) -> Result<(), BrokerError> {
        let mut state = lock(&self.0);
        let letters = state.letters.entry(destination.to_owned()).or_default();
        if letters.len() >= LETTERS_AT_MOST {
            letters.pop_front();
        }
        letters.push_back(letter);
        Ok(())
    }

    pub(crate) async fn letters(&self, destination: &str, limit: usize) -> Result<Vec<Message>, BrokerError> {
        let state = lock(&self.0);
        Ok(state.letters.get(destination).into_iter().flatten().take(limit).cloned().collect())
    }

    pub(crate) async fn remove_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let mut state = lock(&self.0);
        let Some(letters) = state.letters.get_mut(destination) else { return Ok(0) };
        let before = letters.len();
        letters.retain(|letter| !ids.contains(letter.id.as_str()));
        Ok(before - letters.len())
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Content {
    fn is_full(&self) -> bool {
        self.ready.len() + self.later.len() + self.out >= WAITING_AT_MOST
    }

    fn take(&mut self) -> Option<Pending> {
        while let Some(due) = self.later.first_entry().filter(|entry| entry.key().0 <= Instant::now()) {
            self.ready.push_back(due.remove());
        }
        let mut pending = self.ready.pop_front()?;
        pending.handed_out += 1;
        self.out += 1;
        Some(pending)
    }
}

/// Where a subscription's messages come from.
#[derive(Debug)]
pub(crate) struct Source(Arc<Queue>);

impl Source {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        Ok(())
    }

    pub(crate) async fn next(&mut self, _room: usize) -> Result<Raw, BrokerError> {
        loop {
            let (taken, later) = {
                let mut content = lock(&self.0.content);
                (content.take(), content.later.first_key_value().map(|((due, _), _)| *due))
            };
            if let Some(Pending { message, handed_out }) = taken {
                // Another process-wide user of this subscription may wait for what is left.
                self.0.arrived.notify_one();
                let receipt =
                    Receipt { queue: Arc::clone(&self.0), message: Some(message.clone()), handed_out };
                return Ok(Raw { message, attempt: handed_out, receipt: AnyReceipt::Memory(receipt) });
            }
            let due = async {
                match later {
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

    pub(crate) async fn stop_taking(&mut self) -> Vec<Raw> {
        // Only who asks is given anything.
        Vec::new()
    }

    pub(crate) async fn close(self) {
        // Another user of this subscription waits from now on for what this one was waiting for.
        self.0.arrived.notify_one();
    }
}

/// The right to settle one message; dropped, it gives the message back.
#[derive(Debug)]
pub(crate) struct Receipt {
    queue: Arc<Queue>,
    message: Option<Message>,
    handed_out: u32,
}

impl Receipt {
    pub(crate) async fn acknowledge(mut self) -> Result<(), BrokerError> {
        self.message = None;
        lock(&self.queue.content).out -= 1;
        Ok(())
    }

    pub(crate) async fn retry(mut self, after: Duration) -> Result<(), BrokerError> {
        self.put_back(Some(Instant::now() + after));
        Ok(())
    }

    pub(crate) async fn give_back(mut self) -> Result<(), BrokerError> {
        self.handed_out -= 1;
        self.put_back(None);
        Ok(())
    }

    fn put_back(&mut self, due: Option<Instant>) {
        let Some(message) = self.message.take() else { return };
        let pending = Pending { message, handed_out: self.handed_out };
        let mut content = lock(&self.queue.content);
        content.out -= 1;
        match due {
            None => content.ready.push_front(pending),
            Some(due) => {
                content.sequence += 1;
                let key = (due, content.sequence);
                content.later.insert(key, pending);
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

/// A look at a topic.
#[derive(Debug)]
pub(crate) struct Look(broadcast::Receiver<Message>);

impl Look {
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
