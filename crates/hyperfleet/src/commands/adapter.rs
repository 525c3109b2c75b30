//! `hyperfleet adapter simulate`: an adapter that pretends, against any broker and any API.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_adapter::{Config, KEYS, Parts, Rate, Simulation};
use hyperfleet_client::Client;
use hyperfleet_events::{Broker, Metrics};
use hyperfleet_service::logging;
use hyperfleet_service::settings::Sources;
use hyperfleet_service::shutdown::Signals;
use tokio_util::sync::CancellationToken;

use super::{Failure, block_on, config};
use crate::remote::session::duration;
use crate::{BUILD, cli};

const FILE: &str = "Configuration file [default: $HYPERFLEET_CONFIG, /etc/hyperfleet/adapter.yaml or ./configs/adapter.yaml]";

pub(crate) fn command() -> Command {
    let simulate = Command::new("simulate")
        .about("Run an adapter that pretends to do its work")
        .long_about(
            "Run an adapter that pretends to do its work: it hears the events of the Sentinel, reads each resource, waits \
             as if it worked, and reports `Applied`, `Available` and `Health`, or `Finalized` on what is being deleted. Nothing \
             outside is touched. Several processes of one name share the work.",
        )
        .args([
            Arg::new("name").long("name").value_name("NAME").required_unless_present("print-config").value_parser(name).help("Name that it reports under, as kinds require it"),
            Arg::new("delay").long("delay").value_name("DURATION").value_parser(duration).default_value("2s").help("How long it works for a new generation, a quarter more or less"),
            Arg::new("fail").long("fail").value_name("RATE").value_parser(value_parser!(Rate)).default_value("0%").help("How many attempts fail, such as 5%"),
            Arg::new("outage").long("outage").value_name("DURATION").value_parser(duration).default_value("20s").help("How long a failure lasts before another attempt may succeed"),
            Arg::new("kind").long("kind").value_name("KIND").action(ArgAction::Append).help("Only this kind; may be given again [default: every kind of the server]"),
            Arg::new("seed").long("seed").value_name("NUMBER").value_parser(value_parser!(u64)).help("Makes the same resources fail again [default: another one each time]"),
        ])
        .arg(cli::print_config())
        .args(cli::configuration_of(KEYS, FILE))
        .after_help("Try it:\n  hyperfleet adapter simulate --name dns --delay 2s --fail 5% --broker-type nats");
    Command::new("adapter")
        .about("Adapters for trying things out")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(simulate)
}

/// A name that the API takes.
fn name(text: &str) -> Result<String, String> {
    match text.chars().count() {
        1..=253 if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err("1 to 253 characters".to_owned()),
    }
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("simulate", matches)) => simulate(matches),
        _ => Err(Failure::usage("no such command; see hyperfleet adapter --help")),
    }
}

fn simulate(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let config = Config::load(&sources(matches))?;
    if matches.get_flag("print-config") {
        return Ok(config::print(&config.settings));
    }
    config.check_serving().map_err(Failure::usage)?;
    let time = |name: &str| matches.get_one::<Duration>(name).copied().unwrap_or_default();
    let simulation = Simulation {
        name: matches.get_one::<String>("name").cloned().unwrap_or_default(),
        delay: time("delay"),
        failing: matches.get_one::<Rate>("fail").copied().unwrap_or_default(),
        outage: time("outage"),
        seed: matches.get_one::<u64>("seed").copied().unwrap_or_else(chance),
    };
    let kinds = matches.get_many::<String>("kind").into_iter().flatten().cloned().collect();
    logging::init(config.log_config(BUILD.version)).map_err(Failure::new)?;
    block_on(|signals| serve(config, simulation, kinds, signals))
}

fn sources(matches: &ArgMatches) -> Sources {
    let usual_files = Config::USUAL_FILES.iter().map(PathBuf::from).collect();
    Sources { usual_files, ..cli::sources_of(matches, KEYS) }
}

/// A seed that nobody chose.
pub(super) fn chance() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

async fn serve(
    config: Config,
    simulation: Simulation,
    kinds: Vec<String>,
    mut signals: Signals,
) -> Result<ExitCode, Failure> {
    let client = Client::new(config.api.clone())?;
    let broker = Broker::open(&config.broker, Metrics::default()).await?;
    tracing::info!(
        adapter = simulation.name,
        delay = ?simulation.delay,
        failing = %simulation.failing,
        seed = simulation.seed,
        api = client.base_url(),
        broker = broker.kind(),
        "starting"
    );
    let parts =
        Parts { simulation, client, broker, kinds, topic: config.topic, grace: config.shutdown_timeout };
    let stop = CancellationToken::new();
    let adapter = hyperfleet_adapter::run(parts, stop.clone(), || tracing::info!("ready"));
    tokio::pin!(adapter);
    let ended = tokio::select! {
        ended = &mut adapter => ended,
        signal = signals.next() => {
            tracing::info!(signal = %signal, "draining");
            stop.cancel();
            adapter.await
        }
    };
    tracing::info!("stopped");
    ended.map(|()| ExitCode::SUCCESS).map_err(Failure::usage)
}
