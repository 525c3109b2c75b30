//! The configuration of an adapter: how the API and the broker are reached, with the names that the Sentinel has for
//! the same things. What it pretends is said by flags, because it belongs to one run.

use std::time::Duration;

use hyperfleet_client::Settings as ApiSettings;
use hyperfleet_events::BrokerConfig;
use hyperfleet_service::logging::LogConfig;
use hyperfleet_service::settings::{self, Faults, Form, Key, Secret, Settings, Sources};

const fn key(path: &'static str, form: Form, default: &'static str, doc: &'static str) -> Key {
    Key { path, form, default, doc, secret: Secret::No }
}

#[rustfmt::skip]
const OWN: &[Key] = &[
    key("clients.broker.topic", Form::Text, "", "Topic of every event; hyperfleet-<plural> of its kind when empty."),
    key("shutdown_timeout", Form::Duration { min: Duration::ZERO }, "20s", "Time for work under way at shutdown."),
    key("log.level", Form::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "What is logged at least."),
    key("log.format", Form::Choice(&["json", "text"]), "json", "How a line looks."),
    key("log.output", Form::Choice(&["stdout", "stderr"]), "stdout", "Where lines go."),
];

/// Work that only waits costs nothing, so there is more of it at one time than where machines are made.
const PARALLELISM: &str = "200";

const TABLES: &[&[Key]] = &[OWN, hyperfleet_client::config::KEYS, hyperfleet_events::config::KEYS];
const TABLE: [Key; settings::rows(TABLES)] = settings::joined(TABLES);

/// Every setting of an adapter.
pub static KEYS: &[Key] = &TABLE;

/// Everything that decides how an adapter is connected.
#[derive(Debug, Clone)]
pub struct Config {
    /// How the API is reached.
    pub api: ApiSettings,
    /// The broker.
    pub broker: BrokerConfig,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Time for work under way at shutdown.
    pub shutdown_timeout: Duration,
    /// The settings that all this was read from.
    pub settings: Settings,
}

impl Config {
    /// The files that are looked for when none is named.
    pub const USUAL_FILES: [&str; 2] = ["/etc/hyperfleet/adapter.yaml", "./configs/adapter.yaml"];

    /// Reads and checks everything. The error lists every fault of every source.
    pub fn load(sources: &Sources) -> Result<Self, Faults> {
        let mut sources = sources.clone();
        hyperfleet_events::config::accept_go_variables(&mut sources);
        sources.presets.push(("subscriber.parallelism", PARALLELISM.to_owned()));
        let (settings, mut faults) = Settings::read(KEYS, &sources);
        let config = Self {
            api: hyperfleet_client::config::of(&settings, "hyperfleet-adapter", &mut faults),
            broker: BrokerConfig::of(&settings, &sources, &mut faults),
            topic: settings.some_text("clients.broker.topic").map(str::to_owned),
            shutdown_timeout: settings.duration("shutdown_timeout"),
            settings,
        };
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Whether an adapter of this configuration that runs by itself could hear anybody; the error says what to do.
    pub fn check_serving(&self) -> Result<(), String> {
        if self.broker.kind != hyperfleet_events::Kind::Memory {
            return Ok(());
        }
        Err(format!(
            "broker.type is memory ({}), in which nobody outside of this process can be heard.\n\
             Choose nats, rabbitmq or googlepubsub, in the configuration file, by HYPERFLEET_BROKER_TYPE or by --broker-type.\n\
             `hyperfleet up --demo` runs simulated adapters with everything else in one process.",
            self.settings.source("broker.type")
        ))
    }

    /// How a process of this configuration logs.
    pub fn log_config(&self, version: &str) -> LogConfig {
        LogConfig::below_log(&self.settings, "adapter", version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_every_key_that_is_not_of_the_brokers() {
        let guide = include_str!("../../../docs/adapters.md");
        let (own, client) = (settings::markdown(OWN), settings::markdown(hyperfleet_client::config::KEYS));
        let rows: Vec<&str> = client.lines().skip(2).collect();
        let table = format!("{own}{}\n", rows.join("\n"));
        assert!(guide.ends_with(&table), "docs/adapters.md must end with:\n{table}");
    }

    #[test]
    fn whoever_says_how_much_at_one_time_is_heard() {
        let parallelism = |sources: &Sources| Config::load(sources).unwrap().broker.subscriber.parallelism;
        let mut sources = Sources::default();
        assert_eq!(parallelism(&sources), 200);
        sources.environment.insert("SUBSCRIBER_PARALLELISM".to_owned(), "3".to_owned());
        assert_eq!(parallelism(&sources), 3);
    }
}
