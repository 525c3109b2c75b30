//! A subscription's work: whose turn it is, what a failure leads to, and how it ends. The rules live here, once,
//! whatever the broker is. Taking ahead is bounded by permits that travel with each message until it is settled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::backoff::{Reconnect, after_failures};
use crate::broker::{Broker, Raw, Receipt, Source};
use crate::error::BrokerError;
use crate::event::Event;
use crate::lanes::Lanes;
use crate::message::{FOR, Message};
use crate::metrics::TopicMetrics;

/// Messages that are given back at one time.
const GIVEN_BACK_AT_ONCE: usize = 64;

/// How a subscription works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Deliveries that are out at one time.
    pub parallelism: usize,
    /// How often an event is handed out before it becomes a dead letter.
    pub max_deliveries: u32,
    /// The wait after the first failure, doubled with each further one.
    pub backoff_initial: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
    /// Messages that are held at one time, those out included; twice `parallelism` when not given.
    pub take_ahead: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parallelism: 10,
            max_deliveries: 5,
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            take_ahead: None,
        }
    }
}

impl Options {
    /// Messages that are held at one time, those out included.
    pub(crate) fn window(&self) -> usize {
        self.take_ahead.unwrap_or(self.parallelism.saturating_mul(2)).max(self.parallelism).max(1)
    }
}

/// A running subscription. Dropped, it ends in the background as [`Subscription::drain`] does.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    attached: watch::Receiver<bool>,
    feed: JoinHandle<()>,
    _ends_with_this: DropGuard,
}

#[derive(Debug)]
struct Shared {
    broker: Broker,
    topic: String,
    name: String,
    options: Options,
    metrics: TopicMetrics,
    lanes: Mutex<Lanes<Taken>>,
    /// Rung when a message came in and when one was settled.
    changed: Notify,
    /// Rung when nothing is out any more.
    idle: Notify,
    closing: CancellationToken,
    /// From then on the broker hands out nothing more to this one: what is given back goes to others.
    stopped: CancellationToken,
    /// Settling goes on when the caller stops waiting for it, and ends before the source is closed.
    settling: TaskTracker,
    runtime: Handle,
}

/// A message that is ours until it is settled.
#[derive(Debug)]
struct Taken {
    event: Event,
    message: Message,
    attempt: u32,
    receipt: Receipt,
    room: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn start(broker: Broker, topic: &str, name: &str, options: Options) -> Self {
        let source = broker.link.source(topic, name, &options);
        let (attach, attached) = watch::channel(false);
        let closing = CancellationToken::new();
        let shared = Arc::new(Shared {
            metrics: broker.topic_metrics(topic),
            broker,
            topic: topic.to_owned(),
            name: name.to_owned(),
            lanes: Mutex::new(Lanes::new(options.parallelism)),
            options,
            changed: Notify::new(),
            idle: Notify::new(),
            closing: closing.clone(),
            stopped: CancellationToken::new(),
            settling: TaskTracker::new(),
            runtime: Handle::current(),
        });
        let feed = tokio::spawn(Arc::clone(&shared).feed(source, attach));
        Self { shared, attached, feed, _ends_with_this: closing.drop_guard() }
    }

    /// Waits until the subscription exists at the broker: what is published from then on will come.
    pub async fn ready(&mut self) {
        // The other end goes only when the subscription ends.
        let _ = self.attached.wait_for(|attached| *attached).await;
    }

    /// The next delivery; waits for as long as it takes. Of one resource no two are out at the same time.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if self.shared.closing.is_cancelled() {
                return None;
            }
            let next = self.shared.lanes().take();
            if let Some((lane, Taken { event, message, attempt, receipt, room })) = next {
                let open =
                    Open { message, receipt, room, turn: Turn { shared: Arc::clone(&self.shared), lane } };
                return Some(Delivery { event, attempt, open: Some(open) });
            }
            tokio::select! {
                () = self.shared.changed.notified() => {}
                () = self.shared.closing.cancelled() => return None,
            }
        }
    }

    /// Ends: hands out nothing more, waits until everything that is out is settled, and gives back the rest.
    pub async fn drain(self) {
        self.shared.closing.cancel();
        if let Err(error) = self.feed.await {
            tracing::error!(%error, "a subscription ended by a panic");
        }
    }
}

impl Shared {
    fn lanes(&self) -> std::sync::MutexGuard<'_, Lanes<Taken>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries messages from the broker into the lanes until the end.
    async fn feed(self: Arc<Self>, mut source: Source, attached: watch::Sender<bool>) {
        let stopped = self.stopped.clone().drop_guard();
        let room = Arc::new(Semaphore::new(self.options.window()));
        let mut reconnect = Reconnect::default();
        while let Some(result) = self.closing.run_until_cancelled(source.attach()).await {
            let since = Instant::now();
            let cause = match result {
                Err(cause) => cause,
                Ok(()) => {
                    self.metrics.connected(true);
                    attached.send_replace(true);
                    match self.take_all(&mut source, &room).await {
                        Some(cause) => cause,
                        None => break,
                    }
                }
            };
            self.metrics.connected(false);
            reconnect.held_for(since.elapsed());
            let wait = reconnect.next();
            tracing::warn!(topic = self.topic, subscription = self.name, error = %cause, again_in = ?wait,
                "a subscription lost its broker");
            self.closing.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
        let ahead = source.stop_taking().await;
        drop(stopped);
        let waiting = self.lanes().clear().into_iter();
        let waiting =
            waiting.map(|Taken { message, attempt, receipt, .. }| Raw { message, attempt, receipt });
        self.give_all_back(waiting.chain(ahead)).await;
        while !self.lanes().idle() {
            self.idle.notified().await;
        }
        self.settling.close();
        self.settling.wait().await;
        source.close().await;
    }

    /// Until the end (nothing) or until the broker fails.
    async fn take_all(self: &Arc<Self>, source: &mut Source, room: &Arc<Semaphore>) -> Option<BrokerError> {
        loop {
            let permit = self.closing.run_until_cancelled(Arc::clone(room).acquire_owned()).await?.ok()?;
            match self.closing.run_until_cancelled(source.next(room.available_permits() + 1)).await? {
                Ok(raw) => self.take(raw, permit),
                Err(cause) => return Some(cause),
            }
        }
    }

    /// Puts a message into its lane, or does at once what needs nobody's work.
    fn take(self: &Arc<Self>, raw: Raw, room: OwnedSemaphorePermit) {
        let Raw { message, attempt, receipt } = raw;
        self.metrics.received(attempt);
        let shared = Arc::clone(self);
        if message.header(FOR).is_some_and(|subscription| subscription != self.name) {
            self.settling.spawn(async move { shared.settled(receipt.acknowledge().await, room) });
            return;
        }
        let reason = match Event::read(&message.body) {
            Err(fault) => fault.to_string(),
            Ok(_) if attempt > self.options.max_deliveries => {
                format!("handed out {} times and never settled", attempt - 1)
            }
            Ok(event) => {
                let lane = event.resource().map_or_else(|| event.id.clone(), |resource| resource.id);
                self.lanes().push(lane, Taken { event, message, attempt, receipt, room });
                self.changed.notify_one();
                return;
            }
        };
        self.settling.spawn(async move {
            let result = shared.bury(message.body, attempt, receipt, &reason).await;
            shared.settled(result, room);
        });
    }

    /// What was said about a delivery becomes what the broker is told.
    async fn settle(&self, open: Open, attempt: u32, word: Word) -> Result<(), BrokerError> {
        let Open { message, receipt, room: _room, turn: _turn } = open;
        let reason = match word {
            Word::Done => {
                receipt.acknowledge().await?;
                self.metrics.acknowledged();
                return Ok(());
            }
            Word::Undone => {
                if self.closing.is_cancelled() {
                    self.stopped.cancelled().await;
                }
                return self.give_back(message, attempt, receipt).await;
            }
            Word::Failed(reason) => reason,
        };
        self.metrics.rejected();
        if attempt >= self.options.max_deliveries {
            return self.bury(message.body, attempt, receipt, &reason).await;
        }
        tracing::info!(topic = self.topic, subscription = self.name, attempt, reason, "an event failed");
        receipt.retry(self.wait_after(attempt)).await
    }

    /// Gives back what nobody has begun. A broker that fails once is not waited for again: the process is to end.
    async fn give_all_back(&self, messages: impl Iterator<Item = Raw>) {
        let failed = AtomicBool::new(false);
        let give_back = async |Raw { message, attempt, receipt }| {
            let given_back = match failed.load(Ordering::Relaxed) {
                true => receipt.let_go().await,
                false => self.give_back(message, attempt, receipt).await,
            };
            if let Err(error) = given_back {
                failed.store(true, Ordering::Relaxed);
                tracing::debug!(topic = self.topic, %error, "an event could not be given back");
            }
        };
        futures_util::stream::iter(messages).for_each_concurrent(GIVEN_BACK_AT_ONCE, give_back).await;
    }

    /// Lets somebody else have a message that nobody worked on to its end. Where the broker counts how often it handed
    /// one out, the last time must not have been for nothing: the message is put in anew, for this subscription alone.
    async fn give_back(&self, message: Message, attempt: u32, receipt: Receipt) -> Result<(), BrokerError> {
        if attempt < self.options.max_deliveries || !receipt.is_counted_by_broker() {
            return receipt.give_back().await;
        }
        let anew = Message::anew(message.body, &[(FOR, &self.name)]);
        if let Err(error) = self.broker.publish_message(&self.topic, anew).await {
            receipt.give_back().await?;
            return Err(error);
        }
        receipt.acknowledge().await
    }

    /// Makes a dead letter of a message. Where that fails the message stays, for otherwise it would be lost.
    async fn bury(
        &self,
        body: bytes::Bytes,
        attempt: u32,
        receipt: Receipt,
        reason: &str,
    ) -> Result<(), BrokerError> {
        let letters = self.broker.all_dead_letters(&self.name);
        if let Err(error) = letters.put(&self.topic, body, attempt, reason).await {
            receipt.retry(self.wait_after(attempt)).await?;
            return Err(error);
        }
        tracing::warn!(
            topic = self.topic,
            subscription = self.name,
            attempt,
            reason,
            "an event is a dead letter"
        );
        self.metrics.dead_lettered();
        receipt.acknowledge().await
    }

    fn wait_after(&self, attempt: u32) -> Duration {
        after_failures(attempt, self.options.backoff_initial, self.options.backoff_max)
    }

    fn settled(&self, result: Result<(), BrokerError>, room: OwnedSemaphorePermit) {
        drop(room);
        if let Err(error) = result {
            tracing::warn!(topic = self.topic, subscription = self.name, %error, "a message could not be settled");
        }
    }
}

/// An event to work on. Dropped without a word, it counts as failed.
#[derive(Debug)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// How often it was handed out, this time included.
    pub attempt: u32,
    open: Option<Open>,
}

/// What is said about a delivery.
#[derive(Debug)]
enum Word {
    Done,
    Failed(String),
    Undone,
}

#[derive(Debug)]
struct Open {
    message: Message,
    receipt: Receipt,
    room: OwnedSemaphorePermit,
    turn: Turn,
}

/// The turn of a lane, which ends with this value.
#[derive(Debug)]
struct Turn {
    shared: Arc<Shared>,
    lane: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lanes = self.shared.lanes();
        lanes.done(&self.lane);
        if lanes.idle() {
            self.shared.idle.notify_one();
        }
        drop(lanes);
        self.shared.changed.notify_one();
    }
}

impl Delivery {
    /// The work is done. After an error the event may come again.
    pub async fn acknowledge(mut self) -> Result<(), BrokerError> {
        self.settle(Word::Done).await
    }

    /// The work failed. The event comes again after a while, or becomes a dead letter with this reason when it was
    /// handed out often enough.
    pub async fn reject(mut self, reason: impl Into<String>) -> Result<(), BrokerError> {
        self.settle(Word::Failed(reason.into())).await
    }

    /// The work was not done, and that says nothing about the event, because the process ends. Another one gets it as
    /// soon as the broker likes. It counts as handed out only where the broker itself counts, and never for the last
    /// time.
    pub async fn give_back(mut self) -> Result<(), BrokerError> {
        self.settle(Word::Undone).await
    }

    async fn settle(&mut self, word: Word) -> Result<(), BrokerError> {
        match self.spawn_settling(word) {
            Some(task) => task.await.unwrap_or_else(|error| Err(BrokerError::Unavailable(error.to_string()))),
            None => Ok(()),
        }
    }

    fn spawn_settling(&mut self, word: Word) -> Option<JoinHandle<Result<(), BrokerError>>> {
        let open = self.open.take()?;
        let shared = Arc::clone(&open.turn.shared);
        let (tracker, runtime) = (shared.settling.clone(), shared.runtime.clone());
        let attempt = self.attempt;
        Some(tracker.spawn_on(async move { shared.settle(open, attempt, word).await }, &runtime))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.spawn_settling(Word::Failed("dropped without an answer".to_owned()));
    }
}
