//! A subscription's queue. The server gives a consumer no more than it may hold unacknowledged; messages that
//! wait for another try would fill that up, so when they take half of it the consumer is replaced by a fresh one
//! on the same channel, where the old messages can still be settled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Acker, Channel, Connection, Consumer};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::publishing::{Declare, PATIENCE};
use super::{ATTEMPT, RabbitMq, declare_queue, read, unavailable};
use crate::broker::{Raw, Receipt as AnyReceipt};
use crate::error::BrokerError;
use crate::message::Message;

/// Most messages that wait here for another try; with more the consumer is not replaced and takes no new ones.
const HELD_AT_MOST: usize = 1_000;

/// Where a subscription's messages come from.
#[derive(Debug)]
pub(crate) struct Source {
    link: RabbitMq,
    topic: String,
    queue: Arc<str>,
    window: usize,
    at: Option<At>,
}

#[derive(Debug)]
struct At {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// Came to a consumer that was replaced, and not given on yet.
    left: VecDeque<Delivery>,
    held: Arc<Held>,
    /// Ends the waits when the channel goes: the server then has the messages back.
    gone: CancellationToken,
    /// Those who wait, or put what they held behind the queue.
    holding: TaskTracker,
}

impl Drop for At {
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// Messages that wait here for another try.
#[derive(Debug, Default)]
struct Held {
    total: AtomicUsize,
    /// Of the present consumer, whose number is `consumer`.
    of_consumer: AtomicUsize,
    consumer: AtomicU64,
    changed: Notify,
}

impl Source {
    pub(super) fn new(link: RabbitMq, topic: &str, queue: String, window: usize) -> Self {
        Self { link, topic: topic.to_owned(), queue: queue.into(), window, at: None }
    }

    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        self.at = None;
        let connection = self.link.connect().await?;
        let channel = connection.create_channel().await.map_err(unavailable)?;
        let exchange = self.link.exchange(&self.topic);
        self.link.declare_exchange(&channel, exchange).await?;
        declare_queue(&channel, &self.queue).await?;
        self.link.bind(&channel, &self.queue, exchange).await?;
        let window = u16::try_from(self.window).unwrap_or(u16::MAX);
        channel.basic_qos(window, BasicQosOptions::default()).await.map_err(unavailable)?;
        let consumer = consume(&channel, &self.queue).await?;
        let (left, held) = (VecDeque::new(), Arc::default());
        let (gone, holding) = (CancellationToken::new(), TaskTracker::new());
        self.at = Some(At { connection, channel, consumer, left, held, gone, holding });
        Ok(())
    }

    pub(crate) async fn next(&mut self, _room: usize) -> Result<Raw, BrokerError> {
        loop {
            let Some(at) = &mut self.at else { return Err(unavailable("not attached")) };
            let delivery = match at.left.pop_front() {
                Some(delivery) => delivery,
                None => tokio::select! {
                    delivery = at.consumer.next() => match delivery {
                        Some(delivery) => delivery.map_err(unavailable)?,
                        None => return Err(unavailable("the server ended the delivery")),
                    },
                    () = at.held.changed.notified() => {
                        if at.held.crowds(self.window) {
                            at.replace_consumer(&self.queue).await?;
                        }
                        continue;
                    }
                },
            };
            let receipt = at.receipt(&self.link, &self.queue, &delivery);
            // The server says only that it handed the message out before, not how often. So the count is put into
            // the message before anybody works on it, or one that kills its process would come for ever.
            if delivery.redelivered {
                receipt.put_behind(receipt.attempt.saturating_add(1)).await?;
                continue;
            }
            let (message, attempt) = (receipt.message.clone(), receipt.attempt);
            return Ok(Raw { message, attempt, receipt: AnyReceipt::RabbitMq(receipt) });
        }
    }

    pub(crate) async fn stop_taking(&mut self) -> Vec<Raw> {
        let Some(at) = &mut self.at else { return Vec::new() };
        if !matches!(timeout(PATIENCE, at.end_consumer()).await, Ok(Ok(()))) {
            // Without its channel nothing can be settled; the server has everything back when it is gone.
            return Vec::new();
        }
        let ahead = std::mem::take(&mut at.left);
        let raw = |delivery: Delivery| {
            let mut receipt = at.receipt(&self.link, &self.queue, &delivery);
            // It was out before, and nobody has put that into it yet.
            receipt.attempt = receipt.attempt.saturating_add(u32::from(delivery.redelivered));
            let (message, attempt) = (receipt.message.clone(), receipt.attempt);
            Raw { message, attempt, receipt: AnyReceipt::RabbitMq(receipt) }
        };
        ahead.into_iter().map(raw).collect()
    }

    pub(crate) async fn close(mut self) {
        if let Some(at) = self.at.take() {
            // What only waits goes back with the connection. What is on its way behind the queue is let go there
            // first, or the server would have it twice.
            at.gone.cancel();
            at.holding.close();
            let _ = timeout(PATIENCE, at.holding.wait()).await;
            let _ = timeout(PATIENCE, at.connection.close(200, "drained".into())).await;
        }
    }
}

impl At {
    fn receipt(&self, link: &RabbitMq, queue: &Arc<str>, delivery: &Delivery) -> Receipt {
        let attempt =
            match delivery.properties.headers().as_ref().and_then(|table| table.inner().get(ATTEMPT)) {
                Some(AMQPValue::LongInt(attempt)) => u32::try_from(*attempt).unwrap_or(1),
                _ => 1,
            };
        Receipt {
            link: link.clone(),
            queue: Arc::clone(queue),
            message: read(delivery),
            attempt,
            acker: delivery.acker.clone(),
            held: Arc::clone(&self.held),
            consumer: self.held.consumer.load(Ordering::Relaxed),
            gone: self.gone.clone(),
            holding: self.holding.clone(),
        }
    }

    /// The server hands out nothing more to the consumer; what it had handed out is in `left`.
    async fn end_consumer(&mut self) -> Result<(), BrokerError> {
        let cancelled = self.channel.basic_cancel(self.consumer.tag(), BasicCancelOptions::default());
        cancelled.await.map_err(unavailable)?;
        while let Some(Some(Ok(delivery))) = self.consumer.next().now_or_never() {
            self.left.push_back(delivery);
        }
        Ok(())
    }

    async fn replace_consumer(&mut self, queue: &str) -> Result<(), BrokerError> {
        self.end_consumer().await?;
        self.held.consumer.fetch_add(1, Ordering::Relaxed);
        self.held.of_consumer.store(0, Ordering::Relaxed);
        self.consumer = consume(&self.channel, queue).await?;
        Ok(())
    }
}

async fn consume(channel: &Channel, queue: &str) -> Result<Consumer, BrokerError> {
    let options = BasicConsumeOptions::default();
    channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await.map_err(unavailable)
}

impl Held {
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
            // A consumer may be replaced in between; its successor starts from nothing and stays there.
            let _ = self
                .of_consumer
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| held.checked_sub(1));
        }
        self.changed.notify_one();
    }

    /// Whether they take too much of what the present consumer may hold.
    fn crowds(&self, window: usize) -> bool {
        self.of_consumer.load(Ordering::Relaxed) * 2 >= window
            && self.total.load(Ordering::Relaxed) < HELD_AT_MOST
    }
}

/// The right to settle one message.
#[derive(Debug)]
pub(crate) struct Receipt {
    link: RabbitMq,
    queue: Arc<str>,
    message: Message,
    attempt: u32,
    acker: Acker,
    held: Arc<Held>,
    consumer: u64,
    gone: CancellationToken,
    holding: TaskTracker,
}

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        said(self.acker.ack(BasicAckOptions::default()).await)
    }

    /// The server would say of a message that it takes back only that it was out before, so this is put behind the queue
    /// too, with its count as it was.
    pub(crate) async fn give_back(self) -> Result<(), BrokerError> {
        if let Err(error) = self.put_behind(self.attempt).await {
            self.let_go().await?;
            return Err(error);
        }
        Ok(())
    }

    /// The server has it back, and it counts as handed out.
    pub(crate) async fn let_go(&self) -> Result<(), BrokerError> {
        let back = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        said(self.acker.nack(back).await)
    }

    pub(crate) async fn retry(self, after: Duration) -> Result<(), BrokerError> {
        self.held.add(self.consumer);
        let holding = self.holding.clone();
        holding.spawn(async move {
            let waited = self.gone.run_until_cancelled(tokio::time::sleep(after)).await.is_some();
            let (held, consumer) = (Arc::clone(&self.held), self.consumer);
            if waited && let Err(error) = self.put_behind(self.attempt.saturating_add(1)).await {
                tracing::warn!(queue = &*self.queue, %error, "an event could not be put behind its queue");
                let _ = self.let_go().await;
            }
            held.remove(consumer);
        });
        Ok(())
    }

    /// Puts the message behind the queue with its count, and only then lets go of it here.
    async fn put_behind(&self, attempt: u32) -> Result<(), BrokerError> {
        if !self.acker.usable() {
            // The channel is gone, so the server has the message back.
            return Ok(());
        }
        let mut headers = FieldTable::default();
        let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
        headers.insert(ATTEMPT.into(), AMQPValue::LongInt(attempt));
        self.link.put(Declare::Nothing, "", &self.queue, &self.message, headers).await?;
        said(self.acker.ack(BasicAckOptions::default()).await)
    }
}

fn said(result: lapin::Result<bool>) -> Result<(), BrokerError> {
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(unavailable("the connection ended before")),
        Err(error) => Err(unavailable(error)),
    }
}
