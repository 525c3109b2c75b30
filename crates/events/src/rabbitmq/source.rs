//! A subscription's queue. Delayed messages stay unacknowledged and count against the prefetch of their consumer. When
//! they take half of it, a new consumer replaces it on the same channel, where the old messages can still be settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Acker, Channel, Connection, Consumer};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::publishing::{Declare, TIMEOUT};
use super::{ATTEMPT, RabbitMq, declare_queue, read};
use crate::broker::{RawMessage, Receipt as AnyReceipt};
use crate::error::BrokerError;
use crate::message::Message;

/// With more delayed messages than this the consumer is not replaced, and gets no new messages.
const MAX_DELAYED: usize = 1_000;

/// A consumer with a connection of its own.
#[derive(Debug)]
pub(crate) struct Source {
    backend: RabbitMq,
    topic: String,
    queue: Arc<str>,
    window: usize,
    at: Option<Attachment>,
}

#[derive(Debug)]
struct Attachment {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// Deliveries to consumers that were replaced.
    left: VecDeque<Delivery>,
    delayed: Arc<Delayed>,
    /// Cancelled with the channel, whose unacknowledged messages the server requeues.
    closed: CancellationToken,
    /// Tasks of delayed messages.
    delaying: TaskTracker,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// Counts of messages that wait for their redelivery.
#[derive(Debug, Default)]
struct Delayed {
    total: AtomicUsize,
    /// Those of the current consumer, whose number is `consumer`.
    of_consumer: AtomicUsize,
    consumer: AtomicU64,
    changed: Notify,
}

impl Source {
    pub(super) fn new(backend: RabbitMq, topic: &str, queue: String, window: usize) -> Self {
        Self { backend, topic: topic.to_owned(), queue: queue.into(), window, at: None }
    }

    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        self.at = None;
        let connection = self.backend.connect().await?;
        let channel = connection.create_channel().await.map_err(BrokerError::unavailable)?;
        let exchange = self.backend.exchange(&self.topic);
        self.backend.declare_exchange(&channel, exchange).await?;
        declare_queue(&channel, &self.queue).await?;
        self.backend.bind(&channel, &self.queue, exchange).await?;
        let window = u16::try_from(self.window).unwrap_or(u16::MAX);
        channel.basic_qos(window, BasicQosOptions::default()).await.map_err(BrokerError::unavailable)?;
        let consumer = consume(&channel, &self.queue, self.backend.consumer_tag(0)).await?;
        let (left, delayed) = (VecDeque::new(), Arc::default());
        let (closed, delaying) = (CancellationToken::new(), TaskTracker::new());
        self.at = Some(Attachment { connection, channel, consumer, left, delayed, closed, delaying });
        Ok(())
    }

    pub(crate) async fn next(&mut self, _prefetch: usize) -> Result<RawMessage, BrokerError> {
        loop {
            let Some(at) = &mut self.at else { return Err(BrokerError::unavailable("not attached")) };
            let delivery = match at.left.pop_front() {
                Some(delivery) => delivery,
                None => tokio::select! {
                    delivery = at.consumer.next() => match delivery {
                        Some(delivery) => delivery.map_err(BrokerError::unavailable)?,
                        None => return Err(BrokerError::unavailable("the server ended the delivery")),
                    },
                    () = at.delayed.changed.notified() => {
                        if at.delayed.exceed_half_of(self.window) {
                            at.replace_consumer(&self.backend, &self.queue).await?;
                        }
                        continue;
                    }
                },
            };
            let receipt = at.receipt(&self.backend, &self.queue, &delivery);
            // The server tells that this is a redelivery, but no count. The count is put into the message before it is
            // delivered, because an event that kills its process would be redelivered without end otherwise.
            if delivery.redelivered {
                receipt.republish(receipt.attempt.saturating_add(1)).await?;
                continue;
            }
            let (message, attempt) = (receipt.message.clone(), receipt.attempt);
            return Ok(RawMessage { message, attempt, receipt: AnyReceipt::RabbitMq(receipt) });
        }
    }

    pub(crate) async fn stop_consuming(&mut self) -> Vec<RawMessage> {
        let Some(at) = &mut self.at else { return Vec::new() };
        if !matches!(timeout(TIMEOUT, at.end_consumer()).await, Ok(Ok(()))) {
            // Without its channel nothing can be settled, and the server requeues everything.
            return Vec::new();
        }
        let prefetched = std::mem::take(&mut at.left);
        let raw = |delivery: Delivery| {
            let mut receipt = at.receipt(&self.backend, &self.queue, &delivery);
            // The earlier delivery is not in the count yet.
            receipt.attempt = receipt.attempt.saturating_add(u32::from(delivery.redelivered));
            let (message, attempt) = (receipt.message.clone(), receipt.attempt);
            RawMessage { message, attempt, receipt: AnyReceipt::RabbitMq(receipt) }
        };
        prefetched.into_iter().map(raw).collect()
    }

    pub(crate) async fn close(mut self) {
        if let Some(at) = self.at.take() {
            // Closing the connection requeues delayed messages. Those that are being republished are acknowledged first,
            // because the server would have them twice otherwise.
            at.closed.cancel();
            at.delaying.close();
            let _ = timeout(TIMEOUT, at.delaying.wait()).await;
            let _ = timeout(TIMEOUT, at.connection.close(200, "drained".into())).await;
        }
    }
}

impl Attachment {
    fn receipt(&self, backend: &RabbitMq, queue: &Arc<str>, delivery: &Delivery) -> Receipt {
        let attempt =
            match delivery.properties.headers().as_ref().and_then(|table| table.inner().get(ATTEMPT)) {
                Some(AMQPValue::LongInt(attempt)) => u32::try_from(*attempt).unwrap_or(1),
                _ => 1,
            };
        Receipt {
            backend: backend.clone(),
            queue: Arc::clone(queue),
            message: read(delivery),
            attempt,
            acker: delivery.acker.clone(),
            delayed: Arc::clone(&self.delayed),
            consumer: self.delayed.consumer.load(Ordering::Relaxed),
            closed: self.closed.clone(),
            delaying: self.delaying.clone(),
        }
    }

    /// Cancels the consumer, and moves what was delivered to `left`.
    async fn end_consumer(&mut self) -> Result<(), BrokerError> {
        let cancelled = self.channel.basic_cancel(self.consumer.tag(), BasicCancelOptions::default());
        cancelled.await.map_err(BrokerError::unavailable)?;
        while let Some(Some(Ok(delivery))) = self.consumer.next().now_or_never() {
            self.left.push_back(delivery);
        }
        Ok(())
    }

    async fn replace_consumer(&mut self, backend: &RabbitMq, queue: &str) -> Result<(), BrokerError> {
        self.end_consumer().await?;
        let number = self.delayed.consumer.fetch_add(1, Ordering::Relaxed) + 1;
        self.delayed.of_consumer.store(0, Ordering::Relaxed);
        self.consumer = consume(&self.channel, queue, backend.consumer_tag(number)).await?;
        Ok(())
    }
}

async fn consume(channel: &Channel, queue: &str, tag: ShortString) -> Result<Consumer, BrokerError> {
    let options = BasicConsumeOptions::default();
    channel
        .basic_consume(queue.into(), tag, options, FieldTable::default())
        .await
        .map_err(BrokerError::unavailable)
}

impl Delayed {
    fn add(&self, consumer: u64) {
        self.total.fetch_add(1, Ordering::Relaxed);
        if self.consumer.load(Ordering::Relaxed) == consumer {
            self.of_consumer.fetch_add(1, Ordering::Relaxed);
        }
        self.changed.notify_one();
    }

    fn remove(&self, consumer: u64) {
        self.total.fetch_sub(1, Ordering::Relaxed);
        if self.consumer.load(Ordering::Relaxed) == consumer {
            // The consumer may have been replaced in between, and the count of its successor starts at zero.
            let _ = self
                .of_consumer
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |delayed| delayed.checked_sub(1));
        }
        self.changed.notify_one();
    }

    /// Whether to replace the consumer.
    fn exceed_half_of(&self, window: usize) -> bool {
        self.of_consumer.load(Ordering::Relaxed) * 2 >= window
            && self.total.load(Ordering::Relaxed) < MAX_DELAYED
    }
}

/// Settles one message.
#[derive(Debug)]
pub(crate) struct Receipt {
    backend: RabbitMq,
    queue: Arc<str>,
    message: Message,
    attempt: u32,
    acker: Acker,
    delayed: Arc<Delayed>,
    consumer: u64,
    closed: CancellationToken,
    delaying: TaskTracker,
}

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        settled(self.acker.ack(BasicAckOptions::default()).await)
    }

    /// Republishes the message with its count unchanged, because a requeue by the server would count as a delivery.
    pub(crate) async fn requeue(self) -> Result<(), BrokerError> {
        if let Err(error) = self.republish(self.attempt).await {
            self.nack().await?;
            return Err(error);
        }
        Ok(())
    }

    /// The server requeues the message, and this delivery counts.
    pub(crate) async fn nack(&self) -> Result<(), BrokerError> {
        let back = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        settled(self.acker.nack(back).await)
    }

    pub(crate) async fn redeliver_after(self, after: Duration) -> Result<(), BrokerError> {
        self.delayed.add(self.consumer);
        let delaying = self.delaying.clone();
        delaying.spawn(async move {
            let waited = self.closed.run_until_cancelled(tokio::time::sleep(after)).await.is_some();
            let (delayed, consumer) = (Arc::clone(&self.delayed), self.consumer);
            if waited && let Err(error) = self.republish(self.attempt.saturating_add(1)).await {
                tracing::warn!(queue = &*self.queue, %error, "an event could not be republished to its queue");
                let _ = self.nack().await;
            }
            delayed.remove(consumer);
        });
        Ok(())
    }

    /// Publishes the message to the tail of the queue with its count, and acknowledges it after the confirm.
    async fn republish(&self, attempt: u32) -> Result<(), BrokerError> {
        if !self.acker.usable() {
            // The channel is closed, so the server has requeued the message.
            return Ok(());
        }
        let mut headers = FieldTable::default();
        let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
        headers.insert(ATTEMPT.into(), AMQPValue::LongInt(attempt));
        self.backend
            .0
            .publishing
            .put(&self.backend, Declare::Nothing, "", &self.queue, &self.message, headers)
            .await?;
        settled(self.acker.ack(BasicAckOptions::default()).await)
    }
}

fn settled(result: lapin::Result<bool>) -> Result<(), BrokerError> {
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(BrokerError::unavailable("the connection ended before the acknowledgement")),
        Err(error) => Err(BrokerError::unavailable(error)),
    }
}
