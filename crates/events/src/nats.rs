//! NATS JetStream: a topic is a subject in a file-backed stream, a subscription a durable pull consumer, which
//! counts deliveries and waits before the next one by itself. The client reconnects for ever; nothing here holds
//! state that a new connection would have to restore.

use std::collections::HashSet;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{Acker, PublishMessage};
use async_nats::jetstream::stream::{Config as StreamConfig, StorageType, Stream};
use async_nats::jetstream::{AckKind, Context, Message as Received};
use async_nats::{Client, ConnectOptions, HeaderMap, ServerAddr, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::backoff::reconnect_after;
use crate::broker::{Raw, Receipt as AnyReceipt};
use crate::config;
use crate::error::BrokerError;
use crate::message::Message;

/// How long one request for messages stays with the server. Short, because a server that went away in between has
/// forgotten the request, and because a process that ends waits for it to run out.
const PULL: Duration = Duration::from_secs(1);
/// Longest wait for what is still to be sent at the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most deliveries of one consumer that are not settled, those that wait for another try included.
const UNSETTLED_AT_MOST: i64 = 10_000;
/// Most dead letters; the oldest go first.
const LETTERS_AT_MOST: i64 = 100_000;
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The connection.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    client: Client,
    context: Context,
    config: Arc<config::Nats>,
    /// Streams that were seen to be there.
    known: Arc<Mutex<Vec<String>>>,
}

impl Nats {
    pub(crate) async fn open(config: &config::Nats) -> Result<Self, BrokerError> {
        let wrong = |why: String| BrokerError::Configuration(why);
        let servers: Vec<ServerAddr> = config
            .url
            .split(',')
            .map(|url| ServerAddr::from_str(url.trim()))
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("broker.nats.url: {error}")))?;
        if !is_subject(&config.subject_prefix) {
            return Err(wrong("broker.nats.subject_prefix must be words with dots between them".to_owned()));
        }
        let mut options = ConnectOptions::new()
            .name("hyperfleet")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(|failures| reconnect_after(u32::try_from(failures).unwrap_or(u32::MAX)))
            .event_callback(|event| async move { tracing::info!(%event, "NATS") });
        if let Some(file) = &config.ca_file {
            options = options.add_root_certificates(file.clone());
        }
        let client = options.connect(servers).await.map_err(|error| wrong(format!("NATS: {error}")))?;
        let context = async_nats::jetstream::new(client.clone());
        Ok(Self { client, context, config: Arc::new(config.clone()), known: Arc::default() })
    }

    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let stream = self.stream_config();
        self.put(stream, self.subject(topic)?, message).await
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str) -> Source {
        let name = format!("{topic}-{subscription}");
        Source { link: self.clone(), topic: topic.to_owned(), name: as_name(&name), at: None }
    }

    pub(crate) fn look(&self, topic: &str) -> Look {
        Look { link: self.clone(), topic: topic.to_owned(), at: None }
    }

    pub(crate) async fn put_letter(&self, destination: &str, letter: Message) -> Result<(), BrokerError> {
        self.put(self.letters_config(), self.letters_subject(destination), letter).await
    }

    pub(crate) async fn letters(&self, destination: &str, limit: usize) -> Result<Vec<Message>, BrokerError> {
        let found = self.find_letters(destination, limit).await?;
        Ok(found.into_iter().map(|(_, letter)| letter).collect())
    }

    pub(crate) async fn remove_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let letters = self.find_letters(destination, usize::MAX).await?;
        let stream = self.stream(self.letters_config()).await?;
        let mut removed = 0;
        for (sequence, _) in letters.iter().filter(|(_, letter)| ids.contains(letter.id.as_str())) {
            removed += usize::from(stream.delete_message(*sequence).await.map_err(unavailable)?);
        }
        Ok(removed)
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => Err(unavailable("not connected")),
        }
    }

    async fn put(&self, stream: StreamConfig, subject: String, message: Message) -> Result<(), BrokerError> {
        // Otherwise it would wait in the client for the connection, long after the caller gave up.
        if self.client.connection_state() == State::Disconnected {
            return Err(unavailable("not connected"));
        }
        self.stream(stream.clone()).await?;
        let mut headers = HeaderMap::new();
        for (name, value) in &message.headers {
            headers.insert(name.as_str(), value.as_str());
        }
        let publish = PublishMessage::build().headers(headers).payload(message.body).message_id(&message.id);
        let result = match self.context.send_publish(subject, publish).await {
            Ok(confirmation) => confirmation.await.map(|_| ()),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => match error.kind() {
                PublishErrorKind::TimedOut => Err(BrokerError::TimedOut),
                PublishErrorKind::MaxPayloadExceeded => Err(BrokerError::Refused(error.to_string())),
                PublishErrorKind::StreamNotFound => {
                    // Somebody removed it; the next try makes it again.
                    self.known.lock().await.retain(|known| *known != stream.name);
                    Err(BrokerError::Refused(error.to_string()))
                }
                _ => Err(unavailable(error)),
            },
        }
    }

    /// The stream, made when it is missing. One that is there is taken as it is.
    async fn stream(&self, config: StreamConfig) -> Result<Stream<()>, BrokerError> {
        let mut known = self.known.lock().await;
        if !known.contains(&config.name) {
            let name = config.name.clone();
            self.context.get_or_create_stream(config.clone()).await.map_err(unavailable)?;
            known.push(name);
        }
        drop(known);
        self.context.get_stream_no_info(config.name).await.map_err(unavailable)
    }

    fn stream_config(&self) -> StreamConfig {
        StreamConfig {
            name: self.config.stream.clone(),
            subjects: vec![format!("{}.>", self.config.subject_prefix)],
            storage: StorageType::File,
            max_age: self.config.max_age,
            num_replicas: self.config.replicas,
            ..StreamConfig::default()
        }
    }

    fn letters_config(&self) -> StreamConfig {
        StreamConfig {
            name: format!("{}_DLQ", self.config.stream),
            subjects: vec![format!("{}-dlq.>", self.config.subject_prefix)],
            storage: StorageType::File,
            max_messages: LETTERS_AT_MOST,
            num_replicas: self.config.replicas,
            ..StreamConfig::default()
        }
    }

    fn subject(&self, topic: &str) -> Result<String, BrokerError> {
        if is_subject(topic) {
            Ok(format!("{}.{topic}", self.config.subject_prefix))
        } else {
            Err(BrokerError::Configuration("a topic of NATS must be words with dots between them".to_owned()))
        }
    }

    fn letters_subject(&self, destination: &str) -> String {
        format!("{}-dlq.{}", self.config.subject_prefix, as_name(destination))
    }

    /// Letters with their place in the stream, by a consumer that takes nothing and is gone afterwards.
    async fn find_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<(u64, Message)>, BrokerError> {
        let stream = self.stream(self.letters_config()).await?;
        let consumer = stream
            .create_consumer(pull::Config {
                filter_subject: self.letters_subject(destination),
                ack_policy: AckPolicy::None,
                inactive_threshold: Duration::from_secs(60),
                ..pull::Config::default()
            })
            .await
            .map_err(unavailable)?;
        let wanted = usize::try_from(consumer.cached_info().num_pending).unwrap_or(usize::MAX).min(limit);
        let mut letters = Vec::new();
        while letters.len() < wanted {
            let before = letters.len();
            let most = (wanted - before).min(500);
            let mut found = consumer.fetch().max_messages(most).messages().await.map_err(unavailable)?;
            while let Some(letter) = found.next().await {
                let letter = letter.map_err(unavailable)?;
                let sequence = letter.info().map_err(unavailable)?.stream_sequence;
                letters.push((sequence, read(letter.message)));
            }
            if letters.len() == before {
                break;
            }
        }
        // It would go by itself; that it goes now is a courtesy.
        let _ = stream.delete_consumer(&consumer.cached_info().name).await;
        Ok(letters)
    }
}

fn unavailable(error: impl std::fmt::Display) -> BrokerError {
    BrokerError::Unavailable(error.to_string())
}

fn is_subject(text: &str) -> bool {
    text.split('.').all(|word| {
        !word.is_empty() && word.chars().all(|letter| !letter.is_whitespace() && !matches!(letter, '*' | '>'))
    })
}

/// A consumer's name knows no dots, blanks or wildcards.
fn as_name(text: &str) -> String {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    text.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

fn read(message: async_nats::Message) -> Message {
    let headers = message.headers.unwrap_or_default();
    let mut id = String::new();
    let mut ours = Vec::new();
    for (name, values) in headers.iter() {
        let value = values.first().map(ToString::to_string).unwrap_or_default();
        if <_ as AsRef<str>>::as_ref(name) == MESSAGE_ID {
            id = value;
        } else {
            ours.push((name.to_string(), value));
        }
    }
    Message { id, body: message.payload, headers: ours }
}

/// Where a subscription's messages come from.
#[derive(Debug)]
pub(crate) struct Source {
    link: Nats,
    topic: String,
    name: String,
    at: Option<At>,
}

struct At {
    consumer: PullConsumer,
    ack_wait: Duration,
    batch: Option<pull::Batch>,
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("At").field("ack_wait", &self.ack_wait).finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        self.at = None;
        let subject = self.link.subject(&self.topic)?;
        // A stream that was removed is made again, and the consumer with it.
        self.link.known.lock().await.clear();
        let stream = self.link.stream(self.link.stream_config()).await?;
        let wanted = pull::Config {
            durable_name: Some(self.name.clone()),
            filter_subject: subject,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.link.config.ack_wait,
            deliver_policy: DeliverPolicy::New,
            max_deliver: -1,
            max_ack_pending: UNSETTLED_AT_MOST,
            ..pull::Config::default()
        };
        let consumer = stream.get_or_create_consumer(&self.name, wanted).await.map_err(unavailable)?;
        let ack_wait = consumer.cached_info().config.ack_wait;
        self.at = Some(At { consumer, ack_wait, batch: None });
        Ok(())
    }

    pub(crate) async fn next(&mut self, room: usize) -> Result<Raw, BrokerError> {
        let Some(at) = &mut self.at else { return Err(unavailable("not attached")) };
        loop {
            if at.batch.is_none() {
                let pull = at.consumer.batch().max_messages(room).expires(PULL).messages().await;
                at.batch = Some(pull.map_err(unavailable)?);
            }
            let next = match &mut at.batch {
                Some(batch) => batch.next().await,
                None => None,
            };
            match next {
                Some(received) => return raw(received.map_err(unavailable)?, at.ack_wait),
                None => at.batch = None,
            }
        }
    }

    pub(crate) async fn stop_taking(&mut self) -> Vec<Raw> {
        let Some(At { batch: Some(mut batch), ack_wait, .. }) = self.at.take() else { return Vec::new() };
        let mut ahead = Vec::new();
        // A request cannot be taken back. One that nobody listens to any more makes servers of version 2.9 count a
        // message that was given back without handing it out, so this one is let run out.
        let ran_out = Instant::now() + 2 * PULL;
        while let Ok(Some(received)) = timeout_at(ran_out, batch.next()).await {
            ahead.extend(received.map_err(unavailable).and_then(|received| raw(received, ack_wait)));
        }
        ahead
    }

    pub(crate) async fn close(self) {
        // Acknowledgements may still wait to be sent.
        let _ = timeout(PATIENCE, self.link.client.flush()).await;
    }
}

fn raw(received: Received, ack_wait: Duration) -> Result<Raw, BrokerError> {
    let delivered = received.info().map_err(unavailable)?.delivered;
    let (message, acker) = received.split();
    let acker = Arc::new(acker);
    let alive = tokio::spawn(stay_alive(Arc::clone(&acker), ack_wait / 3));
    let receipt = Receipt { acker, alive: AbortOnDropHandle::new(alive) };
    Ok(Raw {
        message: read(message),
        attempt: u32::try_from(delivered).unwrap_or(u32::MAX),
        receipt: AnyReceipt::Nats(receipt),
    })
}

/// Tells the server that the message is being worked on, for as long as it is.
async fn stay_alive(acker: Arc<Acker>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        // Not heard, it is said again.
        let _ = acker.ack_with(AckKind::Progress).await;
    }
}

/// The right to settle one message.
pub(crate) struct Receipt {
    acker: Arc<Acker>,
    alive: AbortOnDropHandle<()>,
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipt")
    }
}

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        self.say(AckKind::Ack).await
    }

    pub(crate) async fn retry(self, after: Duration) -> Result<(), BrokerError> {
        self.say(AckKind::Nak(Some(after))).await
    }

    pub(crate) async fn give_back(self) -> Result<(), BrokerError> {
        self.say(AckKind::Nak(None)).await
    }

    async fn say(self, kind: AckKind) -> Result<(), BrokerError> {
        // A sign of life after this word would take it back.
        self.alive.abort();
        let _ = self.alive.await;
        self.acker.ack_with(kind).await.map_err(unavailable)
    }
}

/// A look at a topic, beside the stream.
#[derive(Debug)]
pub(crate) struct Look {
    link: Nats,
    topic: String,
    at: Option<Subscriber>,
}

impl Look {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        let subject = self.link.subject(&self.topic)?;
        self.at = Some(self.link.client.subscribe(subject).await.map_err(unavailable)?);
        // The look begins when the server knows of it.
        self.link.client.flush().await.map_err(unavailable)
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        let Some(at) = &mut self.at else { return Err(unavailable("not attached")) };
        at.next().await.map(read).ok_or_else(|| unavailable("the connection ended"))
    }

    pub(crate) async fn close(self) {}
}
