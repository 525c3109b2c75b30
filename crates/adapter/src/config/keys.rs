//! Every setting of an adapter in one table: those of the Go adapter by their names, the new ones beside them, and those
//! of whatever an adapter talks to.

use hyperfleet_service::settings::{self, Form, Key, NO_EFFECT, Secret, key};

/// A setting of the Go adapter that has no meaning here.
const fn accepted(path: &'static str, form: Form, default: &'static str) -> Key {
    key(path, form, default, NO_EFFECT)
}

#[rustfmt::skip]
pub(super) const OWN: &[Key] = &[
    key("adapter.name", Form::Text, "", "Name that the adapter reports under, and that marks its objects. Required to serve."),
    key("adapter.version", Form::Text, "", "For sources `config.adapter.version` of a task."),
    key("debug_config", Form::Bool, "false", NO_EFFECT),
    key("compatibility", Form::Choice(&["none", "go-0.2"]), "none", "With go-0.2, a task behaves as with the Go adapter where that is unsafe for nobody."),
    key("clients.hyperfleet_api.version", Form::NonEmpty, "v1", "Version of the API in relative URLs of a task."),
    key("clients.hyperfleet_api.retry_attempts", Form::Integer { min: 1, max: 100 }, "3", "Attempts of a request, the first included."),
    key("clients.hyperfleet_api.retry_backoff", Form::Choice(&["exponential", "linear", "constant"]), "exponential", "How pauses between attempts grow."),
    key("clients.hyperfleet_api.base_delay", Form::SOME_TIME, "1s", "The first pause."),
    key("clients.hyperfleet_api.max_delay", Form::SOME_TIME, "30s", "The longest pause."),
    Key { secret: Secret::Values, ..key("clients.hyperfleet_api.default_headers", Form::Structured, "{}", "The Go adapter's name of `headers`.") },
    key("clients.broker.subscription_id", Form::Text, "", "Subscription of the adapter; processes of one subscription share the work. Required to serve."),
    key("clients.broker.topic", Form::Text, "", "Topic of every event; hyperfleet-<plural> of its kind when empty."),
    key("clients.broker.kinds", Form::List, "[]", "Kinds to work on when no topic is given."),
    accepted("clients.kubernetes.api_version", Form::Text, ""),
    key("clients.kubernetes.kube_config_path", Form::Text, "", "Kubeconfig file; the service account when empty."),
    key("clients.kubernetes.context", Form::Text, "", "Context of the kubeconfig; its current one when empty."),
    key("clients.kubernetes.qps", Form::Integer { min: 0, max: 100_000 }, "100", "Requests a second; 0 for the default."),
    key("clients.kubernetes.burst", Form::Integer { min: 0, max: 100_000 }, "200", "Requests at once after a pause; 0 for the default."),
    key("clients.kubernetes.field_manager", Form::Text, "", "Manager of applied fields; hyperfleet-<adapter.name> when empty."),
    key("clients.kubernetes.adopt_managers", Form::List, "[adapter, hyperfleet-adapter]", "Managers whose fields are taken over at the first apply."),
    key("clients.kubernetes.allow_exec", Form::Bool, "false", "Whether a kubeconfig may run a program for credentials."),
    Key { secret: Secret::Url, ..accepted("clients.maestro.grpc_server_address", Form::Text, "") },
    Key { secret: Secret::Url, ..accepted("clients.maestro.http_server_address", Form::Text, "") },
    accepted("clients.maestro.source_id", Form::Text, ""),
    accepted("clients.maestro.client_id", Form::Text, ""),
    Key { secret: Secret::Values, ..accepted("clients.maestro.auth", Form::Structured, "{}") },
    accepted("clients.maestro.timeout", Form::Text, ""),
    accepted("clients.maestro.server_healthiness_timeout", Form::Text, ""),
    accepted("clients.maestro.retry_attempts", Form::Integer { min: 0, max: 100 }, "3"),
    accepted("clients.maestro.keepalive", Form::Structured, "{}"),
    accepted("clients.maestro.insecure", Form::Bool, "false"),
    key("execution.deadline", Form::SOME_TIME, "120s", "Time for one execution of a task."),
    key("guards.finalized", Form::Bool, "true", "Whether `Finalized=True` is held back until every object is confirmed absent."),
    key("security.file_roots", Form::List, "[/var/run/secrets, /etc/hyperfleet]", "Directories below which params may read files, beside that of the task."),
    key("security.env", Form::List, "[]", "Variables of the environment that a task may read beside those it names."),
    key("shutdown_timeout", Form::ANY_DURATION, "20s", "Time for work under way at shutdown."),
    key("log.level", Form::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "The lowest level that is logged."),
    key("log.format", Form::Choice(&["json", "text"]), "json", "How a line looks."),
    key("log.output", Form::Choice(&["stdout", "stderr"]), "stdout", "Where lines go."),
    key("health.host", Form::NonEmpty, "localhost", "Name or address that health is served on."),
    key("health.port", Form::PORT, "8080", "Port of health."),
    key("health.tls.enabled", Form::Bool, "false", "Whether health is served over TLS."),
    key("health.tls.cert_file", Form::Text, "", "Certificate, in PEM."),
    key("health.tls.key_file", Form::Text, "", "Its key, in PEM."),
    key("metrics.host", Form::NonEmpty, "localhost", "Name or address that metrics are served on."),
    key("metrics.port", Form::PORT, "9090", "Port of metrics."),
    key("metrics.tls.enabled", Form::Bool, "false", "Whether metrics are served over TLS."),
    key("metrics.tls.cert_file", Form::Text, "", "Certificate, in PEM."),
    key("metrics.tls.key_file", Form::Text, "", "Its key, in PEM."),
];

const TABLES: &[&[Key]] = &[OWN, hyperfleet_client::config::KEYS, hyperfleet_events::config::KEYS];
const TABLE: [Key; settings::rows(TABLES)] = settings::joined(TABLES);

/// Every setting of an adapter.
pub static KEYS: &[Key] = &TABLE;

/// Variables of the Go adapter, and the keys that they set; an earlier one wins.
pub(super) const VARIABLES: [(&str, &str); 18] = [
    ("HYPERFLEET_API_BASE_URL", "clients.hyperfleet_api.base_url"),
    ("HYPERFLEET_API_VERSION", "clients.hyperfleet_api.version"),
    ("HYPERFLEET_API_TIMEOUT", "clients.hyperfleet_api.timeout"),
    ("HYPERFLEET_API_RETRY_ATTEMPTS", "clients.hyperfleet_api.retry_attempts"),
    ("HYPERFLEET_API_RETRY_BACKOFF", "clients.hyperfleet_api.retry_backoff"),
    ("HYPERFLEET_API_BASE_DELAY", "clients.hyperfleet_api.base_delay"),
    ("HYPERFLEET_API_MAX_DELAY", "clients.hyperfleet_api.max_delay"),
    ("HYPERFLEET_BROKER_SUBSCRIPTION_ID", "clients.broker.subscription_id"),
    ("BROKER_SUBSCRIPTION_ID", "clients.broker.subscription_id"),
    ("HYPERFLEET_BROKER_TOPIC", "clients.broker.topic"),
    ("BROKER_TOPIC", "clients.broker.topic"),
    ("HYPERFLEET_KUBERNETES_KUBE_CONFIG_PATH", "clients.kubernetes.kube_config_path"),
    ("HYPERFLEET_KUBERNETES_QPS", "clients.kubernetes.qps"),
    ("HYPERFLEET_KUBERNETES_BURST", "clients.kubernetes.burst"),
    ("LOG_LEVEL", "log.level"),
    ("LOG_FORMAT", "log.format"),
    ("LOG_OUTPUT", "log.output"),
    ("HYPERFLEET_API_AUTH_TOKEN_PATH", "clients.hyperfleet_api.auth.token_path"),
];
