//! The rules of a subscription, the same over every broker: order per resource, redelivery, dead letters, drain. A
//! permit travels with each message until it is settled, and bounds the prefetch.

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

use crate::backoff::{Reconnect, doubled};
use crate::broker::{Broker, RawMessage, Receipt, Source};
use crate::error::BrokerError;
use crate::event::Event;
use crate::keyed_queue::KeyedQueue;
use crate::message::{Message, SUBSCRIPTION};
use crate::metrics::TopicMetrics;

/// Messages that a drain requeues at one time.
const MAX_CONCURRENT_REQUEUES: usize = 64;

/// How a subscription works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Unsettled deliveries at one time.
    pub parallelism: usize,
    /// Deliveries of an event before it becomes a dead letter.
    pub max_deliveries: u32,
    /// The wait after the first failure, doubled with each further one.
    pub backoff_initial: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
    /// Unsettled messages at one time, deliveries included; twice `parallelism` when not given.
    pub prefetch: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parallelism: 10,
            max_deliveries: 5,
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            prefetch: None,
        }
    }
}

impl Options {
    /// Unsettled messages at one time, deliveries included.
    pub(crate) fn window(&self) -> usize {
        self.prefetch.unwrap_or(self.parallelism.saturating_mul(2)).max(self.parallelism).max(1)
    }
}

/// A running subscription. Dropping it drains it in the background.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    attached: watch::Receiver<bool>,
    task: JoinHandle<()>,
    _cancel_on_drop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    broker: Broker,
    topic: String,
    name: String,
    options: Options,
    metrics: TopicMetrics,
    queue: Mutex<KeyedQueue<Prefetched>>,
    /// Notified when a message arrives and when one is settled.
    changed: Notify,
    /// Notified when no delivery is left unsettled.
    idle: Notify,
    closing: CancellationToken,
    /// Cancelled when the broker no longer delivers here, so that requeued messages go to other consumers.
    stopped: CancellationToken,
    /// Settling continues when its caller is cancelled, and ends before the source is closed.
    settling: TaskTracker,
    runtime: Handle,
}

/// A message that waits for its delivery.
#[derive(Debug)]
struct Prefetched {
    event: Event,
    message: Message,
    attempt: u32,
    receipt: Receipt,
    permit: OwnedSemaphorePermit,
}

impl Subscription {
    pub(crate) fn start(broker: Broker, topic: &str, name: &str, options: Options) -> Self {
        let source = broker.backend.source(topic, name, &options);
        let (attach, attached) = watch::channel(false);
        let closing = CancellationToken::new();
        let shared = Arc::new(Shared {
            metrics: broker.topic_metrics(topic),
            broker,
            topic: topic.to_owned(),
            name: name.to_owned(),
            queue: Mutex::new(KeyedQueue::new(options.parallelism)),
            options,
            changed: Notify::new(),
            idle: Notify::new(),
            closing: closing.clone(),
            stopped: CancellationToken::new(),
            settling: TaskTracker::new(),
            runtime: Handle::current(),
        });
        let task = tokio::spawn(Arc::clone(&shared).run(source, attach));
        Self { shared, attached, task, _cancel_on_drop: closing.drop_guard() }
    }

    /// Waits until the subscription exists at the broker. It receives what is published from then on.
    pub async fn ready(&mut self) {
        // The sender is dropped only when the subscription ends.
        let _ = self.attached.wait_for(|attached| *attached).await;
    }

    /// Waits for the next delivery. A resource has at most one unsettled delivery.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            if self.shared.closing.is_cancelled() {
                return None;
            }
            let next = self.shared.queue().take();
            if let Some((key, Prefetched { event, message, attempt, receipt, permit })) = next {
                let unsettled = Unsettled {
                    message,
                    receipt,
                    permit,
                    key_guard: KeyGuard { shared: Arc::clone(&self.shared), key },
                };
                return Some(Delivery { event, attempt, unsettled: Some(unsettled) });
            }
            tokio::select! {
                () = self.shared.changed.notified() => {}
                () = self.shared.closing.cancelled() => return None,
            }
        }
    }

    /// Stops delivering, waits until every delivery is settled, and requeues the prefetched rest.
    pub async fn drain(self) {
        self.shared.closing.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the task of a subscription panicked");
        }
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, KeyedQueue<Prefetched>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Consumes and reconnects until the drain, then settles and requeues what is left.
    async fn run(self: Arc<Self>, mut source: Source, attached: watch::Sender<bool>) {
        let stopped = self.stopped.clone().drop_guard();
        let permits = Arc::new(Semaphore::new(self.options.window()));
        let mut reconnect = Reconnect::default();
        while let Some(result) = self.closing.run_until_cancelled(source.attach()).await {
            let since = Instant::now();
            let cause = match result {
                Err(cause) => cause,
                Ok(()) => {
                    self.metrics.connected(true);
                    attached.send_replace(true);
                    match self.consume(&mut source, &permits).await {
                        Some(cause) => cause,
                        None => break,
                    }
                }
            };
            self.metrics.connected(false);
            reconnect.held_for(since.elapsed());
            let wait = reconnect.next();
            tracing::warn!(topic = self.topic, subscription = self.name, error = %cause, again_in = ?wait,
                "the subscription lost its connection to the broker");
            self.closing.run_until_cancelled(tokio::time::sleep(wait)).await;
        }
        let prefetched = source.stop_consuming().await;
        drop(stopped);
        let waiting = self.queue().drain().into_iter();
        let waiting = waiting.map(|Prefetched { message, attempt, receipt, .. }| RawMessage {
            message,
            attempt,
            receipt,
        });
        self.requeue_all(waiting.chain(prefetched)).await;
        while !self.queue().is_idle() {
            self.idle.notified().await;
        }
        self.settling.close();
        self.settling.wait().await;
        source.close().await;
    }

    /// Returns `None` at the drain, or the error of the broker.
    async fn consume(self: &Arc<Self>, source: &mut Source, permits: &Arc<Semaphore>) -> Option<BrokerError> {
        loop {
            let permit = self.closing.run_until_cancelled(Arc::clone(permits).acquire_owned()).await?.ok()?;
            match self.closing.run_until_cancelled(source.next(permits.available_permits() + 1)).await? {
                Ok(raw) => self.take(raw, permit),
                Err(cause) => return Some(cause),
            }
        }
    }

    /// Queues a message for delivery. Messages for other subscriptions are acknowledged, bad ones become dead letters.
    fn take(self: &Arc<Self>, raw: RawMessage, permit: OwnedSemaphorePermit) {
        let RawMessage { message, attempt, receipt } = raw;
        self.metrics.received(attempt);
        let shared = Arc::clone(self);
        if message.header(SUBSCRIPTION).is_some_and(|subscription| subscription != self.name) {
            self.settling.spawn(async move { shared.settled(receipt.acknowledge().await, permit) });
            return;
        }
        let reason = match Event::read(&message.body) {
            Err(fault) => fault.to_string(),
            Ok(_) if attempt > self.options.max_deliveries => {
                format!("delivered {} times and never settled", attempt - 1)
            }
            Ok(event) => {
                let key = event.resource().map_or_else(|| event.id.clone(), |resource| resource.id);
                self.queue().push(key, Prefetched { event, message, attempt, receipt, permit });
                self.changed.notify_one();
                return;
            }
        };
        self.settling.spawn(async move {
            let result = shared.dead_letter(message.body, attempt, receipt, &reason).await;
            shared.settled(result, permit);
        });
    }

    async fn settle(
        &self,
        unsettled: Unsettled,
        attempt: u32,
        settlement: Settlement,
    ) -> Result<(), BrokerError> {
        let Unsettled { message, receipt, permit: _permit, key_guard: _key_guard } = unsettled;
        let reason = match settlement {
            Settlement::Acknowledge => {
                receipt.acknowledge().await?;
                self.metrics.acknowledged();
                return Ok(());
            }
            Settlement::Requeue => {
                if self.closing.is_cancelled() {
                    self.stopped.cancelled().await;
                }
                return self.requeue(message, attempt, receipt).await;
            }
            Settlement::Nack(reason) => reason,
        };
        self.metrics.rejected();
        if attempt >= self.options.max_deliveries {
            return self.dead_letter(message.body, attempt, receipt, &reason).await;
        }
        tracing::info!(
            topic = self.topic,
            subscription = self.name,
            attempt,
            reason,
            "an event was nacked and will be redelivered"
        );
        receipt.redeliver_after(self.wait_after(attempt)).await
    }

    /// Requeues undelivered messages. After the first error the others are nacked without waiting, because the process
    /// is ending.
    async fn requeue_all(&self, messages: impl Iterator<Item = RawMessage>) {
        let failed = AtomicBool::new(false);
        let requeue = async |RawMessage { message, attempt, receipt }| {
            let requeued = match failed.load(Ordering::Relaxed) {
                true => receipt.nack().await,
                false => self.requeue(message, attempt, receipt).await,
            };
            if let Err(error) = requeued {
                failed.store(true, Ordering::Relaxed);
                tracing::debug!(topic = self.topic, %error, "an event could not be requeued");
            }
        };
        futures_util::stream::iter(messages).for_each_concurrent(MAX_CONCURRENT_REQUEUES, requeue).await;
    }

    /// Requeues a message for another consumer. Where the broker counts deliveries, a requeue must not use up the last
    /// one: the message is published again for this subscription alone.
    async fn requeue(&self, message: Message, attempt: u32, receipt: Receipt) -> Result<(), BrokerError> {
        if attempt < self.options.max_deliveries || !receipt.is_counted_by_broker() {
            return receipt.requeue().await;
        }
        let copy = Message::with_new_id(message.body, &[(SUBSCRIPTION, &self.name)]);
        if let Err(error) = self.broker.publish_message(&self.topic, copy).await {
            receipt.requeue().await?;
            return Err(error);
        }
        receipt.acknowledge().await
    }

    /// Makes a dead letter of a message. If that fails, the message is redelivered, because it would be lost otherwise.
    async fn dead_letter(
        &self,
        body: bytes::Bytes,
        attempt: u32,
        receipt: Receipt,
        reason: &str,
    ) -> Result<(), BrokerError> {
        let dead_letters = self.broker.all_dead_letters(&self.name);
        if let Err(error) = dead_letters.put(&self.topic, body, attempt, reason).await {
            receipt.redeliver_after(self.wait_after(attempt)).await?;
            return Err(error);
        }
        tracing::warn!(
            topic = self.topic,
            subscription = self.name,
            attempt,
            reason,
            "an event became a dead letter"
        );
        self.metrics.dead_lettered();
        receipt.acknowledge().await
    }

    fn wait_after(&self, attempt: u32) -> Duration {
        doubled(attempt.saturating_sub(1), self.options.backoff_initial, self.options.backoff_max)
    }

    fn settled(&self, result: Result<(), BrokerError>, permit: OwnedSemaphorePermit) {
        drop(permit);
        if let Err(error) = result {
            tracing::warn!(topic = self.topic, subscription = self.name, %error, "a message could not be settled");
        }
    }
}

/// An event to work on. Dropping it nacks it.
#[derive(Debug)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// The delivery count, this one included.
    pub attempt: u32,
    unsettled: Option<Unsettled>,
}

#[derive(Debug)]
enum Settlement {
    Acknowledge,
    Nack(String),
    Requeue,
}

#[derive(Debug)]
struct Unsettled {
    message: Message,
    receipt: Receipt,
    permit: OwnedSemaphorePermit,
    key_guard: KeyGuard,
}

/// Holds back further deliveries of a key until it is dropped.
#[derive(Debug)]
struct KeyGuard {
    shared: Arc<Shared>,
    key: String,
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.settled(&self.key);
        if queue.is_idle() {
            self.shared.idle.notify_one();
        }
        drop(queue);
        self.shared.changed.notify_one();
    }
}

impl Delivery {
    /// The work is done. After an error the event may be redelivered.
    pub async fn acknowledge(mut self) -> Result<(), BrokerError> {
        self.settle(Settlement::Acknowledge).await
    }

    /// The work failed. The event is redelivered after a back-off, or becomes a dead letter with this reason at
    /// `max_deliveries`.
    pub async fn nack(mut self, reason: impl Into<String>) -> Result<(), BrokerError> {
        self.settle(Settlement::Nack(reason.into())).await
    }

    /// The work was not done because the process ends. The event is redelivered to another consumer. The delivery counts
    /// only where the broker itself counts, and never as the last one.
    pub async fn requeue(mut self) -> Result<(), BrokerError> {
        self.settle(Settlement::Requeue).await
    }

    async fn settle(&mut self, settlement: Settlement) -> Result<(), BrokerError> {
        match self.spawn_settling(settlement) {
            Some(task) => task.await.unwrap_or_else(|error| Err(BrokerError::unavailable(error))),
            None => Ok(()),
        }
    }

    fn spawn_settling(&mut self, settlement: Settlement) -> Option<JoinHandle<Result<(), BrokerError>>> {
        let unsettled = self.unsettled.take()?;
        let shared = Arc::clone(&unsettled.key_guard.shared);
        let (tracker, runtime) = (shared.settling.clone(), shared.runtime.clone());
        let attempt = self.attempt;
        Some(tracker.spawn_on(async move { shared.settle(unsettled, attempt, settlement).await }, &runtime))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.spawn_settling(Settlement::Nack("dropped without a settlement".to_owned()));
    }
}
