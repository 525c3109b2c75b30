//! Every setting of a broker in one table, which the roles join to theirs. The names are those of the Go broker library
//! where it has one. Its settings without a meaning here are accepted, so that its files can be used as they are.

use std::time::Duration;

use hyperfleet_service::settings::{Form, Key, NO_EFFECT, Secret, key};

/// A setting of the Go broker library that has no meaning here.
const fn accepted(path: &'static str, form: Form, default: &'static str) -> Key {
    key(path, form, default, NO_EFFECT)
}

const fn url(path: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { path, form: Form::NonEmpty, default, doc, secret: Secret::Url }
}

const fn number(min: i64, max: i64) -> Form {
    Form::Integer { min, max }
}

/// The words of `broker.type`.
pub(super) const KINDS: &[&str] = &["memory", "nats", "rabbitmq", "googlepubsub"];

/// The keys below `broker` and `subscriber`.
pub const KEYS: &[Key] = &[
    key("broker.type", Form::Choice(KINDS), "memory", "What carries events."),
    url(
        "broker.nats.url",
        "nats://localhost:4222",
        "Servers of NATS, separated by commas, with one login: `nats://user:password@…` or `nats://token@…`.",
    ),
    key(
        "broker.nats.stream",
        Form::NonEmpty,
        "HYPERFLEET",
        "Stream that keeps events; its dead letters are kept in one with `_DLQ` behind its name.",
    ),
    key("broker.nats.subject_prefix", Form::NonEmpty, "events", "First part of every subject."),
    key("broker.nats.max_age", Form::SOME_TIME, "7d", "How long a stream that is made here keeps events."),
    key(
        "broker.nats.ack_wait",
        Form::Duration { min: Duration::from_secs(1) },
        "30s",
        "If the process that works on an event is silent for this long, another gets the event.",
    ),
    key("broker.nats.replicas", number(1, 5), "1", "Copies that a stream made here has in a cluster."),
    key("broker.nats.ca_file", Form::Text, "", "File of certificate authorities to trust, in PEM."),
    url("broker.rabbitmq.url", "amqp://localhost:5672", "Address of RabbitMQ, `amqp://`; without TLS."),
    key("broker.rabbitmq.exchange", Form::Text, "", "Exchange; the topic when empty."),
    key(
        "broker.rabbitmq.exchange_type",
        Form::Choice(&["fanout", "direct", "topic", "headers"]),
        "fanout",
        "How the exchange chooses queues.",
    ),
    key("broker.rabbitmq.queue", Form::Text, "", "First part of a queue's name; the topic when empty."),
    key("broker.rabbitmq.routing_key", Form::Text, "", "Routing key of every event."),
    key(
        "broker.rabbitmq.prefetch_count",
        number(0, 65_535),
        "0",
        "Events that a process takes ahead; 0 for twice `subscriber.parallelism`.",
    ),
    key(
        "broker.rabbitmq.consumer_tag",
        Form::Text,
        "",
        "Tag of the consumer; the server's choice when empty.",
    ),
    accepted("broker.rabbitmq.prefetch_size", number(0, i64::MAX), "0"),
    accepted("broker.rabbitmq.publisher_confirm", Form::Bool, "true"),
    key("broker.googlepubsub.project_id", Form::Text, "", "Project of topics and subscriptions."),
    key(
        "broker.googlepubsub.create_topic_if_missing",
        Form::Bool,
        "false",
        "Makes topics that are not there.",
    ),
    key(
        "broker.googlepubsub.create_subscription_if_missing",
        Form::Bool,
        "false",
        "Makes subscriptions that are not there.",
    ),
    key(
        "broker.googlepubsub.ack_deadline_seconds",
        number(10, 600),
        "60",
        "If the process that works on an event is silent for this long, another gets the event.",
    ),
    key(
        "broker.googlepubsub.message_retention_duration",
        Form::Duration { min: Duration::from_secs(600) },
        "7d",
        "How long a subscription that is made here keeps events.",
    ),
    key(
        "broker.googlepubsub.expiration_ttl",
        Form::Text,
        "0",
        "A subscription made here goes after this time without use; 0 for never.",
    ),
    key(
        "broker.googlepubsub.topic_retention_duration",
        Form::ANY_DURATION,
        "0s",
        "How long a topic that is made here keeps events; 0s for not at all.",
    ),
    key(
        "broker.googlepubsub.retry_min_backoff",
        Form::Text,
        "",
        "Replaces `subscriber.backoff_initial` for subscriptions that this process creates.",
    ),
    key(
        "broker.googlepubsub.retry_max_backoff",
        Form::Text,
        "",
        "Replaces `subscriber.backoff_max` for subscriptions that this process creates.",
    ),
    key(
        "broker.googlepubsub.dead_letter_max_attempts",
        number(0, 100),
        "0",
        "Replaces `subscriber.max_deliveries`; at least 5, or 0 to use that one.",
    ),
    key(
        "broker.googlepubsub.max_outstanding_messages",
        number(0, 1_000_000),
        "0",
        "Events that a process takes ahead; 0 for twice `subscriber.parallelism`.",
    ),
    key(
        "broker.googlepubsub.max_outstanding_bytes",
        number(0, i64::MAX),
        "0",
        "Bytes of events that a process takes ahead; 0 for the client library's default.",
    ),
    accepted("broker.googlepubsub.dead_letter_topic", Form::Text, ""),
    accepted("broker.googlepubsub.topic", Form::Text, ""),
    accepted("broker.googlepubsub.subscription", Form::Text, ""),
    accepted("broker.googlepubsub.enable_message_ordering", Form::Bool, "false"),
    accepted("broker.googlepubsub.num_goroutines", number(0, 1_000_000), "0"),
    key("subscriber.parallelism", number(1, 10_000), "10", "Events that are worked on at one time."),
    key(
        "subscriber.max_deliveries",
        number(1, 1_000),
        "5",
        "How often an event is handed out before it becomes a dead letter.",
    ),
    key(
        "subscriber.backoff_initial",
        Form::SOME_TIME,
        "1s",
        "Wait before a failed event comes again; then doubled.",
    ),
    key("subscriber.backoff_max", Form::SOME_TIME, "5m", "Longest such wait."),
    accepted("log_config", Form::Bool, "false"),
];
