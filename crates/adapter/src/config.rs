//! The configuration of an adapter: a typed view of its settings, checked as a whole. A file of the Go adapter is read as
//! it is. The task is a file of its own.

mod keys;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyperfleet_client::{Retry, Settings as ApiSettings};
use hyperfleet_events::BrokerConfig;
use hyperfleet_service::listener::Bind;
use hyperfleet_service::logging::LogConfig;
use hyperfleet_service::settings::{Faults, Key, Secret, Settings, Sources, Value as Setting};
use serde_json::{Map, Value};

pub use keys::KEYS;

use crate::task::Backoff;

/// Simulated work only waits, so there is more of it at one time.
const SIMULATED_PARALLELISM: &str = "200";
const PARALLELISM: &str = "50";

/// Everything that decides how an adapter is connected.
#[derive(Debug, Clone)]
pub struct Config {
    /// Name that it reports under; empty when it is not configured.
    pub name: String,
    /// `adapter.version`.
    pub version: String,
    /// How the API is reached.
    pub api: ApiSettings,
    /// Version of the API in relative URLs.
    pub api_version: String,
    /// How pauses between attempts of a task's call grow.
    pub backoff: Backoff,
    /// The broker.
    pub broker: BrokerConfig,
    /// The subscription; empty when it is not configured.
    pub subscription: String,
    /// Topic of every event, if it does not depend on the kind.
    pub topic: Option<String>,
    /// Kinds to work on when there is no topic.
    pub kinds: Vec<String>,
    /// Whether a task behaves as with the Go adapter.
    pub as_go: bool,
    /// Time for one execution.
    pub deadline: Duration,
    /// Whether `Finalized` is guarded.
    pub guards_finalized: bool,
    /// Directories below which params may read files.
    pub file_roots: Vec<PathBuf>,
    /// Variables that a task may read beside those it names.
    pub environment: Vec<String>,
    /// Where health is served.
    pub health: Bind,
    /// Where metrics are served.
    pub metrics: Bind,
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
        Self::load_with(sources, PARALLELISM)
    }

    /// The same for simulated adapters.
    pub fn load_simulated(sources: &Sources) -> Result<Self, Faults> {
        Self::load_with(sources, SIMULATED_PARALLELISM)
    }

    fn load_with(sources: &Sources, parallelism: &str) -> Result<Self, Faults> {
        let mut sources = with_go_variables(sources.clone());
        sources.presets.push(("subscriber.parallelism", parallelism.to_owned()));
        let (settings, mut faults) = Settings::read(KEYS, &sources);
        let mut api = hyperfleet_client::config::of(&settings, "hyperfleet-adapter", &mut faults);
        api.retry = Retry {
            attempts: settings.integer("clients.hyperfleet_api.retry_attempts"),
            first_pause: settings.duration("clients.hyperfleet_api.base_delay"),
            longest_pause: settings.duration("clients.hyperfleet_api.max_delay"),
            ..Retry::default()
        };
        let backoff = match settings.text("clients.hyperfleet_api.retry_backoff") {
            "constant" => Backoff::Constant,
            "linear" => Backoff::Linear,
            _ => Backoff::Exponential,
        };
        if backoff == Backoff::Constant {
            api.retry.longest_pause = api.retry.first_pause;
        }
        api.headers.extend(headers(&settings, &mut faults));
        let config = Self {
            name: settings.text("adapter.name").to_owned(),
            version: settings.text("adapter.version").to_owned(),
            api,
            api_version: settings.text("clients.hyperfleet_api.version").to_owned(),
            backoff,
            broker: BrokerConfig::of_role(&settings, &sources, &mut faults),
            subscription: settings.text("clients.broker.subscription_id").to_owned(),
            topic: settings.some_text("clients.broker.topic").map(str::to_owned),
            kinds: settings.list("clients.broker.kinds").to_vec(),
            as_go: settings.text("compatibility") == "go-0.2",
            deadline: settings.duration("execution.deadline"),
            guards_finalized: settings.bool("guards.finalized"),
            file_roots: settings.list("security.file_roots").iter().map(PathBuf::from).collect(),
            environment: settings.list("security.env").to_vec(),
            health: Bind::of(&settings, "health", &mut faults),
            metrics: Bind::of(&settings, "metrics", &mut faults),
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

    /// Whether what serving needs is there. The error lists everything that is missing.
    pub fn check_complete(&self) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for (path, rule, missing) in [
            ("adapter.name", "is required to serve", self.name.is_empty()),
            ("clients.broker.subscription_id", "is required to serve", self.subscription.is_empty()),
            (
                "clients.broker.topic",
                "is required to serve, unless clients.broker.kinds is given",
                self.topic.is_none() && self.kinds.is_empty(),
            ),
        ] {
            if missing {
                faults.push(self.settings.fault(path, rule));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// How a process of this configuration logs.
    pub fn log_config(&self, version: &str) -> LogConfig {
        LogConfig::below_log(&self.settings, "adapter", version)
    }

    /// The configuration as sources `config.…` of a task see it, without secrets.
    pub fn as_value(&self) -> Value {
        let mut root = Map::new();
        for key in KEYS.iter().filter(|key| key.secret == Secret::No || key.path == BASE_URL) {
            insert(&mut root, key, &json(self.settings.value(key.path)));
        }
        if let Some(url) =
            root.get_mut("clients").and_then(|clients| clients.pointer_mut("/hyperfleet_api/base_url"))
        {
            *url = without_login(&self.api.base_url).into();
        }
        Value::Object(root)
    }

    /// How Kubernetes is reached.
    #[cfg(feature = "kubernetes")]
    pub fn kubernetes(&self) -> crate::targets::kubernetes::Settings {
        let settings = &self.settings;
        let some = |path: &str| settings.some_text(path).map(str::to_owned);
        let defaults = crate::targets::kubernetes::Settings::of(&self.name);
        let (qps, burst): (u32, u32) =
            (settings.integer("clients.kubernetes.qps"), settings.integer("clients.kubernetes.burst"));
        crate::targets::kubernetes::Settings {
            kube_config_path: some("clients.kubernetes.kube_config_path").map(PathBuf::from),
            context: some("clients.kubernetes.context"),
            qps: if qps == 0 { defaults.qps } else { qps.into() },
            burst: if burst == 0 { defaults.burst } else { burst },
            field_manager: some("clients.kubernetes.field_manager").unwrap_or(defaults.field_manager.clone()),
            adopt_managers: settings.list("clients.kubernetes.adopt_managers").to_vec(),
            allow_exec: settings.bool("clients.kubernetes.allow_exec"),
            ..defaults
        }
    }

    /// Directories below which params of a task may read files.
    pub fn roots_of(&self, task: &Path) -> Vec<PathBuf> {
        let own = task
            .parent()
            .map(|directory| if directory.as_os_str().is_empty() { Path::new(".") } else { directory });
        own.map(Path::to_owned).into_iter().chain(self.file_roots.iter().cloned()).collect()
    }
}

const BASE_URL: &str = "clients.hyperfleet_api.base_url";

/// A URL without user and password.
fn without_login(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| at + start);
    let host = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    format!("{}{}", &url[..start], &url[host..])
}

fn insert(root: &mut Map<String, Value>, key: &Key, value: &Value) {
    let mut at = root;
    let mut parts = key.path.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            at.insert(part.to_owned(), value.clone());
            return;
        }
        let below = at.entry(part).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(below) = below else { return };
        at = below;
    }
}

fn json(value: &Setting) -> Value {
    match value {
        Setting::Text(text) => text.clone().into(),
        Setting::Bool(held) => (*held).into(),
        Setting::Integer(number) => (*number).into(),
        Setting::List(items) => items.clone().into(),
        Setting::Structured(tree) => tree.clone(),
        Setting::Duration(_) => value.to_string().into(),
    }
}

fn headers(settings: &Settings, faults: &mut Faults) -> Vec<(String, String)> {
    const PATH: &str = "clients.hyperfleet_api.default_headers";
    let Value::Object(members) = settings.structured(PATH) else {
        faults.push(settings.fault(PATH, "must be a mapping of names to values"));
        return Vec::new();
    };
    let mut headers = Vec::new();
    for (name, value) in members {
        match value {
            Value::String(value) => headers.push((name.clone(), value.clone())),
            _ => faults.push(settings.fault(PATH, format!("{name} must be text"))),
        }
    }
    headers
}

/// Reads variables of the Go adapter where ours are not set.
fn with_go_variables(mut sources: Sources) -> Sources {
    for (variable, path) in keys::VARIABLES {
        let ours = KEYS.iter().find(|key| key.path == path).map(Key::variable);
        let given = sources.environment.get(variable).filter(|value| !value.trim().is_empty()).cloned();
        if let (Some(value), Some(ours)) = (given, ours) {
            sources.environment.entry(ours).or_insert(value);
        }
    }
    if let Some(file) = sources.environment.get("HYPERFLEET_ADAPTER_CONFIG").filter(|file| !file.is_empty()) {
        sources.config.get_or_insert_with(|| PathBuf::from(file));
    }
    hyperfleet_events::config::accept_go_variables(&mut sources);
    sources
}

#[cfg(test)]
mod tests {
    use hyperfleet_service::settings;

    use super::*;

    #[test]
    fn the_reference_lists_every_key() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let table = settings::markdown(keys::OWN);
        assert!(
            page.contains(&format!("\n\n{table}\n")),
            "docs/reference/configuration.md must have:\n{table}"
        );
    }

    #[test]
    fn a_configured_parallelism_overrides_the_preset() {
        let parallelism = |sources: &Sources| Config::load(sources).unwrap().broker.subscriber.parallelism;
        let mut sources = Sources::default();
        assert_eq!(parallelism(&sources), 50);
        assert_eq!(Config::load_simulated(&sources).unwrap().broker.subscriber.parallelism, 200);
        sources.environment.insert("SUBSCRIBER_PARALLELISM".to_owned(), "3".to_owned());
        assert_eq!(parallelism(&sources), 3);
    }

    fn load(yaml: &str, variables: &[(&str, &str)]) -> Result<Config, Faults> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("adapter.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut sources = Sources { config: Some(file), ..Sources::default() };
        for (name, value) in variables {
            sources.environment.insert((*name).to_owned(), (*value).to_owned());
        }
        Config::load(&sources)
    }

    #[test]
    fn a_file_of_the_go_adapter_is_read_unchanged() {
        let config = load(
            "adapter: {name: example-adapter, version: '0.1.0'}\ndebug_config: false\n\
             log: {level: debug, format: text, output: stderr}\n\
             clients:\n  maestro:\n    grpc_server_address: 'm:8090'\n    source_id: x\n    auth: {type: tls, tls_config: {ca_file: /x}}\n    keepalive: {time: 30s}\n    timeout: 30s\n    insecure: false\n\
             \x20 hyperfleet_api: {base_url: 'http://api:8000', version: v1, timeout: 10s, retry_attempts: 4, retry_backoff: constant, base_delay: 2s, max_delay: 30s, default_headers: {X-Example: value}}\n\
             \x20 broker: {subscription_id: s, topic: t}\n\
             \x20 kubernetes: {api_version: v1, kube_config_path: /k, qps: 0, burst: 300}\n",
            &[],
        )
        .unwrap();
        assert!(config.check_complete().is_ok());
        assert_eq!((config.name.as_str(), config.subscription.as_str()), ("example-adapter", "s"));
        assert_eq!(config.api.retry.attempts, 4);
        assert_eq!(config.api.retry.longest_pause, Duration::from_secs(2));
        assert_eq!(config.api.headers, [("X-Example".to_owned(), "value".to_owned())]);
        let seen = config.as_value();
        assert_eq!(seen["adapter"]["name"], "example-adapter");
        assert_eq!(seen["clients"]["hyperfleet_api"]["base_url"], "http://api:8000");
    }

    #[test]
    fn both_spellings_of_variables_count_and_ours_win() {
        let go = [
            ("HYPERFLEET_API_BASE_URL", "http://go:1"),
            ("BROKER_SUBSCRIPTION_ID", "old"),
            ("HYPERFLEET_BROKER_SUBSCRIPTION_ID", "go"),
            ("LOG_LEVEL", "warn"),
            ("BROKER_TOPIC", "t"),
        ];
        let config = load("adapter: {name: a}\n", &go).unwrap();
        assert_eq!((config.api.base_url.as_str(), config.subscription.as_str()), ("http://go:1", "go"));
        assert_eq!((config.topic.as_deref(), config.settings.text("log.level")), (Some("t"), "warn"));
        let ours = [&go[..], &[("HYPERFLEET_CLIENTS_HYPERFLEET_API_BASE_URL", "http://ours:1")]].concat();
        assert_eq!(load("", &ours).unwrap().api.base_url, "http://ours:1");
    }

    #[test]
    fn unknown_keys_are_refused_and_what_serving_lacks_is_told_at_once() {
        let faults =
            load("adapter: {nmae: x}\nclients: {brokers: {topic: t}}\n", &[]).unwrap_err().to_string();
        assert!(faults.contains("did you mean adapter.name?"), "{faults}");
        assert!(faults.contains("clients.brokers"), "{faults}");
        let missing = load("", &[]).unwrap().check_complete().unwrap_err().to_string();
        for path in ["adapter.name", "clients.broker.subscription_id", "clients.broker.topic"] {
            assert!(missing.contains(path), "{missing}");
        }
    }
}
