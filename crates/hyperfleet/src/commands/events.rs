//! `hyperfleet events`: what goes over the broker, for people: look at it, publish by hand, and deal with what was
//! given up. The broker is the Sentinel's, found by the same settings; kinds and names are asked of the API.

mod dead_letters;
mod publish;
mod tail;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_client::Kind;
use hyperfleet_events::{Broker, BrokerError, Kind as BrokerKind, Metrics};
use hyperfleet_sentinel::config::Config;

use super::{Exit, Failure};
use crate::output::text::clean;
use crate::remote::{self, Session, session};
use crate::{cli, output};

/// A person waits: a broker that does not answer for so long is told of.
const PATIENCE: Duration = Duration::from_secs(5);
const PACE: Duration = Duration::from_millis(50);

pub(crate) fn command() -> Command {
    Command::new("events")
        .about("Look at events, publish one, and deal with those that were given up")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([tail::command(), publish::command(), dead_letters::command()])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("tail", matches)) => remote::run(matches, tail::run),
        Some(("publish", matches)) => remote::run(matches, publish::run),
        Some(("dead-letters", matches)) => dead_letters::dispatch(matches),
        _ => Err(Failure::usage("no such command; see hyperfleet events --help")),
    }
}

/// Adds what every one of these commands has: a server to ask for kinds and names, and a broker.
fn arguments(command: Command) -> Command {
    // What is asked for is done by the broker, so there is no request to print.
    session::arguments(command).mut_arg("curl", |curl| curl.hide(true)).args(cli::broker_configuration())
}

/// `--topic`, and `--kind` in its place.
fn topics() -> [Arg; 2] {
    [
        Arg::new("kind")
            .long("kind")
            .value_name("KIND")
            .action(ArgAction::Append)
            .help("Only events about this kind; may be given again"),
        Arg::new("topic")
            .long("topic")
            .value_name("TOPIC")
            .action(ArgAction::Append)
            .help("Only this topic [default: clients.broker.topic, or hyperfleet-<plural> of every kind]; may be given again"),
    ]
}

/// The Sentinel's settings, as far as its flags, file and environment are those of this call.
fn settings(session: &Session, matches: &ArgMatches) -> Result<Config, Failure> {
    if session.prints_curl() {
        return Err(Failure::usage("events go over the broker: there is no curl command for that"));
    }
    Ok(Config::load(&cli::broker_sources(matches))?)
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

/// The kinds that `--kind` names.
async fn kinds(session: &Session, matches: &ArgMatches) -> Result<Vec<Kind>, Failure> {
    let mut kinds = Vec::new();
    for word in matches.get_many::<String>("kind").into_iter().flatten() {
        kinds.push(session.kinds().await?.find(word)?.clone());
    }
    Ok(kinds)
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
