//! Every setting of the API in one table. Order here is the order in the example file, the
//! documentation and `hyperfleet config`, so keys of one section stand together.

use hyperfleet_service::settings::{Form, Key, NO_EFFECT, Secret, key};

const fn secret(path: &'static str, secret: Secret, doc: &'static str) -> Key {
    Key { path, form: Form::Text, default: "", doc, secret }
}

const fn count(max: i64) -> Form {
    Form::Integer { min: 1, max }
}

const ISSUERS: &str = "\
# issuer_url: what iss must be. jwk_cert_url, jwk_cert_file: where its keys are, one or both.
# jwk_cert_ca_file: authorities for that URL. audience: what aud must hold. header: Authorization
# unless given. identity_claim: email unless given. identity_claim_pattern: what the identity must
# fit as a whole. identity_header: a header that names the caller before the claim does.
[]
";

const DIMENSIONS: &str = "\
# Each {header, key, required}: the header's value becomes tenancy.<key> of whatever is created.
[]
";

const ROLES: &str = "\
# Each {name, rules}, each rule {verbs, kinds, labels}: verbs are read, write, delete,
# force-delete, report or *; kinds or *; labels are those that the resource must carry.
[]
";

const BINDINGS: &str = "\
# Each {role, identities, claims}: an identity may hold * for any run of characters; claims maps
# the name of a claim to values, one of which it must have.
[]
";

const ENTITIES: &str = "\
# kind, plural: the name in bodies and the name in paths, each used once.
# parent_kind, on_parent_delete: make it a child; cascade deletes it with its parent, restrict
#   refuses to delete a parent that has one.
# required_adapters: adapters whose reports decide its conditions.
# spec_schema_name, require_spec_schema: component of server.openapi_schema_path that specs must
#   fit; the second refuses to start without it.
# conditions: rules in CEL that lift findings of adapters into status.conditions, each {type,
#   when.expression, output.status.expression, output.reason.expression, output.message.expression};
#   see docs/reference/status.md.
# references: what it may refer to, each {ref_type, target_kind, min, max}; max 0 is no limit.
# name_min_len, name_max_len: length of names, 1 to 100 when not given.
- kind: Cluster
  plural: clusters
  required_adapters: [validator]
  spec_schema_name: ClusterSpec
  name_min_len: 3
  name_max_len: 53
- kind: NodePool
  plural: nodepools
  parent_kind: Cluster
  on_parent_delete: cascade
  required_adapters: [validator]
  spec_schema_name: NodePoolSpec
  name_min_len: 3
  name_max_len: 15
";

/// Every setting of the API.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    key("server.host", Form::NonEmpty, "localhost", "Name or address that the API listens on."),
    key("server.port", Form::PORT, "8000", "Port of the API; 0 lets the system choose."),
    key("server.hostname", Form::Text, "", "Name of this machine in log lines; empty takes the system's."),
    key("server.allowed_hosts", Form::List, "[]", "Where `server.jwt.enabled` is false: further hosts that requests may name, besides loopback names, `server.host` and `server.hostname`; `*` allows all. Others are answered with 421."),
    key("server.timeouts.read", Form::SOME_TIME, "30s", "Time for a client to send a whole request, body included."),
    key("server.timeouts.write", Form::SOME_TIME, "30s", "A client that takes less than 64 KiB of what waits for it in this time is cut off."),
    key("server.tls.enabled", Form::Bool, "false", "Serve the API over TLS; needs both files."),
    key("server.tls.cert_file", Form::Text, "", "Certificate chain of the API in PEM; a changed file is used without a restart."),
    key("server.tls.key_file", Form::Text, "", "Private key of that certificate in PEM."),
    key("server.limits.body_bytes", Form::Integer { min: 1_024, max: 1 << 30 }, "1048576", "Largest request body in bytes; a larger one is answered with 413."),
    key("server.limits.response_bytes", Form::Integer { min: 65_536, max: 1 << 30 }, "16777216", "Largest page of a list in bytes, before `fields`; a page ends early, but not before its first item."),
    key("server.limits.unsent_bytes", Form::Integer { min: 1 << 20, max: 1 << 40 }, "268435456", "Bytes of responses that are read or sent, a quarter for one connection; beyond it, reads of more than 256 KiB are answered with 503."),
    key("server.limits.connections", count(1_000_000), "10000", "Most open connections; further ones wait to be accepted."),
    key("server.limits.requests_in_flight", count(1_000_000), "2048", "Most requests in flight; further ones are answered with 503. Lists, explanations, history and lists of reports are refused from 50 % on, other requests for one resource from 85 % on, reports of adapters last."),
    key("server.limits.queue", count(1_000_000), "4096", "Most writes waiting for a commit; further ones are answered with 503."),
    key("server.limits.reports_per_resource", count(100_000), "500", "Most reports on one resource; a further one is answered with 422."),
    key("server.limits.report_bytes_per_resource", Form::Integer { min: 65_536, max: 1 << 30 }, "4194304", "Most bytes of all reports on one resource; half are kept for required adapters. A report without room is answered with 422."),
    key("server.openapi_schema_path", Form::Text, "", "OpenAPI document with the components that specs must fit; empty accepts every spec."),
    key("server.jwt.enabled", Form::Bool, "true", "Require a valid token on every request; false only behind a proxy that authenticates, or on loopback."),
    Key { secret: Secret::Url, ..key("server.jwt.configs", Form::Structured, ISSUERS, "The issuers of tokens that are accepted.") },
    key("server.tenant.enabled", Form::Bool, "false", "Keep tenants apart, by headers that a trusted proxy sets."),
    key("server.tenant.system_header", Form::Text, "", "Header that marks a system caller with `true`: it sees all tenants and may only report."),
    key("server.tenant.dimensions", Form::Structured, DIMENSIONS, "The headers that make up a tenant."),
    key("server.authorization.enabled", Form::Bool, "false", "Allow only what roles grant. SIGHUP reloads the roles."),
    key("server.authorization.default_role", Form::Text, "", "Role of every caller with a valid token."),
    key("server.authorization.roles", Form::Structured, ROLES, "The roles and their rules."),
    key("server.authorization.bindings", Form::Structured, BINDINGS, "Which identities and claims have which role."),
    key("server.rate_limit.enabled", Form::Bool, "false", "Limit the requests of each identity, or of each address without one."),
    key("server.rate_limit.reads.per_second", count(1_000_000), "100", "Sustained reads a second for each caller."),
    key("server.rate_limit.reads.burst", count(1_000_000), "200", "Reads in a burst."),
    key("server.rate_limit.writes.per_second", count(1_000_000), "50", "Sustained writes a second for each caller."),
    key("server.rate_limit.writes.burst", count(1_000_000), "100", "Writes in a burst."),
    key("server.rate_limit.reports.per_second", count(1_000_000), "1000", "Sustained reports a second for each caller."),
    key("server.rate_limit.reports.burst", count(1_000_000), "2000", "Reports in a burst."),

    secret("database.url", Secret::Url, "`sqlite:<path>`, `sqlite::memory:` or `postgres://…`; empty uses `database.host`, and without that `sqlite:./hyperfleet.db`."),
    key("database.host", Form::Text, "", "Host of a PostgreSQL server, or the directory of its socket; not together with `database.url`."),
    key("database.port", Form::Integer { min: 1, max: 65_535 }, "5432", "Port of the server at `database.host`."),
    key("database.name", Form::NonEmpty, "hyperfleet", "Database on the server at `database.host`."),
    key("database.username", Form::Text, "", "User at `database.host`."),
    secret("database.password", Secret::Whole, "Password of that user."),
    key("database.ssl.mode", Form::Choice(&["disable", "prefer", "require", "verify-ca", "verify-full"]), "prefer", "Use of TLS to PostgreSQL."),
    key("database.ssl.root_cert_file", Form::Text, "", "Certificate authorities for the server's certificate, in PEM; empty takes the system's."),
    key("database.pool.max_connections", count(10_000), "50", "Most pooled connections to PostgreSQL. Eight more have a purpose of their own, and up to eight worker threads have one more each, two with tenants."),
    key("database.pool.request_timeout", Form::SOME_TIME, "30s", "Deadline of one request at the database, waiting included."),
    key("database.pool.conn_retry_attempts", Form::Integer { min: 0, max: 10_000 }, "10", "Retries of the first connection at start."),
    key("database.pool.conn_retry_interval", Form::ANY_DURATION, "3s", "Time between these retries."),
    key("database.migrate", Form::Choice(&["auto", "manual"]), "auto", "Bring the schema up to date at start, or leave it to `hyperfleet migrate`."),

    key("logging.level", Form::Choice(&["error", "warn", "info", "debug", "trace"]), "info", "Lowest level that is logged; libraries stay at warn unless this is debug or trace."),
    key("logging.format", Form::Choice(&["json", "text"]), "json", "One JSON object a line, or text for people."),
    key("logging.output", Form::Choice(&["stdout", "stderr"]), "stdout", "Where log lines go."),
    key("logging.masking.enabled", Form::Bool, "true", "Hide secrets in log lines."),
    key("logging.masking.headers", Form::List, "[Authorization, Cookie, X-API-Key, Proxy-Authorization]", "Request headers whose values are hidden."),
    key("logging.masking.fields", Form::List, "[password, secret, token, api_key, access_token, refresh_token, client_secret]", "Fields whose values are hidden, also as the end of a longer name such as `db_password`."),

    key("metrics.host", Form::NonEmpty, "localhost", "Name or address that the metrics listen on."),
    key("metrics.port", Form::PORT, "9090", "Port of the metrics; 0 lets the system choose."),
    key("metrics.tls.enabled", Form::Bool, "false", "Serve the metrics over TLS; needs both files."),
    key("metrics.tls.cert_file", Form::Text, "", "Certificate chain of the metrics in PEM."),
    key("metrics.tls.key_file", Form::Text, "", "Private key of that certificate in PEM."),
    key("metrics.reconciliation_stuck_threshold", Form::SOME_TIME, "10m", "Time after which an unreconciled resource counts as stuck, in metrics and explanations."),

    key("health.host", Form::NonEmpty, "localhost", "Name or address that `/healthz` and `/readyz` listen on."),
    key("health.port", Form::PORT, "8080", "Port of `/healthz` and `/readyz`; 0 lets the system choose."),
    key("health.tls.enabled", Form::Bool, "false", "Serve health over TLS; needs both files."),
    key("health.tls.cert_file", Form::Text, "", "Certificate chain of health in PEM."),
    key("health.tls.key_file", Form::Text, "", "Private key of that certificate in PEM."),
    key("health.shutdown_timeout", Form::ANY_DURATION, "20s", "Time for requests in flight to finish at shutdown."),
    key("health.db_ping_timeout", Form::SOME_TIME, "2s", "Time for the database to answer the readiness check."),

    key("tracing.enabled", Form::Bool, "false", "Accepted for compatibility; only false, because this release sends no traces."),
    key("tracing.service_name", Form::NonEmpty, "hyperfleet-api", NO_EFFECT),

    key("history.retention", Form::SOME_TIME, "30d", "How long changes are kept for watches and timelines."),

    key("verify.interval", Form::ANY_DURATION, "0s", "How often one replica verifies the database, as `hyperfleet verify` does; 0s for never."),

    key("compatibility.contract", Form::Choice(&["documented", "go-0.2"]), "documented", "The contract of the API: the documented one, or that of the Go implementation for its Sentinel and adapters."),
    key("compatibility.legacy_conditions", Form::Bool, "false", "Add `Available` and `Ready`, the conditions of the first API revision."),

    key("entities", Form::Structured, ENTITIES, "The kinds of resources."),
];
