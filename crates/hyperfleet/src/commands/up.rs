//! `hyperfleet up`: everything in one process on an embedded database, for trials and development.
//! Loopback only, because callers are not authenticated, or can mint their own tokens.

mod demo;

use std::fs::DirBuilder;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hyperfleet_api::config::Config;
use hyperfleet_api::server::{Addresses, Started};
use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_client::{Client, InProcess, Settings};
use hyperfleet_core::Timestamp;
use hyperfleet_events::Broker;
use hyperfleet_sentinel::config::{Work, fixed_token, replica_name};
use hyperfleet_sentinel::{Metrics, Parts};
use hyperfleet_service::health::Health;
use hyperfleet_service::listener::Bind;
use hyperfleet_service::logging;
use hyperfleet_service::settings::Sources;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::serve::serve;
use super::{Failure, block_on, dev};
use crate::BUILD;
use crate::cli::configuration::{Api, Configuration};
use crate::output::{bold, dim, message};
use crate::remote::session::DEFAULT_SERVER;

use demo::Demo;

const MEMORY: &str = "sqlite::memory:";
/// Time for the Sentinel's last events, and for giving its leases back.
const SENTINEL_GRACE: Duration = Duration::from_secs(2);

/// Run everything in one process on an embedded database
///
/// The database is SQLite: there is nothing else to install or to configure.
///
/// Without --auth callers are not authenticated, so the server listens on loopback only and refuses any other
/// address.
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet up --demo\n  hyperfleet up --memory --port 9000")]
pub(crate) struct Up {
    /// Port of the API [default: 8000]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Loopback host to listen on [default: localhost]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Directory of the database [default: the current one]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["memory", "database.url"])]
    data: Option<PathBuf>,
    /// Ask for tokens, and accept those of `hyperfleet dev token`
    #[arg(long)]
    auth: bool,
    /// Keep the data in memory; it ends with the process
    #[arg(long, conflicts_with = "database.url")]
    memory: bool,
    #[command(flatten)]
    demo: demo::Flags,
    #[command(flatten)]
    configuration: Configuration<Api>,
}

impl Up {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let sources = self.sources()?;
        let config = Config::load(&sources)?;
        config.check_serving().map_err(Failure::usage)?;
        for (key, host) in [
            ("server.host", &config.server.bind.host),
            ("health.host", &config.health.bind.host),
            ("metrics.host", &config.metrics.bind.host),
        ] {
            refuse_others(key, host)?;
        }
        let demo = Demo::of(self.demo);
        if let Some(demo) = &demo {
            demo.check(&config)?;
        }
        logging::init(config.log_config("up", BUILD.version)).map_err(Failure::new)?;
        let token = if self.auth { Some(own_token()?) } else { None };
        block_on(|mut signals| async move {
            let mut registry = Registry::default();
            let (metrics, of_broker) = (Metrics::default(), hyperfleet_events::Metrics::default());
            metrics.register(&mut registry);
            of_broker.register(&mut registry);
            let broker = match demo {
                Some(_) => Demo::broker(of_broker).await?,
                None => Broker::memory(of_broker),
            };
            let config = Arc::new(config);
            serve(&config, registry, &mut signals, |started| {
                welcome(&config, &started.addresses, demo.as_ref());
                let api = api(&config, started, token);
                let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
                if let Some(demo) = demo {
                    running.spawn(show(demo, Arc::clone(&config), api.clone(), broker.clone(), stop.clone()));
                }
                running.spawn(hyperfleet_sentinel::run(parts(api, broker, metrics), stop.clone()));
                async move {
                    stop.cancel();
                    let ended = async { while running.join_next().await.is_some() {} };
                    let _ = tokio::time::timeout(SENTINEL_GRACE, ended).await;
                }
            })
            .await
        })
    }

    /// The usual sources, with defaults for a single user on one machine.
    fn sources(&self) -> Result<Sources, Failure> {
        let mut sources = self.configuration.sources();
        let mut preset = |key, value: &str| sources.presets.push((key, value.to_owned()));
        if self.auth {
            preset("server.jwt.configs", &accept_dev_tokens()?);
        } else {
            preset("server.jwt.enabled", "false");
        }
        preset("logging.format", "text");
        preset("logging.output", "stderr");
        preset("logging.level", "warn");
        if self.demo.demo {
            // The demo must not mix with data that is kept.
            preset("database.url", MEMORY);
            preset("entities", demo::ENTITIES);
        }
        let mut flag = |key: &str, value: String| sources.flags.push((key.to_owned(), value));
        if let Some(port) = self.port {
            flag("server.port", port.to_string());
        }
        if let Some(host) = &self.host {
            flag("server.host", host.clone());
        }
        if self.memory {
            flag("database.url", MEMORY.to_owned());
        }
        if let Some(directory) = &self.data {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
                Failure::new(format!("cannot make the directory {}: {error}", directory.display()))
            })?;
            flag("database.url", format!("sqlite:{}", directory.join("hyperfleet.db").display()));
        }
        Ok(sources)
    }
}

/// The demo, through the public API.
async fn show(
    demo: Demo,
    config: Arc<Config>,
    api: Settings,
    broker: Broker,
    stop: CancellationToken,
) -> Result<(), hyperfleet_client::Error> {
    let client = Client::new(Settings { user_agent: "hyperfleet-demo".to_owned(), ..api })?;
    demo.run(&config, client, broker, stop).await;
    Ok(())
}

/// The client settings for the API of this process: without sockets, with every check.
fn api(config: &Config, started: &Started, token: Option<String>) -> Settings {
    Settings {
        token: token.map(fixed_token),
        in_process: Some(InProcess::new(started.router.clone())),
        ..Settings::of(url(&config.server.bind, &started.addresses.api))
    }
}

/// The Sentinel of this process: it covers every kind, and its events stay in the process.
fn parts(api: Settings, broker: Broker, metrics: Metrics) -> Parts {
    Parts {
        name: "hyperfleet-sentinel".to_owned(),
        replica: replica_name(),
        api: Settings { user_agent: "hyperfleet-sentinel".to_owned(), ..api },
        work: Work::default(),
        broker,
        metrics,
        health: Health::new(hyperfleet_sentinel::CHECKS),
        grace: SENTINEL_GRACE,
    }
}

/// A token of this process, which never leaves it.
fn own_token() -> Result<String, Failure> {
    let directory = std::path::absolute(dev::DIRECTORY).map_err(Failure::new)?;
    let issuer = DevIssuer::open(&directory, ISSUER_URL).map_err(Failure::new)?;
    let mut grant = Grant::new("sentinel@hyperfleet.local".to_owned());
    grant.lifetime = Duration::from_secs(365 * 24 * 60 * 60);
    issuer.mint(&grant, Timestamp::now()).map_err(Failure::new)
}

/// The one issuer of a server that is tried out: the one of `hyperfleet dev token`.
fn accept_dev_tokens() -> Result<String, Failure> {
    let directory = std::path::absolute(dev::DIRECTORY).map_err(Failure::new)?;
    let issuer = DevIssuer::open(&directory, ISSUER_URL).map_err(Failure::new)?;
    let issuer = serde_json::json!([{"issuer_url": ISSUER_URL, "jwk_cert_file": issuer.jwks_file()}]);
    Ok(issuer.to_string())
}

fn refuse_others(key: &str, host: &str) -> Result<(), Failure> {
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if loopback {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`hyperfleet up` does not authenticate callers, so it listens on loopback only and not on {key} = '{host}'.\n\
         Use localhost, 127.0.0.1 or ::1, or run `hyperfleet serve` behind a proxy that authenticates."
    )))
}

fn url(bind: &Bind, at: &[SocketAddr]) -> String {
    let scheme = if bind.tls.is_some() { "https" } else { "http" };
    let port = at.first().map_or(bind.port, SocketAddr::port);
    let host = if bind.host.contains(':') { format!("[{}]", bind.host) } else { bind.host.clone() };
    format!("{scheme}://{host}:{port}")
}

fn welcome(config: &Config, addresses: &Addresses, demo: Option<&Demo>) {
    let api = url(&config.server.bind, &addresses.api);
    let base = format!("{api}/api/hyperfleet/v1");
    let login = match config.access.issuers {
        Some(_) => "by token: hyperfleet dev token me@example.com",
        None => "none: reachable from this machine only",
    };
    message(&format!("{} {} is up\n", bold("HyperFleet"), BUILD.version));
    let mut rows = vec![
        ("API", format!("{base}/clusters")),
        ("API docs", format!("{base}/openapi.html")),
        ("Health", format!("{}/readyz", url(&config.health.bind, &addresses.health))),
        ("Metrics", format!("{}/metrics", url(&config.metrics.bind, &addresses.metrics))),
        ("Data", config.database.backend().to_string()),
        ("Login", login.to_owned()),
    ];
    rows.extend(demo.map(|demo| ("Demo", demo.summary(config))));
    for (name, value) in rows {
        message(&format!("  {} {value}", dim(&format!("{name:<9}"))));
    }
    message(&format!("\n{}", bold("Try it in another terminal:")));
    if api != DEFAULT_SERVER {
        message(&format!("  export HYPERFLEET_SERVER={api}"));
    }
    if config.access.issuers.is_some() {
        message("  export HYPERFLEET_TOKEN=$(hyperfleet dev token 2>/dev/null)");
    }
    for (command, what) in commands(demo) {
        message(&format!("  {command:<38} {}", dim(what)));
    }
    message(&format!("\n{}", dim("Ctrl-C stops it.")));
}

/// Three commands to try.
fn commands(demo: Option<&Demo>) -> [(String, &'static str); 3] {
    let watch = ("hyperfleet get clusters -w".to_owned(), "follow each change");
    let why = |name| (format!("hyperfleet why cluster {name}"), "what blocks it");
    match demo {
        Some(_) => [("hyperfleet top".to_owned(), "the fleet at a glance, live"), watch, why(demo::FIRST)],
        None => {
            let create = ("hyperfleet create cluster first-try".to_owned(), "a first cluster");
            [create, why("first-try"), watch]
        }
    }
}
