//! The configuration of the Sentinel: a typed view of its settings, checked as a whole. A file of the Go Sentinel is
//! read as it is. Nothing is opened here, but expressions are compiled, so that a mistake shows at start.

mod keys;

use std::collections::BTreeMap;
use std::time::Duration;

use hyperfleet_client::{Secret, Settings as ApiSettings, Token};
use hyperfleet_events::BrokerConfig;
use hyperfleet_service::listener::Bind;
use hyperfleet_service::logging::{LogConfig, machine_name};
use hyperfleet_service::settings::{Faults, Settings, Sources};
use serde_json::Value;

pub use keys::KEYS;

use crate::custom::{MessageData, MessageDecision};

/// Everything that decides how the Sentinel runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The source of events, and the group of replicas.
    pub name: String,
    /// This replica.
    pub replica: String,
    /// How the API is reached.
    pub api: ApiSettings,
    /// What to publish events for, and how.
    pub work: Work,
    /// The broker.
    pub broker: BrokerConfig,
    /// Where health is served.
    pub health: Bind,
    /// Where metrics are served.
    pub metrics: Bind,
    /// Time for events in flight at shutdown.
    pub shutdown_timeout: Duration,
    /// The settings that all this was read from, to be printed.
    pub settings: Settings,
}

/// What to publish events for, and how.
#[derive(Debug, Clone)]
pub struct Work {
    /// Plurals of kinds; `None` for every kind.
    pub kinds: Option<Vec<String>>,
    /// Labels that a resource must carry.
    pub selector: Vec<(String, String)>,
    /// Time between two searches, if it does not depend on the watch.
    pub poll_interval: Option<Duration>,
    /// Resources to a page.
    pub page_size: u64,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Events in flight at a time.
    pub parallel: usize,
    /// When to publish, instead of the built-in table.
    pub decision: Option<MessageDecision>,
    /// Further members of an event's data.
    pub data: Option<MessageData>,
    /// Whether each event begins a trace.
    pub tracing: bool,
}

impl Work {
    /// The topic of a kind's events, by its plural.
    pub fn topic_of(&self, plural: &str) -> String {
        self.topic.clone().unwrap_or_else(|| format!("hyperfleet-{plural}"))
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            kinds: None,
            selector: Vec::new(),
            poll_interval: None,
            page_size: 100,
            topic: None,
            parallel: 32,
            decision: None,
            data: None,
            tracing: false,
        }
    }
}

impl Config {
    /// The files that are looked for when none is named.
    pub const USUAL_FILES: [&str; 2] = ["/etc/hyperfleet/sentinel.yaml", "./configs/sentinel.yaml"];

    /// Reads and checks everything. The error lists every fault of every source.
    pub fn load(sources: &Sources) -> Result<Self, Faults> {
        let sources = with_go_variables(sources.clone());
        let (settings, mut faults) = Settings::read(KEYS, &sources);
        let broker = BrokerConfig::of_role(&settings, &sources, &mut faults);
        let work = work(&settings, &mut faults);
        let config = Self {
            name: settings.text("sentinel.name").to_owned(),
            replica: settings.some_text("sentinel.replica").map_or_else(replica_name, str::to_owned),
            api: hyperfleet_client::config::of(&settings, "hyperfleet-sentinel", &mut faults),
            work,
            broker,
            health: Bind::of(&settings, "health", &mut faults),
            metrics: Bind::of(&settings, "metrics", &mut faults),
            shutdown_timeout: settings.duration("health.shutdown_timeout"),
            settings,
        };
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Whether the broker reaches other processes; the error says what to do.
    pub fn check_serving(&self) -> Result<(), String> {
        let instead =
            "`hyperfleet up` runs a Sentinel with a broker in memory in one process with everything else.";
        self.broker.check_reachable(&self.settings, instead)
    }

    /// How a process of this configuration logs.
    pub fn log_config(&self, version: &str) -> LogConfig {
        LogConfig::below_log(&self.settings, "sentinel", version)
    }
}

/// A name that no other replica has or had, because a lease of that name would count as this replica's.
pub fn replica_name() -> String {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let machine: String =
        machine_name().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    format!("{machine}-{}", &unique[..8])
}

/// Reads variables of the Go Sentinel where ours are not set.
fn with_go_variables(mut sources: Sources) -> Sources {
    for (variable, path) in keys::VARIABLES {
        let ours = KEYS.iter().find(|key| key.path == path).map(hyperfleet_service::settings::Key::variable);
        if let (Some(value), Some(ours)) = (sources.environment.get(variable).cloned(), ours) {
            sources.environment.entry(ours).or_insert(value);
        }
    }
    hyperfleet_events::config::accept_go_variables(&mut sources);
    sources
}

fn work(settings: &Settings, faults: &mut Faults) -> Work {
    Work {
        kinds: kinds(settings, faults),
        selector: selector(settings, faults),
        poll_interval: Some(settings.duration("poll_interval")).filter(|interval| !interval.is_zero()),
        page_size: settings.integer("clients.hyperfleet_api.page_size"),
        topic: settings.some_text("clients.broker.topic").map(str::to_owned),
        parallel: settings.integer("sentinel.publish_parallelism"),
        decision: decision(settings, faults),
        data: data(settings, faults),
        tracing: settings.bool("tracing_enabled"),
    }
}

fn kinds(settings: &Settings, faults: &mut Faults) -> Option<Vec<String>> {
    const PATH: &str = "resource_type";
    const RULE: &str = "must be the plural of a kind such as clusters, a list of them, or all";
    let given = match settings.structured(PATH) {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let plain = |plural: &String| {
        !plural.is_empty() && plural.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let expected = settings.structured(PATH).as_array().map_or(1, Vec::len);
    if given.is_empty() || given.len() != expected || !given.iter().all(plain) {
        faults.push(settings.fault(PATH, RULE));
    }
    (!given.iter().any(|plural| plural == "all")).then(|| {
        let mut unique = Vec::new();
        given.into_iter().for_each(|plural| {
            if !unique.contains(&plural) {
                unique.push(plural);
            }
        });
        unique
    })
}

fn selector(settings: &Settings, faults: &mut Faults) -> Vec<(String, String)> {
    const PATH: &str = "resource_selector";
    let Value::Array(entries) = settings.structured(PATH) else {
        faults.push(settings.fault(PATH, "must be a list of mappings {label, value}"));
        return Vec::new();
    };
    let mut labels = BTreeMap::new();
    for (i, entry) in entries.iter().enumerate() {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let members = entry.as_object().map_or(0, serde_json::Map::len);
        match (text("label").filter(|label| is_label(label)), text("value")) {
            (Some(label), Some(value)) if members == 2 => {
                drop(labels.insert(label.to_owned(), value.to_owned()));
            }
            _ => faults.push(
                settings
                    .fault(PATH, format!("[{i}] must be {{label, value}}, the first the name of a label")),
            ),
        }
    }
    labels.into_iter().collect()
}

/// Whether a text is the name of a label, and nothing else in a search.
fn is_label(label: &str) -> bool {
    !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c))
}

fn decision(settings: &Settings, faults: &mut Faults) -> Option<MessageDecision> {
    const PATH: &str = "message_decision";
    let given = settings.structured(PATH);
    if given.as_object().is_some_and(serde_json::Map::is_empty) {
        return None;
    }
    match MessageDecision::read(given) {
        Ok(decision) => Some(decision),
        Err(found) => {
            found.into_iter().for_each(|rule| faults.push(settings.fault(PATH, rule)));
            None
        }
    }
}

fn data(settings: &Settings, faults: &mut Faults) -> Option<MessageData> {
    const PATH: &str = "message_data";
    let given = settings.structured(PATH);
    if given.as_object().is_some_and(serde_json::Map::is_empty) {
        return None;
    }
    match MessageData::read(given) {
        Ok(data) => Some(data),
        Err(found) => {
            found.into_iter().for_each(|rule| faults.push(settings.fault(PATH, rule)));
            None
        }
    }
}

/// A token from memory.
pub fn fixed_token(token: String) -> Token {
    Token::Fixed(Secret::new(token))
}
