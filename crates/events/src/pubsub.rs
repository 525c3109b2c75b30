//! Google Cloud Pub/Sub. The dead-letter policy of a subscription makes the service count deliveries, and the retry
//! policy delays redeliveries. Without a dead-letter policy deliveries are counted here, for the life of the process.

mod admin;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::error::Error;
use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::options::RequestOptionsBuilder as _;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::{BasePublisher, Publisher, Subscriber, SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::error::PublishError;
use google_cloud_pubsub::model::Message as PubSubMessage;
use google_cloud_pubsub::subscriber::handler::Handler;
use google_cloud_pubsub::subscriber::{MessageStream, ShutdownBehavior, ShutdownToken};
use tokio::sync::Mutex;
use tokio::time::timeout;
use uuid::Uuid;

use crate::broker::{RawMessage, Receipt as AnyReceipt};
use crate::config;
use crate::dead_letters::{MAX_LISTED, Removal};
use crate::error::BrokerError;
use crate::message::Message;
use crate::subscription::Options;
use admin::{Admin, Missing, Names};

/// The attribute for a message's id of Watermill, on which the Go broker library is built.
const MESSAGE_ID: &str = "_watermill_message_uuid";
/// Longest wait for an answer of the service.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long messages are collected into one request.
const BATCH_DELAY: Duration = Duration::from_millis(2);
/// The service cannot tell whether there are dead letters; after this much silence there are none, or no more.
const FIRST_DEAD_LETTER: Duration = Duration::from_secs(3);
const NEXT_DEAD_LETTER: Duration = Duration::from_millis(500);
/// Messages whose deliveries are counted here.
const MAX_COUNTED: usize = 10_000;

#[derive(Debug, Clone)]
pub(crate) struct PubSub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    admin: Admin,
    subscriber: Subscriber,
    publisher: BasePublisher,
    publishers: Mutex<HashMap<String, Publisher>>,
}

impl PubSub {
    pub(crate) async fn open(config: &config::GooglePubSub) -> Result<Self, BrokerError> {
        // PUBSUB_EMULATOR_HOST has no scheme.
        let endpoint = config.emulator_host.as_ref().map(|host| format!("http://{host}"));
        macro_rules! client {
            ($builder:expr) => {{
                let builder = $builder;
                let built = match &endpoint {
                    None => builder.build().await,
                    Some(endpoint) => {
                        let nobody = anonymous::Builder::new().build();
                        builder.with_endpoint(endpoint).with_credentials(nobody).build().await
                    }
                };
                built.map_err(|error| BrokerError::Configuration(format!("Pub/Sub: {error}")))?
            }};
        }
        Ok(Self(Arc::new(Inner {
            admin: Admin {
                names: Names::new(&config.project_id),
                config: config.clone(),
                topics: client!(TopicAdmin::builder()),
                subscriptions: client!(SubscriptionAdmin::builder()),
            },
            subscriber: client!(Subscriber::builder()),
            // The caller retries.
            publisher: client!(BasePublisher::builder().with_retry_policy(NeverRetry)),
            publishers: Mutex::default(),
        })))
    }

    pub(crate) async fn publish(&self, topic: &str, message: Message) -> Result<(), BrokerError> {
        let make = self.0.admin.config.create_topic_if_missing.then_some(Missing::Topic);
        self.put(topic, message, make).await
    }

    pub(crate) fn source(&self, topic: &str, subscription: &str, options: &Options) -> Source {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        let (options, counted) = (options.clone(), HashMap::new());
        Source { backend: self.clone(), topic, subscription, options, stream: None, ended: None, counted }
    }

    pub(crate) fn tail_source(&self, topic: &str) -> TailSource {
        TailSource { backend: self.clone(), topic: topic.to_owned(), at: None }
    }

    pub(crate) async fn put_dead_letter(
        &self,
        destination: &str,
        letter: Message,
    ) -> Result<(), BrokerError> {
        let make = self.0.admin.config.create_subscription_if_missing.then_some(Missing::DeadLetterTopic);
        self.put(destination, letter, make).await
    }

    pub(crate) async fn dead_letters(
        &self,
        destination: &str,
        limit: usize,
    ) -> Result<Vec<Message>, BrokerError> {
        let mut dead_letters = Vec::new();
        let visit = |message: Message, handler: Handler| {
            dead_letters.push((message, handler));
            dead_letters.len() < limit
        };
        self.visit_dead_letters(destination, visit).await?;
        // The service keeps no order, and ids begin with the time.
        dead_letters.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
        Ok(dead_letters.into_iter().map(|(letter, _)| letter).collect())
    }

    pub(crate) async fn remove_dead_letters(
        &self,
        destination: &str,
        ids: &HashSet<&str>,
    ) -> Result<usize, BrokerError> {
        let (mut removal, mut others) = (Removal::new(ids), Vec::new());
        let visit = |message: Message, handler: Handler| {
            if removal.matches(&message.id) {
                handler.ack();
            } else {
                others.push(handler);
            }
            removal.is_incomplete()
        };
        self.visit_dead_letters(destination, visit).await?;
        Ok(removal.removed())
    }

    pub(crate) async fn health(&self) -> Result<(), BrokerError> {
        let probe =
            self.0.admin.topics.get_topic().set_topic(self.0.admin.names.topic("hyperfleet-health-probe"));
        match timeout(TIMEOUT, probe.with_retry_policy(NeverRetry).send()).await {
            Err(_) => Err(BrokerError::TimedOut),
            // Any answer shows that the service is there.
            Ok(Err(error)) if error.status().is_none() && error.http_status_code().is_none() => {
                Err(BrokerError::unavailable(error))
            }
            Ok(_) => Ok(()),
        }
    }

    async fn put(&self, topic: &str, message: Message, make: Option<Missing>) -> Result<(), BrokerError> {
        match (self.send(topic, &message).await, make) {
            (Err(BrokerError::Refused(_)), Some(missing)) => {
                self.0.admin.make(missing, topic).await?;
                self.send(topic, &message).await
            }
            (result, _) => result,
        }
    }

    async fn send(&self, topic: &str, message: &Message) -> Result<(), BrokerError> {
        let publisher = {
            let mut publishers = self.0.publishers.lock().await;
            let publisher = publishers.entry(topic.to_owned()).or_insert_with(|| {
                self.0
                    .publisher
                    .publisher(self.0.admin.names.topic(topic))
                    .set_delay_threshold(BATCH_DELAY)
                    .build()
            });
            publisher.clone()
        };
        let headers = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let attributes = headers.chain([(MESSAGE_ID, message.id.as_str())]);
        let sent = PubSubMessage::new().set_data(message.body.clone()).set_attributes(attributes);
        match timeout(TIMEOUT, publisher.publish(sent)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(PublishError::Rpc(error))) => Err(failure(error)),
            Ok(Err(error)) => Err(BrokerError::unavailable(error)),
            Err(_) => Err(BrokerError::TimedOut),
        }
    }

    /// Passes dead letters to `visit` until it returns false. Dropping a handler returns its dead letter.
    async fn visit_dead_letters(
        &self,
        destination: &str,
        mut visit: impl FnMut(Message, Handler) -> bool,
    ) -> Result<(), BrokerError> {
        if !self.0.admin.has_subscription(destination).await? {
            return Ok(());
        }
        let subscription = self.0.admin.names.subscription(destination);
        let subscribe = self.0.subscriber.subscribe(subscription);
        let mut stream = subscribe
            .set_max_outstanding_messages(MAX_LISTED)
            .set_shutdown_behavior(ShutdownBehavior::NackImmediately)
            .build();
        let mut wait = FIRST_DEAD_LETTER;
        while let Ok(Some(letter)) = timeout(wait, stream.next()).await {
            let (message, handler) = letter.map_err(failure)?;
            if !visit(read(message), handler) {
                break;
            }
            wait = NEXT_DEAD_LETTER;
        }
        end(&stream.shutdown_token()).await;
        Ok(())
    }
}

fn is_missing(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == Code::NotFound)
        || error.http_status_code() == Some(404)
}

fn failure(error: impl Into<Arc<Error>>) -> BrokerError {
    let error = error.into();
    let refused = [Code::NotFound, Code::PermissionDenied, Code::InvalidArgument, Code::FailedPrecondition];
    match error.status() {
        _ if is_missing(&error) => BrokerError::refused("no such topic or subscription"),
        Some(status) if refused.contains(&status.code) => BrokerError::refused(status.message.clone()),
        _ => BrokerError::unavailable(error),
    }
}

fn read(message: PubSubMessage) -> Message {
    let mut id = message.message_id;
    let mut headers = Vec::new();
    for (name, value) in message.attributes {
        if name == MESSAGE_ID {
            id = value;
        } else {
            headers.push((name, value));
        }
    }
    Message { id, body: message.data, headers }
}

/// Sends acknowledgements, and nacks the rest.
async fn end(stream: &ShutdownToken) {
    let _ = timeout(TIMEOUT, stream.shutdown()).await;
}

/// A streaming pull.
#[derive(Debug)]
pub(crate) struct Source {
    backend: PubSub,
    topic: String,
    subscription: String,
    options: Options,
    stream: Option<MessageStream>,
    /// Of the ended stream, whose messages are still being settled.
    ended: Option<ShutdownToken>,
    /// Deliveries by message id, where the service does not count.
    counted: HashMap<String, u32>,
}

impl Source {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        self.stream = None;
        self.backend.0.admin.make_subscription(&self.topic, &self.subscription, &self.options).await?;
        let subscribe =
            self.backend.0.subscriber.subscribe(self.backend.0.admin.names.subscription(&self.subscription));
        let mut subscribe = subscribe
            .set_max_outstanding_messages(i64::try_from(self.options.window()).unwrap_or(i64::MAX))
            .set_max_lease_extension(self.backend.0.admin.config.ack_deadline)
            .set_shutdown_behavior(ShutdownBehavior::WaitForProcessing);
        if let Some(bytes) = self.backend.0.admin.config.max_outstanding_bytes {
            subscribe = subscribe.set_max_outstanding_bytes(bytes);
        }
        self.stream = Some(subscribe.build());
        Ok(())
    }

    pub(crate) async fn next(&mut self, _prefetch: usize) -> Result<RawMessage, BrokerError> {
        let Some(stream) = &mut self.stream else { return Err(BrokerError::unavailable("not attached")) };
        match stream.next().await {
            Some(Ok((message, handler))) => Ok(self.raw(message, handler)),
            Some(Err(error)) => Err(failure(error)),
            None => Err(BrokerError::unavailable("the stream ended")),
        }
    }

    fn raw(&mut self, message: PubSubMessage, handler: Handler) -> RawMessage {
        let attempt = match handler.delivery_attempt() {
            Some(attempt) => u32::try_from(attempt).unwrap_or(1),
            None => {
                if self.counted.len() >= MAX_COUNTED {
                    self.counted.clear();
                }
                let count = self.counted.entry(message.message_id.clone()).or_default();
                *count += 1;
                *count
            }
        };
        RawMessage { message: read(message), attempt, receipt: AnyReceipt::PubSub(Receipt(handler)) }
    }

    pub(crate) async fn stop_consuming(&mut self) -> Vec<RawMessage> {
        let Some(mut stream) = self.stream.take() else { return Vec::new() };
        let mut prefetched = Vec::new();
        while let Some(Some(Ok((message, handler)))) = stream.next().now_or_never() {
            prefetched.push(self.raw(message, handler));
        }
        self.ended = Some(stream.shutdown_token());
        prefetched
    }

    pub(crate) async fn close(self) {
        if let Some(stream) = &self.ended {
            end(stream).await;
        }
    }
}

/// Settles one message, whose ack deadline the client library extends until then.
#[derive(Debug)]
pub(crate) struct Receipt(Handler);

impl Receipt {
    pub(crate) async fn acknowledge(self) -> Result<(), BrokerError> {
        self.0.ack();
        Ok(())
    }

    /// The subscription's retry policy decides when.
    pub(crate) async fn redeliver_after(self, _after: Duration) -> Result<(), BrokerError> {
        self.0.nack();
        Ok(())
    }

    pub(crate) async fn requeue(self) -> Result<(), BrokerError> {
        self.0.nack();
        Ok(())
    }
}

/// A subscription that is removed afterwards.
#[derive(Debug)]
pub(crate) struct TailSource {
    backend: PubSub,
    topic: String,
    at: Option<(String, MessageStream)>,
}

impl TailSource {
    pub(crate) async fn attach(&mut self) -> Result<(), BrokerError> {
        let name = match self.at.take() {
            Some((name, _)) => name,
            None => {
                let name = format!("{}-tail-{}", self.topic, Uuid::new_v4().simple());
                self.backend.0.admin.make_temporary_subscription(&self.topic, &name).await?;
                name
            }
        };
        let subscription = self.backend.0.admin.names.subscription(&name);
        self.at = Some((name, self.backend.0.subscriber.subscribe(subscription).build()));
        Ok(())
    }

    pub(crate) async fn next(&mut self) -> Result<Message, BrokerError> {
        let Some((_, stream)) = &mut self.at else { return Err(BrokerError::unavailable("not attached")) };
        match stream.next().await {
            Some(Ok((message, handler))) => {
                handler.ack();
                Ok(read(message))
            }
            Some(Err(error)) => Err(failure(error)),
            None => Err(BrokerError::unavailable("the stream ended")),
        }
    }

    pub(crate) async fn close(self) {
        if let Some((name, stream)) = self.at {
            end(&stream.shutdown_token()).await;
            self.backend.0.admin.remove_subscription(&name).await;
        }
    }
}
