//! Which broker, and how it is used: a typed view of the settings below `broker` and `subscriber`. A role puts
//! [`KEYS`] into its own table and reads the view from its settings; a `broker.yaml` of the Go broker library is
//! read as it is, with its environment variables.

mod keys;

use std::path::PathBuf;
use std::time::Duration;

use hyperfleet_service::settings::{Faults, Settings, Source, Sources, parse_duration};

pub use keys::KEYS;

use crate::subscription::Options;

/// Which broker carries events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This process itself.
    Memory,
    /// NATS JetStream.
    Nats,
    /// RabbitMQ.
    RabbitMq,
    /// Google Cloud Pub/Sub.
    GooglePubSub,
}

/// Everything that decides how events are carried.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// `broker.type`
    pub kind: Kind,
    /// `broker.nats.*`
    pub nats: Nats,
    /// `broker.rabbitmq.*`
    pub rabbitmq: RabbitMq,
    /// `broker.googlepubsub.*`
    pub googlepubsub: GooglePubSub,
    /// `subscriber.*`
    pub subscriber: Options,
}

/// `broker.nats.*`
#[derive(Clone)]
pub struct Nats {
    /// Servers, separated by commas; may hold a password.
    pub url: String,
    /// Stream of events.
    pub stream: String,
    /// First part of every subject.
    pub subject_prefix: String,
    /// How long a new stream keeps events.
    pub max_age: Duration,
    /// Time without progress after which an event is redelivered.
    pub ack_wait: Duration,
    /// Copies of a new stream.
    pub replicas: usize,
    /// Authorities of the server's certificate.
    pub ca_file: Option<PathBuf>,
}

/// `broker.rabbitmq.*`
#[derive(Clone)]
pub struct RabbitMq {
    /// Address; may hold a password.
    pub url: String,
    /// Exchange, when it is not the topic.
    pub exchange: Option<String>,
    /// Its type.
    pub exchange_type: String,
    /// First part of a queue's name, when it is not the topic.
    pub queue: Option<String>,
    /// Routing key of every event.
    pub routing_key: String,
    /// Tag of the consumer; empty for the server's choice.
    pub consumer_tag: String,
}

/// `broker.googlepubsub.*`
#[derive(Debug, Clone)]
pub struct GooglePubSub {
    /// Project of topics and subscriptions.
    pub project_id: String,
    /// Whether topics are made.
    pub create_topic_if_missing: bool,
    /// Whether subscriptions are made.
    pub create_subscription_if_missing: bool,
    /// Time without progress after which an event is redelivered.
    pub ack_deadline: Duration,
    /// How long a new subscription keeps events.
    pub message_retention: Duration,
    /// How long a new subscription lives unused; nothing for ever.
    pub expiration_ttl: Option<Duration>,
    /// How long a new topic keeps events.
    pub topic_retention: Option<Duration>,
    /// Bytes of events that are taken ahead, when it is not the client library's default.
    pub max_outstanding_bytes: Option<i64>,
    /// Host and port of an emulator in place of Google, of `PUBSUB_EMULATOR_HOST`.
    pub emulator_host: Option<String>,
}

impl BrokerConfig {
    /// Whether other processes can reach the broker; the error says what to do. `instead` is a sentence about a command
    /// that needs no such broker.
    pub fn check_reachable(&self, settings: &Settings, instead: &str) -> Result<(), String> {
        if self.kind != Kind::Memory {
            return Ok(());
        }
        Err(format!(
            "broker.type is memory ({}), and other processes cannot reach it.\n\
             Choose nats, rabbitmq or googlepubsub, in the configuration file, by HYPERFLEET_BROKER_TYPE or by --broker-type.\n\
             {instead}",
            settings.source("broker.type")
        ))
    }

    /// The view of settings whose table holds [`KEYS`]. `sources` is what they were read from.
    pub fn of(settings: &Settings, sources: &Sources, faults: &mut Faults) -> Self {
        let path = |key: &str| settings.some_text(key).map(PathBuf::from);
        let mut written_duration = |key: &str| {
            let text = settings.some_text(key)?;
            let duration = if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
            if duration.is_none() {
                faults.push(settings.fault(key, "must be a duration such as 10s, 10m or 31d"));
            }
            duration
        };
        let above_zero = |number: usize| Some(number).filter(|number| *number > 0);
        let kind = match settings.text("broker.type") {
            "nats" => Kind::Nats,
            "rabbitmq" => Kind::RabbitMq,
            "googlepubsub" => Kind::GooglePubSub,
            _ => Kind::Memory,
        };
        let mut subscriber = Options {
            parallelism: settings.integer("subscriber.parallelism"),
            max_deliveries: settings.integer("subscriber.max_deliveries"),
            backoff_initial: settings.duration("subscriber.backoff_initial"),
            backoff_max: settings.duration("subscriber.backoff_max"),
            prefetch: None,
        };
        let expiration_ttl = written_duration("broker.googlepubsub.expiration_ttl");
        let (first, longest) = (
            written_duration("broker.googlepubsub.retry_min_backoff"),
            written_duration("broker.googlepubsub.retry_max_backoff"),
        );
        match kind {
            Kind::RabbitMq => {
                subscriber.prefetch = above_zero(settings.integer("broker.rabbitmq.prefetch_count"));
            }
            Kind::GooglePubSub => {
                let prefetched = settings.integer("broker.googlepubsub.max_outstanding_messages");
                subscriber.prefetch = above_zero(prefetched);
                subscriber.backoff_initial = first.unwrap_or(subscriber.backoff_initial);
                subscriber.backoff_max = longest.unwrap_or(subscriber.backoff_max);
                let attempts: u32 = settings.integer("broker.googlepubsub.dead_letter_max_attempts");
                if attempts > 0 {
                    subscriber.max_deliveries = attempts.max(5);
                }
            }
            Kind::Memory | Kind::Nats => {}
        }
        if subscriber.backoff_initial > subscriber.backoff_max {
            faults
                .push(settings.fault("subscriber.backoff_initial", "must not exceed subscriber.backoff_max"));
        }
        if kind == Kind::GooglePubSub && settings.text("broker.googlepubsub.project_id").is_empty() {
            faults.push(settings.fault("broker.googlepubsub.project_id", "must be given for googlepubsub"));
        }
        Self {
            kind,
            nats: Nats {
                url: settings.text("broker.nats.url").to_owned(),
                stream: settings.text("broker.nats.stream").to_owned(),
                subject_prefix: settings.text("broker.nats.subject_prefix").to_owned(),
                max_age: settings.duration("broker.nats.max_age"),
                ack_wait: settings.duration("broker.nats.ack_wait"),
                replicas: settings.integer("broker.nats.replicas"),
                ca_file: path("broker.nats.ca_file"),
            },
            rabbitmq: RabbitMq {
                url: settings.text("broker.rabbitmq.url").to_owned(),
                exchange: settings.some_text("broker.rabbitmq.exchange").map(str::to_owned),
                exchange_type: settings.text("broker.rabbitmq.exchange_type").to_owned(),
                queue: settings.some_text("broker.rabbitmq.queue").map(str::to_owned),
                routing_key: settings.text("broker.rabbitmq.routing_key").to_owned(),
                consumer_tag: settings.text("broker.rabbitmq.consumer_tag").to_owned(),
            },
            googlepubsub: GooglePubSub {
                project_id: settings.text("broker.googlepubsub.project_id").to_owned(),
                create_topic_if_missing: settings.bool("broker.googlepubsub.create_topic_if_missing"),
                create_subscription_if_missing: settings
                    .bool("broker.googlepubsub.create_subscription_if_missing"),
                ack_deadline: Duration::from_secs(
                    settings.integer("broker.googlepubsub.ack_deadline_seconds"),
                ),
                message_retention: settings.duration("broker.googlepubsub.message_retention_duration"),
                expiration_ttl: expiration_ttl.filter(|ttl| !ttl.is_zero()),
                topic_retention: Some(settings.duration("broker.googlepubsub.topic_retention_duration"))
                    .filter(|retention| !retention.is_zero()),
                max_outstanding_bytes: Some(settings.integer("broker.googlepubsub.max_outstanding_bytes"))
                    .filter(|bytes| *bytes > 0),
                emulator_host: sources
                    .environment
                    .get("PUBSUB_EMULATOR_HOST")
                    .filter(|host| !host.is_empty())
                    .cloned(),
            },
            subscriber,
        }
    }

    /// The broker of a role's own settings, or of a `broker.yaml` where these say nothing of it and the Go library's
    /// variable names one.
    pub fn of_role(settings: &Settings, sources: &Sources, faults: &mut Faults) -> Self {
        let named = sources.environment.get("BROKER_CONFIG_FILE").filter(|file| !file.trim().is_empty());
        if named.is_none() || *settings.source("broker.type") != Source::Default {
            return Self::of(settings, sources, faults);
        }
        let alone = Sources {
            environment: sources.environment.clone(),
            presets: sources.presets.clone(),
            ..Sources::default()
        };
        Self::load(alone).unwrap_or_else(|found| {
            found.iter().cloned().for_each(|fault| faults.push(fault));
            Self::memory()
        })
    }

    /// Reads a broker's settings alone: a `broker.yaml`, named by `--config` or `BROKER_CONFIG_FILE`, and the
    /// environment.
    pub fn load(mut sources: Sources) -> Result<Self, Faults> {
        accept_go_variables(&mut sources);
        if let Some(file) = sources.environment.get("BROKER_CONFIG_FILE").filter(|file| !file.is_empty()) {
            sources.config.get_or_insert_with(|| PathBuf::from(file));
        }
        let (settings, mut faults) = Settings::read(KEYS, &sources);
        let config = Self::of(&settings, &sources, &mut faults);
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// The broker of this process itself, with every default.
    pub fn memory() -> Self {
        let sources = Sources::default();
        let (settings, mut faults) = Settings::read(KEYS, &sources);
        Self::of(&settings, &sources, &mut faults)
    }
}

/// Lets `BROKER_RABBITMQ_URL` and its like, the Go library's names, stand for our own where these are not set.
pub fn accept_go_variables(sources: &mut Sources) {
    for key in KEYS {
        let name = key.path.to_uppercase().replace('.', "_");
        if let Some(value) = sources.environment.get(&name).cloned() {
            let ours = sources.environment.entry(key.variable()).or_default();
            if ours.trim().is_empty() {
                *ours = value;
            }
        }
    }
}

impl std::fmt::Debug for Nats {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nats").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RabbitMq {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitMq").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str, variables: &[(&str, &str)]) -> Result<BrokerConfig, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("broker.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut sources = Sources::default();
        for (name, value) in variables {
            sources.environment.insert((*name).to_owned(), (*value).to_owned());
        }
        sources.environment.insert("BROKER_CONFIG_FILE".to_owned(), file.display().to_string());
        BrokerConfig::load(sources).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_broker_yaml_of_the_go_library_is_read_unchanged() {
        let config = read(
            "\
broker:
  type: rabbitmq
  rabbitmq:
    {url: 'amqp://guest:guest@localhost:5672/', exchange_type: topic, prefetch_count: 7, prefetch_size: 0,
     publisher_confirm: true, consumer_tag: me, queue: q, exchange: e}
  googlepubsub:
    {project_id: p, max_outstanding_messages: 100, num_goroutines: 10, ack_deadline_seconds: 60,
     message_retention_duration: '604800s', expiration_ttl: '2678400s', retry_min_backoff: 10s,
     retry_max_backoff: 600s, dead_letter_max_attempts: 7, create_topic_if_missing: true}
subscriber: {parallelism: 3}
log_config: false
",
            &[],
        )
        .unwrap();
        assert_eq!(config.kind, Kind::RabbitMq);
        assert_eq!(config.rabbitmq.exchange.as_deref(), Some("e"));
        assert_eq!((config.subscriber.parallelism, config.subscriber.prefetch), (3, Some(7)));
        assert_eq!(config.subscriber.backoff_initial, Duration::from_secs(1));
        assert_eq!(config.googlepubsub.expiration_ttl, Some(Duration::from_secs(2_678_400)));
        assert!(!format!("{config:?}").contains("guest:guest"));
    }

    #[test]
    fn variables_of_the_go_library_are_read_and_overridden_by_ours() {
        let variables = [
            ("BROKER_TYPE", "googlepubsub"),
            ("BROKER_GOOGLEPUBSUB_PROJECT_ID", "theirs"),
            ("HYPERFLEET_BROKER_GOOGLEPUBSUB_PROJECT_ID", "ours"),
            ("SUBSCRIBER_PARALLELISM", "20"),
            ("BROKER_GOOGLEPUBSUB_RETRY_MIN_BACKOFF", "10s"),
            ("PUBSUB_EMULATOR_HOST", "localhost:8085"),
        ];
        let config = read("", &variables).unwrap();
        assert_eq!(config.kind, Kind::GooglePubSub);
        assert_eq!(config.googlepubsub.project_id, "ours");
        assert_eq!(config.googlepubsub.emulator_host.as_deref(), Some("localhost:8085"));
        assert_eq!(config.subscriber.parallelism, 20);
        assert_eq!(config.subscriber.backoff_initial, Duration::from_secs(10));
    }

    #[test]
    fn the_reference_lists_every_key() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let table = hyperfleet_service::settings::markdown(KEYS);
        assert!(
            page.contains(&format!("\n\n{table}\n")),
            "docs/reference/configuration.md must have:\n{table}"
        );
        let inert = hyperfleet_service::settings::without_effect(KEYS);
        assert!(page.contains(&inert), "docs/reference/configuration.md must name {inert}");
    }

    #[test]
    fn every_fault_of_the_settings_is_reported_at_once() {
        let faults = read(
            "broker: {type: googlepubsub, googlepubsub: {expiration_ttl: soon}}\nsubscriber: {backoff_initial: 1h}",
            &[],
        )
        .unwrap_err();
        for fault in ["expiration_ttl", "project_id", "subscriber.backoff_initial"] {
            assert!(faults.contains(fault), "{fault} in {faults}");
        }
    }
}
