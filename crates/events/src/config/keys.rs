//! Every setting of a broker in one table, for the roles to put into theirs. The names are those of the Go broker
//! library where it has one; what it has and this has no use for is understood and named as without effect.

use std::time::Duration;

use hyperfleet_service::settings::{Form, Key, Secret};

const SOME_TIME: Form = Form::Duration { min: Duration::from_millis(1) };
const ANY_TIME: Form = Form::Duration { min: Duration::ZERO };

const fn key(path: &'static str, form: Form, default: &'static str, doc: &'static str) -> Key {
    Key { path, form, default, doc, secret: Secret::No }
}

const fn url(path: &'static str, default: &'static str, doc: &'static str) -> Key {
    Key { path, form: Form::NonEmpty, default, doc, secret: Secret::UrlPassword }
}

const fn number(min: i64, max: i64) -> Form {
    Form::Integer { min, max }
}

/// The words of `broker.type`.
pub(super) const KINDS: &[&str] = &["memory", "nats", "rabbitmq", "googlepubsub"];

/// The keys below `broker` and `subscriber`.
pub const KEYS: &[Key] = &[
    key("broker.type", Form::Choice(KINDS), "memory", "What carries events."),
    url("broker.nats.url", "nats://localhost:4222", "Servers of NATS, separated by commas."),
    key(
        "broker.nats.stream",
        Form::NonEmpty,
        "HYPERFLEET",
        "Stream that keeps events; its dead letters are kept in one with `_DLQ` behind its name.",
    ),
    key("broker.nats.subject_prefix", Form::NonEmpty, "events", "First part of every subject."),
    key("broker.nats.max_age", SOME_TIME, "7d", "How long a stream that is made here keeps events."),
    key(
        "broker.nats.ack_wait",
        Form::Duration { min: Duration::from_secs(1) },
        "30s",
        "After this time without a sign of its process an event is handed to another.",
    ),
    key("broker.nats.replicas", number(1, 5), "1", "Copies that a stream made here has in a cluster."),
    key("broker.nats.ca_file", Form::Text, "", "Authorities that the server's certificate may be of."),
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
    key("broker.rabbitmq.prefetch_size", number(0, i64::MAX), "0", "Without effect."),
    key("broker.rabbitmq.consumer_tag", Form::Text, "", "Without effect."),
    key(
        "broker.rabbitmq.publisher_confirm",
        Form::Bool,
        "true",
        "Without effect: confirms are always awaited.",
    ),
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
        "After this time without a sign of its process an event is handed to another.",
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
        ANY_TIME,
        "0s",
        "How long a topic that is made here keeps events; 0s for not at all.",
    ),
    key(
        "broker.googlepubsub.retry_min_backoff",
        Form::Text,
        "",
        "In place of `subscriber.backoff_initial` for subscriptions made here.",
    ),
    key(
        "broker.googlepubsub.retry_max_backoff",
        Form::Text,
        "",
        "In place of `subscriber.backoff_max` for subscriptions made here.",
    ),
    key(
        "broker.googlepubsub.dead_letter_max_attempts",
        number(0, 100),
        "0",
        "In place of `subscriber.max_deliveries`, from 5; 0 for that.",
    ),
    key(
        "broker.googlepubsub.dead_letter_topic",
        Form::Text,
        "",
        "Without effect: it is `<subscription>-dlq`.",
    ),
    key("broker.googlepubsub.topic", Form::Text, "", "Without effect: the role names its topic."),
    key(
        "broker.googlepubsub.subscription",
        Form::Text,
        "",
        "Without effect: the role names its subscription.",
    ),
    key("broker.googlepubsub.enable_message_ordering", Form::Bool, "false", "Without effect."),
    key(
        "broker.googlepubsub.max_outstanding_messages",
        number(0, 1_000_000),
        "0",
        "Events that a process takes ahead; 0 for twice `subscriber.parallelism`.",
    ),
    key("broker.googlepubsub.max_outstanding_bytes", number(0, i64::MAX), "0", "Without effect."),
    key("broker.googlepubsub.num_goroutines", number(0, 1_000_000), "0", "Without effect."),
    key("subscriber.parallelism", number(1, 10_000), "10", "Events that are worked on at one time."),
    key(
        "subscriber.max_deliveries",
        number(1, 1_000),
        "5",
        "How often an event is handed out before it becomes a dead letter.",
    ),
    key(
        "subscriber.backoff_initial",
        SOME_TIME,
        "1s",
        "Wait before a failed event comes again; then doubled.",
    ),
    key("subscriber.backoff_max", SOME_TIME, "5m", "Longest such wait."),
    key("log_config", Form::Bool, "false", "Without effect: `hyperfleet config` shows the settings."),
];
