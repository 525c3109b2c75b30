//! RabbitMQ: a topic is a durable exchange, a subscription a durable queue bound to it. A classic queue neither counts
//! deliveries nor delays redeliveries, so both happen here without losing a message: a nacked one stays unacknowledged
//! during its back-off, is then published to the queue with its count, and acknowledged after the confirm.

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
use crate::dead_letters::Removal;
use crate::error::BrokerError;
use crate::message::Message;
use crate::subscription::Options;
use publishing::{Declare, Publishing, TIMEOUT};
pub(crate) use source::{Receipt, Source};

/// The header for a message's id of Watermill, on which the Go broker library is built.
const MESSAGE_ID: &str = "_watermill_message_uuid";
/// The delivery count, from the second delivery on.
const ATTEMPT: &str = "hyperfleet-attempt";
/// Seconds after which a silent server counts as dead.
const HEARTBEAT: u16 = 10;
/// AMQP's delivery mode for messages on disk.
const PERSISTENT: u8 = 2;

/// Connects when it is used.
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
        // Without its TLS feature the client library would send the password in plain text to such an address.
        if uri.scheme == AMQPScheme::AMQPS {
            let why = "broker.rabbitmq.url: RabbitMQ is used without TLS, so amqps is refused";
            return Err(BrokerError::Configuration(why.to_owned()));
        }
        // In the Go library a bare slash behind the port names the default virtual host.
        if uri.vhost.is_empty() {
            uri.vhost.push('/');
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        let publishing = Publishing::default();
        Ok(Self(Arc::new(Inner { uri, config: config.clone(), publishing })))
    }

    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let (exchange, key) = (self.exchange(topic), self.0.config.routing_key.as_str());
        self.0
            .publishing
            .put(self, Declare::Exchange(exchange), exchange, key, &message, FieldTable::default())
            .await
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str, options: &Options) -> Source {
        let queue = format!("{}-{subscription}", self.0.config.queue.as_deref().unwrap_or(topic));
        Source::new(self.clone(), topic, queue, options.window())
    }

    pub(crate) fn tail_source(&self, topic: &str) -> TailSource {
        TailSource { backend: self.clone(), topic: topic.to_owned(), at: None }
    }

    pub(crate) async fn put_dead_letter(
        &self,
        destination: &str,
        letter: Message,
    ) -> Result<(), BrokerError> {
        self.0
            .publishing
            .put(self, Declare::Queue(destination), "", destination, &letter, FieldTable::default())
            .await
    }

    pub(crate) async fn dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<Message>, BrokerError> {
        let mut dead_letters = Vec::new();
        self.visit_dead_letters(destination, async |letter: &Delivery| {
            dead_letters.push(read(letter));
            Ok(dead_letters.len() < limit)
        })
        .await?;
        Ok(dead_letters)
    }

    pub(crate) async fn remove_dead_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let mut removal = Removal::new(ids);
        self.visit_dead_letters(destination, async |letter: &Delivery| {
            if removal.matches(&read(letter).id)
                && !letter.ack(BasicAckOptions::default()).await.map_err(BrokerError::unavailable)?
            {
                return Err(BrokerError::unavailable("the connection ended before"));
            }
            Ok(removal.is_incomplete())
        })
        .await?;
        Ok(removal.removed())
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        let channel = self.0.publishing.channel(self).await?;
        self.0.publishing.keep(channel).await;
        Ok(())
    }

    /// Passes dead letters to `visit` until it returns false. Closing the channel requeues the unacknowledged ones.
    async fn visit_dead_letters(
        &self,
        destination: &str,
        mut visit: impl AsyncFnMut(&Delivery) -> Result<bool, BrokerError>,
    ) -> Result<(), BrokerError> {
        let channel = self.0.publishing.channel(self).await?;
        let queue = ShortString::from(destination);
        // Passive, because a mistyped name would leave a queue behind.
        let known = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match channel.queue_declare(queue.clone(), known, FieldTable::default()).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(BrokerError::unavailable(error)),
        }
        while let Some(letter) = channel
            .basic_get(queue.clone(), BasicGetOptions::default())
            .await
            .map_err(BrokerError::unavailable)?
        {
            if !visit(&letter.delivery).await? {
                break;
            }
        }
        channel.close(200, "seen".into()).await.map_err(BrokerError::unavailable)
    }

    async fn connect(&self) -> Result<Connection, BrokerError> {
        let properties = ConnectionProperties::default().with_connection_name("hyperfleet".into());
        let builder = ConnectionBuilder::new()
            .map_err(BrokerError::unavailable)?
            .with_uri(self.0.uri.clone())
            .with_properties(properties);
        timeout(TIMEOUT, builder.connect())
            .await
            .map_err(|_| BrokerError::TimedOut)?
            .map_err(BrokerError::unavailable)
    }

    /// The tag of a consumer, which is replaced now and then on the same channel; empty lets the server choose.
    fn consumer_tag(&self, number: u64) -> ShortString {
        match self.0.config.consumer_tag.as_str() {
            "" => ShortString::default(),
            tag if number == 0 => tag.into(),
            tag => format!("{tag}-{number}").into(),
        }
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
        declared.await.map_err(BrokerError::unavailable)
    }

    async fn bind(&self, channel: &Channel, queue: &str, exchange: &str) -> Result<(), BrokerError> {
        // Publishers of the Go library leave the routing key empty.
        let all = self.0.config.exchange_type == "topic" && self.0.config.routing_key.is_empty();
        let key = if all { "#" } else { self.0.config.routing_key.as_str() };
        let bound = channel.queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.map_err(BrokerError::unavailable)
    }
}

async fn declare_queue(channel: &Channel, queue: &str) -> Result<(), BrokerError> {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel
        .queue_declare(queue.into(), durable, FieldTable::default())
        .await
        .map_err(BrokerError::unavailable)?;
    Ok(())
}

fn is_missing(error: &lapin::Error) -> bool {
    const NOT_FOUND: u16 = 404;
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND)
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

/// An exclusive queue, which the server deletes with the connection.
#[derive(Debug)]
pub(crate) struct TailSource {
    backend: RabbitMq,
    topic: String,
    at: Option<(Connection, Consumer)>,
}

impl TailSource {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        let connection = self.backend.connect().await?;
        let channel = connection.create_channel().await.map_err(BrokerError::unavailable)?;
        let exchange = self.backend.exchange(&self.topic);
        self.backend.declare_exchange(&channel, exchange).await?;
        let temporary =
            QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("".into(), temporary, FieldTable::default());
        let queue = queue.await.map_err(BrokerError::unavailable)?.name().clone();
        self.backend.bind(&channel, queue.as_str(), exchange).await?;
        let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consumer = channel.basic_consume(queue, "".into(), no_ack, FieldTable::default());
        self.at = Some((connection, consumer.await.map_err(BrokerError::unavailable)?));
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        let Some((_, consumer)) = &mut self.at else { return Err(BrokerError::unavailable("not attached")) };
        match consumer.next().await {
            Some(Ok(delivery)) => Ok(read(&delivery)),
            Some(Err(error)) => Err(BrokerError::unavailable(error)),
            None => Err(BrokerError::unavailable("the connection ended")),
        }
    }

    pub(crate) async fn close(self) {
        if let Some((connection, _)) = self.at {
            let _ = timeout(TIMEOUT, connection.close(200, "seen".into())).await;
        }
    }
}
