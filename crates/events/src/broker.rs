//! The interface to every broker. What a broker must provide are the methods of `Backend`, `Source`, `Receipt` and
//! `TailSource` below.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{BrokerConfig, Kind};
use crate::dead_letters::DeadLetters;
use crate::error::BrokerError;
use crate::event::Event;
use crate::memory::{self, Memory};
use crate::message::Message;
use crate::metrics::{Metrics, TopicMetrics};
#[cfg(feature = "nats")]
use crate::nats;
#[cfg(feature = "pubsub")]
use crate::pubsub;
#[cfg(feature = "rabbitmq")]
use crate::rabbitmq;
use crate::subscription::{Options, Subscription};
use crate::tail::Tail;

/// A broker. Clones share one connection; clones of a memory broker are the same broker.
#[derive(Debug, Clone)]
pub struct Broker {
    pub(crate) backend: Backend,
    kind: &'static str,
    metrics: Metrics,
    options: Arc<Options>,
}

impl Broker {
    /// Opens the configured broker. It need not be up: the connection is made in the background or at the first use, and
    /// made again whenever it is lost.
    pub async fn open(config: &BrokerConfig, metrics: Metrics) -> Result<Self, BrokerError> {
        let (backend, kind) = match config.kind {
            Kind::Memory => (Backend::Memory(Memory::default()), "memory"),
            #[cfg(feature = "nats")]
            Kind::Nats => (Backend::Nats(nats::Nats::open(&config.nats).await?), "nats"),
            #[cfg(feature = "rabbitmq")]
            Kind::RabbitMq => (Backend::RabbitMq(rabbitmq::RabbitMq::open(&config.rabbitmq)?), "rabbitmq"),
            #[cfg(feature = "pubsub")]
            Kind::GooglePubSub => {
                (Backend::PubSub(pubsub::PubSub::open(&config.googlepubsub).await?), "googlepubsub")
            }
            #[allow(unreachable_patterns, reason = "reached where a type of broker is compiled out")]
            _ => {
                let why = "this program was built without that type of broker".to_owned();
                return Err(BrokerError::Configuration(why));
            }
        };
        Ok(Self { backend, kind, metrics, options: Arc::new(config.subscriber.clone()) })
    }

    /// A broker in this process, with default settings.
    pub fn memory(metrics: Metrics) -> Self {
        Self {
            backend: Backend::Memory(Memory::default()),
            kind: "memory",
            metrics,
            options: Arc::new(Options::default()),
        }
    }

    /// The type of broker, as `broker.type` names it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The configured options of subscriptions.
    pub fn options(&self) -> Options {
        Options::clone(&self.options)
    }

    /// Publishes an event, and returns when the broker has confirmed it. After an error the broker may have it or not, and
    /// publishing the same event again is safe.
    pub async fn publish(&self, topic: &str, event: &Event) -> Result<(), BrokerError> {
        self.publish_message(topic, Message::of(event)).await
    }

    pub(crate) async fn publish_message(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let metrics = self.topic_metrics(topic);
        let result = self.backend.publish(topic, message).await;
        match &result {
            Ok(()) => metrics.published(),
            Err(error) => tracing::debug!(topic, %error, "event not published"),
        }
        metrics.connected(!matches!(result, Err(BrokerError::Unavailable(_) | BrokerError::TimedOut)));
        result
    }

    /// Subscribes to a topic. Each subscription gets every event that is published after it was first made; consumers of
    /// one subscription share its events.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn subscribe(&self, topic: &str, subscription: &str, options: Options) -> Subscription {
        Subscription::start(self.clone(), topic, subscription, options)
    }

    /// The dead letters of a subscription to one topic.
    pub fn dead_letters(&self, topic: &str, subscription: &str) -> DeadLetters {
        DeadLetters::new(self.clone(), Some(topic), subscription)
    }

    /// The dead letters of a subscription, of every topic.
    pub fn all_dead_letters(&self, subscription: &str) -> DeadLetters {
        DeadLetters::new(self.clone(), None, subscription)
    }

    /// Shows what is published from now on, without taking it from a subscription.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn tail(&self, topic: &str) -> Tail {
        Tail::start(self.backend.tail_source(topic))
    }

    /// Whether the broker can be reached now.
    pub async fn health(&self) -> Result<(), BrokerError> {
        self.backend.health().await
    }

    pub(crate) fn topic_metrics(&self, topic: &str) -> TopicMetrics {
        TopicMetrics::new(&self.metrics, self.kind, topic)
    }
}

/// A message as a source delivers it.
#[derive(Debug)]
pub(crate) struct RawMessage {
    pub(crate) message: Message,
    /// The delivery count, this one included.
    pub(crate) attempt: u32,
    pub(crate) receipt: Receipt,
}

macro_rules! each {
    ($which:expr, $one:ident => $what:expr) => {
        match $which {
            Self::Memory($one) => $what,
            #[cfg(feature = "nats")]
            Self::Nats($one) => $what,
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq($one) => $what,
            #[cfg(feature = "pubsub")]
            Self::PubSub($one) => $what,
        }
    };
}

/// A type of broker.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each connection")]
pub(crate) enum Backend {
    Memory(Memory),
    #[cfg(feature = "nats")]
    Nats(nats::Nats),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::RabbitMq),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::PubSub),
}

impl Backend {
    /// Returns when the broker has confirmed the message.
    async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        each!(self, backend => backend.publish(topic, message).await)
    }

    #[cfg_attr(not(any(feature = "rabbitmq", feature = "pubsub")), allow(unused_variables))]
    pub(crate) fn source(&self, topic: &str, subscription: &str, options: &Options) -> Source {
        match self {
            Self::Memory(backend) => Source::Memory(backend.source(topic, subscription)),
            #[cfg(feature = "nats")]
            Self::Nats(backend) => Source::Nats(backend.source(topic, subscription)),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(backend) => Source::RabbitMq(backend.source(topic, subscription, options)),
            #[cfg(feature = "pubsub")]
            Self::PubSub(backend) => Source::PubSub(backend.source(topic, subscription, options)),
        }
    }

    fn tail_source(&self, topic: &str) -> TailSource {
        match self {
            Self::Memory(backend) => TailSource::Memory(backend.tail_source(topic)),
            #[cfg(feature = "nats")]
            Self::Nats(backend) => TailSource::Nats(backend.tail_source(topic)),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(backend) => TailSource::RabbitMq(backend.tail_source(topic)),
            #[cfg(feature = "pubsub")]
            Self::PubSub(backend) => TailSource::PubSub(backend.tail_source(topic)),
        }
    }

    /// Stores a dead letter, and returns when the broker has confirmed it.
    pub(crate) async fn put_dead_letter(
        &self,
        destination: &str,
        letter: Message,
    ) -> Result<(), BrokerError> {
        each!(self, backend => backend.put_dead_letter(destination, letter).await)
    }

    /// The oldest dead letters, up to `limit`, without removing them.
    pub(crate) async fn dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<Message>, BrokerError> {
        each!(self, backend => backend.dead_letters(destination, limit).await)
    }

    /// Removes dead letters by their ids, and returns how many there were.
    pub(crate) async fn remove_dead_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        each!(self, backend => backend.remove_dead_letters(destination, ids).await)
    }

    async fn health(&self) -> Result<(), BrokerError> {
        each!(self, backend => backend.health().await)
    }
}

/// The broker's side of a subscription.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each subscription")]
pub(crate) enum Source {
    Memory(memory::Source),
    #[cfg(feature = "nats")]
    Nats(nats::Source),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::Source),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::Source),
}

impl Source {
    /// Connects, and makes what is missing at the broker. Called first, and again after an error.
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        each!(self, source => source.attach().await)
    }

    /// Waits for the next message. Up to `prefetch` may be fetched at once.
    pub(crate) async fn next(&mut self, prefetch: usize) -> Result<RawMessage, BrokerError> {
        each!(self, source => source.next(prefetch).await)
    }

    /// Ends the delivery to this consumer, and returns what was prefetched. Delivered messages can still be settled, and
    /// requeued ones go to other consumers.
    pub(crate) async fn stop_consuming(&mut self) -> Vec<RawMessage> {
        each!(self, source => source.stop_consuming().await)
    }

    /// Called when every message is settled.
    pub(crate) async fn close(self) {
        each!(self, source => source.close().await);
    }
}

/// The right to settle one message.
#[derive(Debug)]
pub(crate) enum Receipt {
    Memory(memory::Receipt),
    #[cfg(feature = "nats")]
    Nats(nats::Receipt),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::Receipt),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::Receipt),
}

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.acknowledge().await)
    }

    /// The broker redelivers the message, not before this time has passed.
    pub(crate) async fn redeliver_after(self, after: Duration) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.redeliver_after(after).await)
    }

    /// Whether the broker counts deliveries, requeued ones included.
    pub(crate) fn is_counted_by_broker(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            #[cfg(feature = "nats")]
            Self::Nats(_) => true,
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(_) => false,
            #[cfg(feature = "pubsub")]
            Self::PubSub(_) => true,
        }
    }

    /// The broker redelivers the message at any time. This delivery does not count, unless the broker counts.
    pub(crate) async fn requeue(self) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.requeue().await)
    }

    /// Requeues the message without waiting for a confirmation; this delivery may count.
    pub(crate) async fn nack(self) -> Result<(), BrokerError> {
        match self {
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(receipt) => receipt.nack().await,
            other => other.requeue().await,
        }
    }
}

/// The broker's side of a tail.
#[derive(Debug)]
pub(crate) enum TailSource {
    Memory(memory::TailSource),
    #[cfg(feature = "nats")]
    Nats(nats::TailSource),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::TailSource),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::TailSource),
}

impl TailSource {
    /// Connects. Called first, and again after an error.
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        each!(self, tail_source => tail_source.attach().await)
    }

    /// Waits for the next message.
    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        each!(self, tail_source => tail_source.next().await)
    }

    /// Removes what the tail made at the broker.
    pub(crate) async fn close(self) {
        each!(self, tail_source => tail_source.close().await);
    }
}
