//! RabbitMQ: a topic is a durable exchange, a subscription a durable queue bound to it. A classic queue neither
//! counts deliveries nor waits, so both are done from here in a way that loses nothing: a message that failed
//! stays unacknowledged for its wait and is then put behind the queue again with its count, confirmed before the
//! old one is acknowledged.

mod publishing;
mod source;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionBuilder, ConnectionProperties, Consumer, ErrorKind,
    ExchangeKind,
};
use tokio::time::timeout;

use crate::config;
use crate::dead_letters::Wanted;
use crate::error::BrokerError;
use crate::message::Message;
use crate::subscription::Options;
use publishing::{Declare, PATIENCE, Publishing};
pub(crate) use source::{Receipt, Source};

/// The name under which Watermill, which the Go broker library stands on, knows a message's id.
const MESSAGE_ID: &str = "_watermill_message_uuid";
/// How often the message was handed out, when this is not the first time.
const ATTEMPT: &str = "hyperfleet-attempt";
/// Seconds after which a silent server counts as gone.
const HEARTBEAT: u16 = 10;
/// AMQP's word for a message that is kept on disk.
const PERSISTENT: u8 = 2;

/// The broker; connected to when it is used.
#[derive(Debug, Clone)]
pub(crate) struct RabbitMq(Arc<Inner>);

struct Inner {
    uri: AMQPUri,
    config: config::RabbitMq,
    publishing: Publishing,
}

impl std::fmt::Debug for Inner {
    /// Without the address, which holds a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("config", &self.config).finish_non_exhaustive()
    }
}

impl RabbitMq {
    pub(crate) fn open(config: &config::RabbitMq) -> Result<Self, BrokerError> {
        let mut uri: AMQPUri = config
            .url
            .parse()
            .map_err(|why| BrokerError::Configuration(format!("broker.rabbitmq.url: {why}")))?;
        // The client library as it is built here would speak plain text to such an address, password and all.
        if uri.scheme == AMQPScheme::AMQPS {
            let why = "broker.rabbitmq.url: this program speaks to RabbitMQ without TLS, so amqps is refused";
            return Err(BrokerError::Configuration(why.to_owned()));
        }
        // A bare slash behind the port means the usual virtual host to people and to the Go library.
        if uri.vhost.is_empty() {
            uri.vhost.push('/');
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let publishing = Publishing::default();
        Ok(Self(Arc::new(Inner { uri, config: config.clone(), publishing })))
    }

    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let (exchange, key) = (self.exchange(topic), self.0.config.routing_key.as_str());
        self.put(Declare::Exchange(exchange), exchange, key, &message, FieldTable::default()).await
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str, options: &Options) -> Source {
        let queue = format!("{}-{subscription}", self.0.config.queue.as_deref().unwrap_or(topic));
        Source::new(self.clone(), topic, queue, options.window())
    }

    pub(crate) fn look(&self, topic: &str) -> Look {
        Look { link: self.clone(), topic: topic.to_owned(), at: None }
    }

    pub(crate) async fn put_letter(&self, destination: &str, letter: Message) -> Result<(), BrokerError> {
        self.put(Declare::Queue(destination), "", destination, &letter, FieldTable::default()).await
    }

    pub(crate) async fn letters(&self, destination: &str, limit: usize) -> Result<Vec<Message>, BrokerError> {
        let mut letters = Vec::new();
        self.visit_letters(destination, async |letter: &Delivery| {
            letters.push(read(letter));
            Ok(letters.len() < limit)
        })
        .await?;
        Ok(letters)
    }

    pub(crate) async fn remove_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let mut wanted = Wanted::new(ids);
        self.visit_letters(destination, async |letter: &Delivery| {
            if wanted.meets(&read(letter).id)
                && !letter.ack(BasicAckOptions::default()).await.map_err(unavailable)?
            {
                return Err(unavailable("the connection ended before"));
            }
            Ok(wanted.is_more())
        })
        .await?;
        Ok(wanted.met())
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        let channel = self.channel().await?;
        self.0.publishing.keep(channel).await;
        Ok(())
    }

    /// Shows letters to `visit` until it says no. They go back to their places when the channel is closed.
    async fn visit_letters(
        &self,
        destination: &str,
        mut visit: impl AsyncFnMut(&Delivery) -> Result<bool, BrokerError>,
    ) -> Result<(), BrokerError> {
        let channel = self.channel().await?;
        let queue = ShortString::from(destination);
        // Who only looks makes nothing: a mistyped name would leave a queue behind.
        let known = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match channel.queue_declare(queue.clone(), known, FieldTable::default()).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(unavailable(error)),
        }
        while let Some(letter) =
            channel.basic_get(queue.clone(), BasicGetOptions::default()).await.map_err(unavailable)?
        {
            if !visit(&letter.delivery).await? {
                break;
            }
        }
        channel.close(200, "seen".into()).await.map_err(unavailable)
    }

    async fn connect(&self) -> Result<Connection, BrokerError> {
        let properties = ConnectionProperties::default().with_connection_name("hyperfleet".into());
        let builder = ConnectionBuilder::new()
            .map_err(unavailable)?
            .with_uri(self.0.uri.clone())
            .with_properties(properties);
        timeout(PATIENCE, builder.connect()).await.map_err(|_| BrokerError::TimedOut)?.map_err(unavailable)
    }

    fn exchange<'a>(&'a self, topic: &'a str) -> &'a str {
        self.0.config.exchange.as_deref().unwrap_or(topic)
    }

    async fn declare_exchange(&self, channel: &Channel, exchange: &str) -> Result<(), BrokerError> {
        let kind = match self.0.config.exchange_type.as_str() {
            "direct" => ExchangeKind::Direct,
            "topic" => ExchangeKind::Topic,
            "headers" => ExchangeKind::Headers,
            _ => ExchangeKind::Fanout,
        };
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = channel.exchange_declare(exchange.into(), kind, durable, FieldTable::default());
        declared.await.map_err(unavailable)
    }

    async fn bind(&self, channel: &Channel, queue: &str, exchange: &str) -> Result<(), BrokerError> {
        // An exchange of this type is bound to everything, as the Go library's publishers leave the key empty.
        let all = self.0.config.exchange_type == "topic" && self.0.config.routing_key.is_empty();
        let key = if all { "#" } else { self.0.config.routing_key.as_str() };
        let bound = channel.queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.map_err(unavailable)
    }
}

async fn declare_queue(channel: &Channel, queue: &str) -> Result<(), BrokerError> {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, FieldTable::default()).await.map_err(unavailable)?;
    Ok(())
}

fn is_missing(error: &lapin::Error) -> bool {
    const NOT_FOUND: u16 = 404;
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND)
}

fn unavailable(error: impl std::fmt::Display) -> BrokerError {
    BrokerError::Unavailable(error.to_string())
}

fn properties(message: &Message, mut headers: FieldTable) -> BasicProperties {
    let ours = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in ours.chain([(MESSAGE_ID, message.id.as_str())]) {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    BasicProperties::default()
        .with_content_type("application/cloudevents+json".into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id.as_str().into())
        .with_headers(headers)
}

fn read(delivery: &Delivery) -> Message {
    // Others than we may have put it there.
    let mut id = delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
    let mut headers = Vec::new();
    for (name, value) in delivery.properties.headers().iter().flat_map(FieldTable::inner) {
        let AMQPValue::LongString(value) = value else { continue };
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        if name.as_str() == MESSAGE_ID {
            id = value;
        } else {
            headers.push((name.to_string(), value));
        }
    }
    Message { id, body: Bytes::from(delivery.data.clone()), headers }
}

/// A look at a topic by a queue that goes with its connection.
#[derive(Debug)]
pub(crate) struct Look {
    link: RabbitMq,
    topic: String,
    at: Option<(Connection, Consumer)>,
}

impl Look {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        let connection = self.link.connect().await?;
        let channel = connection.create_channel().await.map_err(unavailable)?;
        let exchange = self.link.exchange(&self.topic);
        self.link.declare_exchange(&channel, exchange).await?;
        let passing =
            QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("".into(), passing, FieldTable::default());
        let queue = queue.await.map_err(unavailable)?.name().clone();
        self.link.bind(&channel, queue.as_str(), exchange).await?;
        let unanswered = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consumer = channel.basic_consume(queue, "".into(), unanswered, FieldTable::default());
        self.at = Some((connection, consumer.await.map_err(unavailable)?));
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        let Some((_, consumer)) = &mut self.at else { return Err(unavailable("not attached")) };
        match consumer.next().await {
            Some(Ok(delivery)) => Ok(read(&delivery)),
            Some(Err(error)) => Err(unavailable(error)),
            None => Err(unavailable("the connection ended")),
        }
    }

    pub(crate) async fn close(self) {
        if let Some((connection, _)) = self.at {
            // The server notices anyway.
            let _ = timeout(PATIENCE, connection.close(200, "seen".into())).await;
        }
    }
}
