//! `hyperfleet events`: follow the events of a broker, publish one by hand, and list, replay or drop dead letters. The broker is the Sentinel's, found by the same settings; kinds and names are asked of the API.

mod dead_letters;
mod publish;
mod tail;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hyperfleet_events::{Broker, BrokerError, Kind as BrokerKind, Metrics};
use hyperfleet_sentinel::config::Config;

use super::{Exit, Failure};
use crate::cli::configuration::{self, Configuration};
use crate::output;
use crate::output::text::clean;
use crate::remote::{Remote, Session};

/// A broker that does not answer within this time is an error.
const PATIENCE: Duration = Duration::from_secs(5);
const PACE: Duration = Duration::from_millis(50);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tail(Brokered<tail::Tail>),
    Publish(Brokered<publish::Publish>),
    /// Deal with events that a subscription gave up
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Tail(call) => call.run(tail::Tail::run),
            Self::Publish(call) => call.run(publish::Publish::run),
            Self::DeadLetters(letters) => letters.run(),
        }
    }
}

// A command that needs a broker, and a server for kinds and names. A doc comment would become the help of these commands.
#[derive(Debug, Args)]
#[command(mut_arg("curl", |curl| curl.hide(true)))]
pub(crate) struct Brokered<T: Args> {
    #[command(flatten)]
    remote: Remote<T>,
    #[command(flatten)]
    configuration: Configuration<configuration::Broker>,
}

impl<T: Args> Brokered<T> {
    fn run(
        &self,
        run: impl AsyncFnOnce(&T, &Session, &Config) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        self.remote.run(async |command, session| {
            if session.prints_curl() {
                return Err(Failure::usage("--curl does not apply: events go to the broker"));
            }
            run(command, session, &Config::load(&self.configuration.sources())?).await
        })
    }
}

/// The broker, once it can be reached.
async fn broker(config: &Config) -> Result<Broker, Failure> {
    if config.broker.kind == BrokerKind::Memory {
        return Err(Failure::usage(format!(
            "broker.type is memory ({}), and a broker in memory lives in the process of `hyperfleet up`: no other process \
             can reach it.\n\
             Name the broker that the Sentinel publishes to: by --config, by HYPERFLEET_BROKER_TYPE, or by --broker-type \
             nats, rabbitmq or googlepubsub.\n\
             Beside `hyperfleet up`, look at the resources instead: `hyperfleet get clusters -w`, `hyperfleet why`, \
             `hyperfleet timeline`.",
            config.settings.source("broker.type")
        )));
    }
    let broker = Broker::open(&config.broker, Metrics::default()).await?;
    let since = Instant::now();
    loop {
        match broker.health().await {
            Ok(()) => return Ok(broker),
            Err(error) if since.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(PACE).await,
        }
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        let exit = match &error {
            BrokerError::Configuration(_) => Exit::Usage,
            BrokerError::Unavailable(_) | BrokerError::TimedOut | BrokerError::Full(_) => Exit::Unreachable,
            BrokerError::NoSuchLetter(_) => Exit::NotFound,
            BrokerError::Refused(_) | BrokerError::Unroutable(_) => Exit::Failed,
        };
        let hint = match &error {
            BrokerError::Unavailable(_) => {
                "\n  is it running, and are broker.type and its address right? `hyperfleet sentinel config` shows them"
            }
            BrokerError::Unroutable(_) => "\n  start an adapter once: its subscription is what takes them",
            _ => "",
        };
        Self::with(exit, format!("{}{}", clean(&error.to_string()), output::dim(hint)))
    }
}
