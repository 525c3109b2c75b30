//! The configuration of an adapter: API and broker, with the keys of the Sentinel. What it simulates is set by flags.

use std::time::Duration;

use hyperfleet_client::Settings as ApiSettings;
use hyperfleet_events::BrokerConfig;
use hyperfleet_service::logging::LogConfig;
use hyperfleet_service::settings::{self, Faults, Form, Key, Settings, Sources, key};

#[rustfmt::skip]
const OWN: &[Key] = &[
    key("clients.broker.topic", Form::Text, "", "Topic of every event; hyperfleet-<plural> of its kind when empty."),
    key("shutdown_timeout", Form::ANY_DURATION, "20s", "Time for work under way at shutdown."),
    key("log.level", Form::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "The lowest level that is logged."),
    key("log.format", Form::Choice(&["json", "text"]), "json", "How a line looks."),
    key("log.output", Form::Choice(&["stdout", "stderr"]), "stdout", "Where lines go."),
];

/// Simulated work only waits, so there is more of it at one time.
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

    /// Whether the broker reaches other processes; the error says what to do.
    pub fn check_serving(&self) -> Result<(), String> {
        let instead = "`hyperfleet up --demo` runs simulated adapters with everything else in one process.";
        self.broker.check_reachable(&self.settings, instead)
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
    fn the_reference_lists_every_key() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let table = settings::markdown(OWN);
        assert!(
            page.contains(&format!("\n\n{table}\n")),
            "docs/reference/configuration.md must have:\n{table}"
        );
    }

    #[test]
    fn a_configured_parallelism_overrides_the_preset() {
        let parallelism = |sources: &Sources| Config::load(sources).unwrap().broker.subscriber.parallelism;
        let mut sources = Sources::default();
        assert_eq!(parallelism(&sources), 200);
        sources.environment.insert("SUBSCRIBER_PARALLELISM".to_owned(), "3".to_owned());
        assert_eq!(parallelism(&sources), 3);
    }
}
