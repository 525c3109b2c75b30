//! The one interface to every broker, and the choice between them. What each must give is the list of methods of
//! `Link`, `Source`, `Receipt` and `Look` below, and nothing more.

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
    pub(crate) link: Link,
    kind: &'static str,
    metrics: Metrics,
    options: Arc<Options>,
}

impl Broker {
    /// Makes a broker of settings. It need not be up: it is connected to in the background or when it is first
    /// used, and again for ever when it went away.
    pub async fn open(config: &BrokerConfig, metrics: Metrics) -> Result<Self, BrokerError> {
        let (link, kind) = match config.kind {
            Kind::Memory => (Link::Memory(Memory::default()), "memory"),
            #[cfg(feature = "nats")]
            Kind::Nats => (Link::Nats(nats::Nats::open(&config.nats).await?), "nats"),
            #[cfg(feature = "rabbitmq")]
            Kind::RabbitMq => (Link::RabbitMq(rabbitmq::RabbitMq::open(&config.rabbitmq)?), "rabbitmq"),
            #[cfg(feature = "pubsub")]
            Kind::GooglePubSub => {
                (Link::PubSub(pubsub::PubSub::open(&config.googlepubsub).await?), "googlepubsub")
            }
            #[allow(unreachable_patterns, reason = "reached where a type of broker is compiled out")]
            _ => {
                let why = "this program was built without that type of broker".to_owned();
                return Err(BrokerError::Configuration(why));
            }
        };
        Ok(Self { link, kind, metrics, options: Arc::new(config.subscriber.clone()) })
    }

    /// A broker within this process, with every default.
    pub fn memory(metrics: Metrics) -> Self {
        Self {
            link: Link::Memory(Memory::default()),
            kind: "memory",
            metrics,
            options: Arc::new(Options::default()),
        }
    }

    /// The type of broker, as `broker.type` names it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// How subscriptions are to work by the settings.
    pub fn options(&self) -> Options {
        Options::clone(&self.options)
    }

    /// Publishes an event, and returns when the broker has it safe. After an error nobody knows whether it has; to
    /// publish the same event again is right.
    pub async fn publish(&self, topic: &str, event: &Event) -> Result<(), BrokerError> {
        self.publish_message(topic, Message::of(event)).await
    }

    pub(crate) async fn publish_message(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let metrics = self.topic_metrics(topic);
        let result = self.link.publish(topic, message).await;
        match &result {
            Ok(()) => metrics.published(),
            Err(error) => tracing::debug!(topic, %error, "event not published"),
        }
        metrics.connected(!matches!(result, Err(BrokerError::Unavailable(_) | BrokerError::TimedOut)));
        result
    }

    /// Subscribes to a topic. Who uses the same subscription shares its events; each subscription gets all. It
    /// begins with what is published after it was first made.
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

    /// The dead letters of a subscription, whatever topic they came from.
    pub fn all_dead_letters(&self, subscription: &str) -> DeadLetters {
        DeadLetters::new(self.clone(), None, subscription)
    }

    /// Looks at what is published from now on, without taking it from anybody.
    ///
    /// # Panics
    /// When it is called outside of a tokio runtime.
    pub fn tail(&self, topic: &str) -> Tail {
        Tail::start(self.link.look(topic))
    }

    /// Whether the broker can be reached now.
    pub async fn health(&self) -> Result<(), BrokerError> {
        self.link.health().await
    }

    pub(crate) fn topic_metrics(&self, topic: &str) -> TopicMetrics {
        TopicMetrics::new(&self.metrics, self.kind, topic)
    }
}

/// A message as a subscription gets it.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) message: Message,
    /// How often the broker has handed it out, this time included.
    pub(crate) attempt: u32,
    pub(crate) receipt: Receipt,
}

/// Does the same with whichever broker it is.
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

/// The connection to a broker.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each connection")]
pub(crate) enum Link {
    Memory(Memory),
    #[cfg(feature = "nats")]
    Nats(nats::Nats),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::RabbitMq),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::PubSub),
}

impl Link {
    /// Returns when the broker has the message safe.
    async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        each!(self, link => link.publish(topic, message).await)
    }

    #[cfg_attr(not(any(feature = "rabbitmq", feature = "pubsub")), allow(unused_variables))]
    pub(crate) fn source(&self, topic: &str, subscription: &str, options: &Options) -> Source {
        match self {
            Self::Memory(link) => Source::Memory(link.source(topic, subscription)),
            #[cfg(feature = "nats")]
            Self::Nats(link) => Source::Nats(link.source(topic, subscription)),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(link) => Source::RabbitMq(link.source(topic, subscription, options)),
            #[cfg(feature = "pubsub")]
            Self::PubSub(link) => Source::PubSub(link.source(topic, subscription, options)),
        }
    }

    fn look(&self, topic: &str) -> Look {
        match self {
            Self::Memory(link) => Look::Memory(link.look(topic)),
            #[cfg(feature = "nats")]
            Self::Nats(link) => Look::Nats(link.look(topic)),
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(link) => Look::RabbitMq(link.look(topic)),
            #[cfg(feature = "pubsub")]
            Self::PubSub(link) => Look::PubSub(link.look(topic)),
        }
    }

    /// Keeps a dead letter, and returns when it is safe.
    pub(crate) async fn put_letter(&self, destination: &str, letter: Message) -> Result<(), BrokerError> {
        each!(self, link => link.put_letter(destination, letter).await)
    }

    /// The oldest dead letters, up to `limit`, which stay where they are.
    pub(crate) async fn letters(&self, destination: &str, limit: usize) -> Result<Vec<Message>, BrokerError> {
        each!(self, link => link.letters(destination, limit).await)
    }

    /// Removes dead letters by their ids, and says how many of them were there.
    pub(crate) async fn remove_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        each!(self, link => link.remove_letters(destination, ids).await)
    }

    async fn health(&self) -> Result<(), BrokerError> {
        each!(self, link => link.health().await)
    }
}

/// Where a subscription's messages come from.
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
    /// Connects, and makes whatever is missing at the broker. Called first, and again after an error.
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        each!(self, source => source.attach().await)
    }

    /// Waits for the next message; up to `room` may be taken ahead.
    pub(crate) async fn next(&mut self, room: usize) -> Result<Raw, BrokerError> {
        each!(self, source => source.next(room).await)
    }

    /// The broker hands out nothing more to this one; what it had taken ahead comes to light. Whatever has been handed
    /// out can still be settled, and what is given back goes to others.
    pub(crate) async fn stop_taking(&mut self) -> Vec<Raw> {
        each!(self, source => source.stop_taking().await)
    }

    /// Everything handed out is settled by now.
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
    /// The broker may forget the message.
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.acknowledge().await)
    }

    /// The broker hands the message out again, not before this time has passed.
    pub(crate) async fn retry(self, after: Duration) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.retry(after).await)
    }

    /// Whether the broker counts how often it handed the message out, and a time that came to nothing with it.
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

    /// The broker hands the message out again as soon as it likes. Where we count, this time does not.
    pub(crate) async fn give_back(self) -> Result<(), BrokerError> {
        each!(self, receipt => receipt.give_back().await)
    }

    /// The same by a word alone, where nobody can wait for more: the time may count after all.
    pub(crate) async fn let_go(self) -> Result<(), BrokerError> {
        match self {
            #[cfg(feature = "rabbitmq")]
            Self::RabbitMq(receipt) => receipt.let_go().await,
            other => other.give_back().await,
        }
    }
}

/// A look at a topic.
#[derive(Debug)]
pub(crate) enum Look {
    Memory(memory::Look),
    #[cfg(feature = "nats")]
    Nats(nats::Look),
    #[cfg(feature = "rabbitmq")]
    RabbitMq(rabbitmq::Look),
    #[cfg(feature = "pubsub")]
    PubSub(pubsub::Look),
}

impl Look {
    /// Connects. Called first, and again after an error.
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        each!(self, look => look.attach().await)
    }

    /// Waits for the next message.
    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        each!(self, look => look.next().await)
    }

    /// Leaves no trace.
    pub(crate) async fn close(self) {
        each!(self, look => look.close().await);
    }
}
