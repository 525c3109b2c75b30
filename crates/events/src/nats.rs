//! NATS JetStream: a topic is a subject in a file-backed stream, a subscription a durable pull consumer, which counts
//! deliveries and delays redeliveries itself. The client reconnects without end, and no state has to be restored.

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
use percent_encoding::percent_decode_str;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::backoff::reconnect_after;
use crate::broker::{RawMessage, Receipt as AnyReceipt};
use crate::config;
use crate::error::BrokerError;
use crate::message::Message;

/// Expiry of one pull request. Short, because a restarted server has forgotten the request, and because a drain waits
/// for it to expire.
const PULL_EXPIRY: Duration = Duration::from_secs(1);
/// Longest wait for acknowledgements to be sent at the end.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Unacknowledged deliveries of one consumer, delayed redeliveries included.
const MAX_UNACKNOWLEDGED: i64 = 10_000;
/// Beyond this many dead letters the oldest are removed.
const MAX_DEAD_LETTERS: i64 = 100_000;
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The connection.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    client: Client,
    context: Context,
    config: Arc<config::Nats>,
    /// Streams that are known to exist.
    known: Arc<Mutex<Vec<String>>>,
}

/// The login of a URL: a user with a password, or a token.
#[derive(PartialEq, Eq)]
struct Login {
    user: String,
    password: Option<String>,
}

/// The servers of a list of URLs, and their login. The client would not use a login of an address, but log it.
fn servers(urls: &str) -> Result<(Vec<ServerAddr>, Option<Login>), String> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (mut servers, mut logins) = (Vec::new(), Vec::new());
    for url in urls.split(',') {
        let server = ServerAddr::from_str(url.trim()).map_err(|error| error.to_string())?;
        let password = server.password().map(decoded);
        logins.extend(server.username().map(|user| Login { user: decoded(user), password }));
        let mut url = server.into_inner();
        // Both fail only for addresses without a host, which are none.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        servers.push(ServerAddr::from_url(url).map_err(|error| error.to_string())?);
    }
    logins.dedup();
    if logins.len() > 1 {
        return Err("all servers must have the same login".to_owned());
    }
    Ok((servers, logins.pop()))
}

impl Nats {
    pub(crate) async fn open(config: &config::Nats) -> Result<Self, BrokerError> {
        let wrong = |why: String| BrokerError::Configuration(why);
        let (servers, login) =
            servers(&config.url).map_err(|error| wrong(format!("broker.nats.url: {error}")))?;
        if !is_subject(&config.subject_prefix) {
            return Err(wrong("broker.nats.subject_prefix must be words with dots between them".to_owned()));
        }
        let mut options = ConnectOptions::new()
            .name("hyperfleet")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(|failures| reconnect_after(u32::try_from(failures).unwrap_or(u32::MAX)))
            .event_callback(|event| async move { tracing::info!(%event, "NATS") });
        options = match login {
            Some(Login { user, password: Some(password) }) => options.user_and_password(user, password),
            Some(Login { user: token, password: None }) => options.token(token),
            None => options,
        };
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
        Source { backend: self.clone(), topic: topic.to_owned(), name: as_name(&name), at: None }
    }

    pub(crate) fn tail_source(&self, topic: &str) -> TailSource {
        TailSource { backend: self.clone(), topic: topic.to_owned(), at: None }
    }

    pub(crate) async fn put_dead_letter(
        &self,
        destination: &str,
        letter: Message,
    ) -> Result<(), BrokerError> {
        self.put(self.dead_letters_config(), self.dead_letters_subject(destination), letter).await
    }

    pub(crate) async fn dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<Message>, BrokerError> {
        let found = self.find_dead_letters(destination, limit).await?;
        Ok(found.into_iter().map(|(_, letter)| letter).collect())
    }

    pub(crate) async fn remove_dead_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let dead_letters = self.find_dead_letters(destination, usize::MAX).await?;
        let stream = self.stream(self.dead_letters_config()).await?;
        let mut removed = 0;
        for (sequence, _) in dead_letters.iter().filter(|(_, letter)| ids.contains(letter.id.as_str())) {
            removed += usize::from(stream.delete_message(*sequence).await.map_err(BrokerError::unavailable)?);
        }
        Ok(removed)
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => Err(BrokerError::unavailable("not connected")),
        }
    }

    async fn put(&self, stream: StreamConfig, subject: String, message: Message) -> Result<(), BrokerError> {
        // The client would hold the message until it is connected, long after the caller gave up.
        if self.client.connection_state() == State::Disconnected {
            return Err(BrokerError::unavailable("not connected"));
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
                PublishErrorKind::MaxPayloadExceeded => Err(BrokerError::refused(error)),
                PublishErrorKind::StreamNotFound => {
                    // The stream was removed; the next publish makes it again.
                    self.known.lock().await.retain(|known| *known != stream.name);
                    Err(BrokerError::refused(error))
                }
                _ => Err(BrokerError::unavailable(error)),
            },
        }
    }

    /// The stream, made if it is missing. An existing one keeps its configuration.
    async fn stream(&self, config: StreamConfig) -> Result<Stream<()>, BrokerError> {
        let mut known = self.known.lock().await;
        if !known.contains(&config.name) {
            let name = config.name.clone();
            self.context.get_or_create_stream(config.clone()).await.map_err(BrokerError::unavailable)?;
            known.push(name);
        }
        drop(known);
        self.context.get_stream_no_info(config.name).await.map_err(BrokerError::unavailable)
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

    fn dead_letters_config(&self) -> StreamConfig {
        StreamConfig {
            name: format!("{}_DLQ", self.config.stream),
            subjects: vec![format!("{}-dlq.>", self.config.subject_prefix)],
            storage: StorageType::File,
            max_messages: MAX_DEAD_LETTERS,
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

    fn dead_letters_subject(&self, destination: &str) -> String {
        format!("{}-dlq.{}", self.config.subject_prefix, as_name(destination))
    }

    /// Dead letters with their sequence numbers, read by an ephemeral consumer that acknowledges nothing.
    async fn find_dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<(u64, Message)>, BrokerError> {
        let stream = self.stream(self.dead_letters_config()).await?;
        let consumer = stream
            .create_consumer(pull::Config {
                filter_subject: self.dead_letters_subject(destination),
                ack_policy: AckPolicy::None,
                inactive_threshold: Duration::from_secs(60),
                ..pull::Config::default()
            })
            .await
            .map_err(BrokerError::unavailable)?;
        let wanted = usize::try_from(consumer.cached_info().num_pending).unwrap_or(usize::MAX).min(limit);
        let mut dead_letters = Vec::new();
        while dead_letters.len() < wanted {
            let before = dead_letters.len();
            let most = (wanted - before).min(500);
            let mut found =
                consumer.fetch().max_messages(most).messages().await.map_err(BrokerError::unavailable)?;
            while let Some(letter) = found.next().await {
                let letter = letter.map_err(BrokerError::unavailable)?;
                let sequence = letter.info().map_err(BrokerError::unavailable)?.stream_sequence;
                dead_letters.push((sequence, read(letter.message)));
            }
            if dead_letters.len() == before {
                break;
            }
        }
        // It would expire otherwise.
        let _ = stream.delete_consumer(&consumer.cached_info().name).await;
        Ok(dead_letters)
    }
}

fn is_subject(text: &str) -> bool {
    text.split('.').all(|word| {
        !word.is_empty() && word.chars().all(|letter| !letter.is_whitespace() && !matches!(letter, '*' | '>'))
    })
}

/// Names of consumers have no dots, blanks or wildcards.
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

/// A durable consumer.
#[derive(Debug)]
pub(crate) struct Source {
    backend: Nats,
    topic: String,
    name: String,
    at: Option<Attachment>,
}

struct Attachment {
    consumer: PullConsumer,
    ack_wait: Duration,
    batch: Option<pull::Batch>,
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").field("ack_wait", &self.ack_wait).finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        self.at = None;
        let subject = self.backend.subject(&self.topic)?;
        // A removed stream is made again, and the consumer with it.
        self.backend.known.lock().await.clear();
        let stream = self.backend.stream(self.backend.stream_config()).await?;
        let wanted = pull::Config {
            durable_name: Some(self.name.clone()),
            filter_subject: subject,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.backend.config.ack_wait,
            deliver_policy: DeliverPolicy::New,
            max_deliver: -1,
            max_ack_pending: MAX_UNACKNOWLEDGED,
            ..pull::Config::default()
        };
        let consumer =
            stream.get_or_create_consumer(&self.name, wanted).await.map_err(BrokerError::unavailable)?;
        let ack_wait = consumer.cached_info().config.ack_wait;
        self.at = Some(Attachment { consumer, ack_wait, batch: None });
        Ok(())
    }

    pub(crate) async fn next(&mut self, prefetch: usize) -> Result<RawMessage, BrokerError> {
        let Some(at) = &mut self.at else { return Err(BrokerError::unavailable("not attached")) };
        loop {
            if at.batch.is_none() {
                let pull = at.consumer.batch().max_messages(prefetch).expires(PULL_EXPIRY).messages().await;
                at.batch = Some(pull.map_err(BrokerError::unavailable)?);
            }
            let next = match &mut at.batch {
                Some(batch) => batch.next().await,
                None => None,
            };
            match next {
                Some(received) => return raw(received.map_err(BrokerError::unavailable)?, at.ack_wait),
                None => at.batch = None,
            }
        }
    }

    pub(crate) async fn stop_consuming(&mut self) -> Vec<RawMessage> {
        let Some(Attachment { batch: Some(mut batch), ack_wait, .. }) = self.at.take() else {
            return Vec::new();
        };
        let mut prefetched = Vec::new();
        // A pull request cannot be withdrawn, and to one without a listener NATS 2.9 delivers requeued messages in vain.
        // So it is left to expire.
        let expired = Instant::now() + 2 * PULL_EXPIRY;
        while let Ok(Some(received)) = timeout_at(expired, batch.next()).await {
            prefetched.extend(
                received.map_err(BrokerError::unavailable).and_then(|received| raw(received, ack_wait)),
            );
        }
        prefetched
    }

    pub(crate) async fn close(self) {
        // Acknowledgements may still be in the client's buffer.
        let _ = timeout(TIMEOUT, self.backend.client.flush()).await;
    }
}

fn raw(received: Received, ack_wait: Duration) -> Result<RawMessage, BrokerError> {
    let delivered = received.info().map_err(BrokerError::unavailable)?.delivered;
    let (message, acker) = received.split();
    let acker = Arc::new(acker);
    let extension = tokio::spawn(extend_ack_wait(Arc::clone(&acker), ack_wait / 3));
    let receipt = Receipt { acker, extension: AbortOnDropHandle::new(extension) };
    Ok(RawMessage {
        message: read(message),
        attempt: u32::try_from(delivered).unwrap_or(u32::MAX),
        receipt: AnyReceipt::Nats(receipt),
    })
}

/// Reports progress until it is aborted, so that the server does not redeliver the message.
async fn extend_ack_wait(acker: Arc<Acker>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let _ = acker.ack_with(AckKind::Progress).await;
    }
}

/// Settles one message.
pub(crate) struct Receipt {
    acker: Arc<Acker>,
    extension: AbortOnDropHandle<()>,
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipt")
    }
}

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        self.settle(AckKind::Ack).await
    }

    pub(crate) async fn redeliver_after(self, after: Duration) -> Result<(), BrokerError> {
        self.settle(AckKind::Nak(Some(after))).await
    }

    pub(crate) async fn requeue(self) -> Result<(), BrokerError> {
        self.settle(AckKind::Nak(None)).await
    }

    async fn settle(self, kind: AckKind) -> Result<(), BrokerError> {
        // Progress after the acknowledgement would revoke it.
        self.extension.abort();
        let _ = self.extension.await;
        self.acker.ack_with(kind).await.map_err(BrokerError::unavailable)
    }
}

/// A plain subscription to the subject, beside the stream.
#[derive(Debug)]
pub(crate) struct TailSource {
    backend: Nats,
    topic: String,
    at: Option<Subscriber>,
}

impl TailSource {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        let subject = self.backend.subject(&self.topic)?;
        self.at = Some(self.backend.client.subscribe(subject).await.map_err(BrokerError::unavailable)?);
        // After the flush the server knows the subscription.
        self.backend.client.flush().await.map_err(BrokerError::unavailable)
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        let Some(at) = &mut self.at else { return Err(BrokerError::unavailable("not attached")) };
        at.next().await.map(read).ok_or_else(|| BrokerError::unavailable("the connection ended"))
    }

    pub(crate) async fn close(self) {}
}
