//! The configuration of the API: a typed view of its settings, checked as a whole. Loading
//! collects every fault of every source before it gives up; nothing is opened or bound here.

mod access;
mod database;
mod entities;
mod keys;
mod structured;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::rules::ReportLimits;
use hyperfleet_core::{Catalog, Contract, EntityDescriptor};
use hyperfleet_service::listener::Bind;
use hyperfleet_service::logging::{Format, LogConfig, Masking, Output, machine_name};
use hyperfleet_service::settings::{Faults, Settings, Sources};
use hyperfleet_store::Backend;

use crate::allowed_hosts::is_host;

pub use access::Access;
pub use keys::KEYS;

/// Everything that decides how the API runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// `server.*`
    pub server: Server,
    /// `server.jwt.*`, `server.tenant.*`, `server.authorization.*`, `server.rate_limit.*`
    pub access: Access,
    /// `database.*`
    pub database: Database,
    /// `logging.*`
    pub logging: Logging,
    /// `metrics.*`
    pub metrics: Metrics,
    /// `health.*`
    pub health: Health,
    /// `history.*`
    pub history: History,
    /// `verify.interval`, if it is not off.
    pub verify_interval: Option<Duration>,
    /// `compatibility.*`
    pub compatibility: Compatibility,
    /// `entities`, as configured.
    pub entities: Vec<EntityDescriptor>,
    /// `entities`, checked.
    pub catalog: Arc<Catalog>,
    /// The settings that the configuration was read from, for printing.
    pub settings: Settings,
    /// The sources of the settings, for reloading.
    pub sources: Sources,
}

/// The API's own listener and limits.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where the API listens.
    pub bind: Bind,
    /// Name of this machine in log lines, never empty.
    pub hostname: String,
    /// Hosts that requests may name where no tokens are required, besides loopback names.
    pub allowed_hosts: Vec<String>,
    /// Time that clients get.
    pub timeouts: Timeouts,
    /// Limits beyond which work is refused.
    pub limits: Limits,
    /// OpenAPI document with the schemas of specs.
    pub openapi_schema_path: Option<PathBuf>,
}

/// Time that clients get.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For sending a whole request.
    pub read: Duration,
    /// Without taking a byte of the answer.
    pub write: Duration,
}

/// Limits beyond which work is refused.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest request body.
    pub body_bytes: usize,
    /// Largest page of a list.
    pub response_bytes: usize,
    /// Memory of the large responses that are read or sent.
    pub unsent_bytes: usize,
    /// Most open connections.
    pub connections: usize,
    /// Most requests that are being answered.
    pub requests_in_flight: usize,
    /// Most writes that wait for a commit.
    pub queue: usize,
    /// Most reports on a resource.
    pub reports: ReportLimits,
}

/// The database and how it is used.
#[derive(Debug, Clone)]
pub struct Database {
    backend: Backend,
    /// Connections and deadlines.
    pub pool: Pool,
    /// Whether the schema is brought up to date at start.
    pub migrate_at_start: bool,
}

impl Database {
    /// The database to open.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }
}

/// Connections to the database.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    /// Most connections.
    pub max_connections: usize,
    /// Longest time one request may spend on the database.
    pub request_timeout: Duration,
    /// How often the first connection is tried again.
    pub conn_retry_attempts: u32,
    /// Time between these tries.
    pub conn_retry_interval: Duration,
}

/// The settings of logging.
#[derive(Debug, Clone)]
pub struct Logging {
    /// Level of our own crates.
    pub level: tracing::Level,
    /// How a line looks.
    pub format: Format,
    /// Where lines go.
    pub output: Output,
    /// Which names are masked.
    pub masking: Masking,
}

/// The metrics listener, and what counts as stuck.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Where metrics are served.
    pub bind: Bind,
    /// Time after which an unreconciled resource counts as stuck.
    pub reconciliation_stuck_threshold: Duration,
}

/// The health listener and the times around it.
#[derive(Debug, Clone)]
pub struct Health {
    /// Where health is served.
    pub bind: Bind,
    /// Time for running requests to finish at shutdown.
    pub shutdown_timeout: Duration,
    /// Time for the database to answer the readiness check.
    pub db_ping_timeout: Duration,
}

/// The history of resources.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// How long changes are kept.
    pub retention: Duration,
}

/// Compatibility with older clients.
#[derive(Debug, Clone, Copy)]
pub struct Compatibility {
    /// The contract that the API follows.
    pub contract: Contract,
    /// Whether the conditions of the first API revision are added.
    pub legacy_conditions: bool,
}

impl Config {
    /// Reads and checks everything. The error lists every fault of every source.
    pub fn load(sources: &Sources) -> Result<Self, Faults> {
        let (settings, mut faults) = Settings::read(KEYS, sources);
        let server = Server {
            bind: Bind::of(&settings, "server", &mut faults),
            hostname: settings.some_text("server.hostname").map_or_else(machine_name, str::to_owned),
            allowed_hosts: allowed_hosts(&settings, &mut faults),
            timeouts: Timeouts {
                read: settings.duration("server.timeouts.read"),
                write: settings.duration("server.timeouts.write"),
            },
            limits: Limits {
                body_bytes: settings.integer("server.limits.body_bytes"),
                response_bytes: settings.integer("server.limits.response_bytes"),
                unsent_bytes: settings.integer("server.limits.unsent_bytes"),
                connections: settings.integer("server.limits.connections"),
                requests_in_flight: settings.integer("server.limits.requests_in_flight"),
                queue: settings.integer("server.limits.queue"),
                reports: ReportLimits {
                    count: settings.integer("server.limits.reports_per_resource"),
                    bytes: settings.integer("server.limits.report_bytes_per_resource"),
                },
            },
            openapi_schema_path: settings.some_text("server.openapi_schema_path").map(Into::into),
        };
        if server.limits.unsent_bytes / 4 < server.limits.response_bytes {
            let rule = "must be at least four times server.limits.response_bytes";
            faults.push(settings.fault("server.limits.unsent_bytes", rule));
        }
        let database = Database {
            backend: database::read(&settings, &mut faults),
            pool: Pool {
                max_connections: settings.integer("database.pool.max_connections"),
                request_timeout: settings.duration("database.pool.request_timeout"),
                conn_retry_attempts: settings.integer("database.pool.conn_retry_attempts"),
                conn_retry_interval: settings.duration("database.pool.conn_retry_interval"),
            },
            migrate_at_start: settings.text("database.migrate") == "auto",
        };
        let metrics = Metrics {
            bind: Bind::of(&settings, "metrics", &mut faults),
            reconciliation_stuck_threshold: settings.duration("metrics.reconciliation_stuck_threshold"),
        };
        let health = Health {
            bind: Bind::of(&settings, "health", &mut faults),
            shutdown_timeout: settings.duration("health.shutdown_timeout"),
            db_ping_timeout: settings.duration("health.db_ping_timeout"),
        };
        let history = History { retention: settings.duration("history.retention") };
        let verify_interval =
            Some(settings.duration("verify.interval")).filter(|interval| !interval.is_zero());
        let logging = logging(&settings);
        let compatibility = Compatibility {
            contract: contract(settings.text("compatibility.contract")),
            legacy_conditions: settings.bool("compatibility.legacy_conditions"),
        };
        if settings.bool("tracing.enabled") {
            faults.push(settings.fault("tracing.enabled", "can only be false in this release"));
        }
        let kinds = entities::read(&settings, &mut faults);
        let access = access::read(&settings, kinds.as_ref().map(|(_, catalog)| &**catalog), &mut faults);
        match kinds {
            Some((entities, catalog)) if faults.is_empty() => Ok(Self {
                server,
                access,
                database,
                logging,
                metrics,
                health,
                history,
                verify_interval,
                compatibility,
                entities,
                catalog,
                settings,
                sources: sources.clone(),
            }),
            _ => Err(faults),
        }
    }

    /// Whether a server with this configuration could admit any request; the error says what to do.
    pub fn check_serving(&self) -> Result<(), String> {
        if self.access.issuers.as_ref().is_none_or(|issuers| !issuers.is_empty()) {
            return Ok(());
        }
        Err(format!(
            "server.jwt.enabled is true ({}) and no issuer of tokens is configured, so every request would be refused.\n\
             Name one in server.jwt.configs. To serve without authentication, turn it off with one of\n  \
             server.jwt.enabled: false               in the configuration file\n  \
             HYPERFLEET_SERVER_JWT_ENABLED=false     in the environment\n  \
             --server-jwt-enabled=false              on the command line\n\
             and keep the API on loopback or behind a proxy that authenticates.",
            self.settings.source("server.jwt.enabled")
        ))
    }

    /// How a process of this configuration logs.
    pub fn log_config(&self, component: &str, version: &str) -> LogConfig {
        LogConfig {
            level: self.logging.level,
            format: self.logging.format,
            output: self.logging.output,
            masking: self.logging.masking.clone(),
            component: component.to_owned(),
            version: version.to_owned(),
            hostname: self.server.hostname.clone(),
        }
    }
}

/// The hosts that are served where no tokens are required: those in the list, and the server's own names.
fn allowed_hosts(settings: &Settings, faults: &mut Faults) -> Vec<String> {
    const PATH: &str = "server.allowed_hosts";
    let listed = settings.list(PATH);
    if let Some(host) = listed.iter().find(|host| !is_host(host)) {
        faults.push(
            settings.fault(PATH, format!("must be names or addresses without a port, or *, not '{host}'")),
        );
    }
    let own = ["server.host", "server.hostname"].into_iter().filter_map(|path| settings.some_text(path));
    listed.iter().cloned().chain(own.map(str::to_owned)).collect()
}

/// The contract of this name; the table of keys allows no other.
fn contract(name: &str) -> Contract {
    Contract::ALL.iter().find(|(known, _)| *known == name).map(|(_, contract)| *contract).unwrap_or_default()
}

fn logging(settings: &Settings) -> Logging {
    const REASON: &str = "the table allows only words that parse";
    Logging {
        level: settings.text("logging.level").parse().expect(REASON),
        format: settings.text("logging.format").parse().expect(REASON),
        output: settings.text("logging.output").parse().expect(REASON),
        masking: Masking {
            enabled: settings.bool("logging.masking.enabled"),
            headers: settings.list("logging.masking.headers").to_vec(),
            fields: settings.list("logging.masking.fields").to_vec(),
            secrets: settings.secrets(),
        },
    }
}

#[cfg(test)]
mod tests;
