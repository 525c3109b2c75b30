//! Names of topics and subscriptions of Pub/Sub, and the creation of missing ones where the settings allow it.

use std::time::Duration;

use google_cloud_gax::error::Error;
use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::options::RequestOptionsBuilder as _;
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::{SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::model::{DeadLetterPolicy, ExpirationPolicy, RetryPolicy, Subscription, Topic};
use tokio::time::timeout;

use super::{TIMEOUT, failure, is_missing};
use crate::config;
use crate::error::BrokerError;
use crate::subscription::Options;

/// Bounds of the service for `max_delivery_attempts`.
const DELIVERIES: std::ops::RangeInclusive<i32> = 5..=100;
/// The longest back-off of a retry policy.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The shortest expiration that the service allows.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What to make for a message whose topic is missing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Missing {
    Topic,
    /// With a subscription of the same name, without which the topic would keep nothing.
    DeadLetterTopic,
}

/// Full names within one project.
#[derive(Debug, Clone)]
pub(super) struct Names(String);

impl Names {
    pub(super) fn new(project: &str) -> Self {
        Self(format!("projects/{project}"))
    }

    pub(super) fn topic(&self, topic: &str) -> String {
        format!("{}/topics/{topic}", self.0)
    }

    pub(super) fn subscription(&self, subscription: &str) -> String {
        format!("{}/subscriptions/{subscription}", self.0)
    }
}

/// Creates and removes topics and subscriptions.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) names: Names,
    pub(super) config: config::GooglePubSub,
    pub(super) topics: TopicAdmin,
    pub(super) subscriptions: SubscriptionAdmin,
}

impl Admin {
    pub(super) async fn make(&self, missing: Missing, name: &str) -> Result<(), BrokerError> {
        let mut topic = Topic::new().set_name(self.names.topic(name));
        topic.message_retention_duration = self.config.topic_retention.and_then(|time| time.try_into().ok());
        let make = self.topics.create_topic().with_request(topic).with_retry_policy(NeverRetry);
        made(timeout(TIMEOUT, make.send()).await)?;
        match missing {
            Missing::Topic => Ok(()),
            Missing::DeadLetterTopic => {
                let dead_letters = self.subscription_of(name, name);
                self.create(dead_letters).await
            }
        }
    }

    /// Makes a subscription with a retry policy, and with a topic for its dead letters.
    pub(super) async fn make_subscription(
        &self,
        topic: &str,
        name: &str,
        options: &Options,
    ) -> Result<(), BrokerError> {
        if self.config.create_topic_if_missing {
            self.make(Missing::Topic, topic).await?;
        }
        if !self.config.create_subscription_if_missing || self.has_subscription(name).await? {
            return Ok(());
        }
        let dead_letters = format!("{name}-dlq");
        self.make(Missing::DeadLetterTopic, &dead_letters).await?;
        let mut subscription = self.subscription_of(topic, name);
        let deliveries = i32::try_from(options.max_deliveries).unwrap_or(i32::MAX);
        subscription.dead_letter_policy = Some(
            DeadLetterPolicy::new()
                .set_dead_letter_topic(self.names.topic(&dead_letters))
                .set_max_delivery_attempts(deliveries.clamp(*DELIVERIES.start(), *DELIVERIES.end())),
        );
        let mut waits = RetryPolicy::new();
        waits.minimum_backoff = options.backoff_initial.min(LONGEST_WAIT).try_into().ok();
        waits.maximum_backoff = options.backoff_max.min(LONGEST_WAIT).try_into().ok();
        subscription.retry_policy = Some(waits);
        self.create(subscription).await
    }

    pub(super) async fn make_temporary_subscription(
        &self,
        topic: &str,
        name: &str,
    ) -> Result<(), BrokerError> {
        let mut subscription = self.subscription_of(topic, name);
        let mut expiration = ExpirationPolicy::new();
        expiration.ttl = DAY.try_into().ok();
        subscription.expiration_policy = Some(expiration);
        subscription.message_retention_duration = Duration::from_secs(600).try_into().ok();
        self.create(subscription).await
    }

    pub(super) async fn remove_subscription(&self, name: &str) {
        let name = self.names.subscription(name);
        let delete = self.subscriptions.delete_subscription().set_subscription(name);
        // It would expire otherwise.
        let _ = timeout(TIMEOUT, delete.send()).await;
    }

    pub(super) async fn has_subscription(&self, name: &str) -> Result<bool, BrokerError> {
        let name = self.names.subscription(name);
        let get = self.subscriptions.get_subscription().set_subscription(name);
        match timeout(TIMEOUT, get.with_retry_policy(NeverRetry).send()).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(error)) if is_missing(&error) => Ok(false),
            Ok(Err(error)) => Err(failure(error)),
            Err(_) => Err(BrokerError::TimedOut),
        }
    }

    fn subscription_of(&self, topic: &str, name: &str) -> Subscription {
        let config = &self.config;
        let mut expiration = ExpirationPolicy::new();
        expiration.ttl = config.expiration_ttl.and_then(|time| time.try_into().ok());
        let mut subscription = Subscription::new()
            .set_name(self.names.subscription(name))
            .set_topic(self.names.topic(topic))
            .set_ack_deadline_seconds(i32::try_from(config.ack_deadline.as_secs()).unwrap_or(60))
            .set_expiration_policy(expiration);
        subscription.message_retention_duration = config.message_retention.try_into().ok();
        subscription
    }

    async fn create(&self, subscription: Subscription) -> Result<(), BrokerError> {
        let make = self.subscriptions.create_subscription().with_request(subscription);
        made(timeout(TIMEOUT, make.with_retry_policy(NeverRetry).send()).await)
    }
}

/// A topic or subscription that exists already counts as made.
fn made<T>(result: Result<Result<T, Error>, tokio::time::error::Elapsed>) -> Result<(), BrokerError> {
    match result {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if exists(&error) => Ok(()),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(BrokerError::TimedOut),
    }
}

fn exists(error: &Error) -> bool {
    error.status().is_some_and(|status| status.code == Code::AlreadyExists)
        || error.http_status_code() == Some(409)
}
