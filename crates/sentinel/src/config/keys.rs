//! Every setting of the Sentinel in one table: its own, with the names that the Go Sentinel has, and those of
//! whatever it talks to.

use hyperfleet_service::settings::{self, Form, Key, key};

#[rustfmt::skip]
const OWN: &[Key] = &[
    key("sentinel.name", Form::NonEmpty, "hyperfleet-sentinel", "Who publishes: the events' source, and the name under which replicas share the work."),
    key("sentinel.replica", Form::Text, "", "Name of this replica, which no other has; made of the machine's name when empty."),
    key("sentinel.publish_parallelism", Form::Integer { min: 1, max: 1_000 }, "32", "Events of one kind that are on their way to the broker at one time."),
    key("clients.hyperfleet_api.page_size", Form::Integer { min: 1, max: 500 }, "100", "Resources that are asked for at a time."),
    key("clients.broker.topic", Form::Text, "", "Topic of every event; hyperfleet-<plural> of its kind when empty."),
    key("resource_type", Form::Structured, "all", "What to look after: the plural of a kind, a list of them, or all."),
    key("poll_interval", Form::ANY_DURATION, "0s", "Time between two searches for what is due. With 0s it is 5 s, and while a watch is connected 30 s, or more for more than four kinds."),
    key("resource_selector", Form::Structured, "[]", "Labels that a resource must carry, each {label, value}."),
    key("message_decision", Form::Structured, "{}", "When to publish, instead of the built-in table: {params, result} in CEL."),
    key("message_data", Form::Structured, "{}", "Further members of an event's data: names with CEL over resource and reason."),
    key("log.level", Form::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "The lowest level that is logged."),
    key("log.format", Form::Choice(&["json", "text"]), "json", "How a line looks."),
    key("log.output", Form::Choice(&["stdout", "stderr"]), "stdout", "Where lines go."),
    key("tracing_enabled", Form::Bool, "false", "Whether each event begins a trace, which adapters and their reports continue."),
    key("health.host", Form::NonEmpty, "localhost", "Name or address that health is served on."),
    key("health.port", Form::PORT, "8080", "Port of health."),
    key("health.tls.enabled", Form::Bool, "false", "Whether health is served over TLS."),
    key("health.tls.cert_file", Form::Text, "", "Certificate, in PEM."),
    key("health.tls.key_file", Form::Text, "", "Its key, in PEM."),
    key("health.shutdown_timeout", Form::ANY_DURATION, "20s", "Time for events on their way at shutdown."),
    key("metrics.host", Form::NonEmpty, "localhost", "Name or address that metrics are served on."),
    key("metrics.port", Form::PORT, "9090", "Port of metrics."),
    key("metrics.tls.enabled", Form::Bool, "false", "Whether metrics are served over TLS."),
    key("metrics.tls.cert_file", Form::Text, "", "Certificate, in PEM."),
    key("metrics.tls.key_file", Form::Text, "", "Its key, in PEM."),
];

const TABLES: &[&[Key]] = &[OWN, hyperfleet_client::config::KEYS, hyperfleet_events::config::KEYS];
const TABLE: [Key; settings::rows(TABLES)] = settings::joined(TABLES);

/// Every setting of the Sentinel.
pub static KEYS: &[Key] = &TABLE;

/// Variables of the Go Sentinel, and the keys that they set.
pub(super) const VARIABLES: [(&str, &str); 6] = [
    ("HYPERFLEET_API_BASE_URL", "clients.hyperfleet_api.base_url"),
    ("HYPERFLEET_API_TIMEOUT", "clients.hyperfleet_api.timeout"),
    ("HYPERFLEET_API_PAGE_SIZE", "clients.hyperfleet_api.page_size"),
    ("HYPERFLEET_API_AUTH_TOKEN_PATH", "clients.hyperfleet_api.auth.token_path"),
    ("HYPERFLEET_API_AUTH_TOKEN_CACHE_TTL", "clients.hyperfleet_api.auth.token_cache_ttl"),
    ("HYPERFLEET_BROKER_TOPIC", "clients.broker.topic"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_key() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        let table = hyperfleet_service::settings::markdown(OWN);
        assert!(
            page.contains(&format!("\n\n{table}\n")),
            "docs/reference/configuration.md must have:\n{table}"
        );
    }
}
