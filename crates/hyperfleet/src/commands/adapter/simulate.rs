//! `hyperfleet adapter simulate`: a simulated adapter, against any broker and any API.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyperfleet_adapter::{Config, Parts, Rate, Simulation};
use hyperfleet_client::Client;
use hyperfleet_events::{Broker, Metrics};
use hyperfleet_service::logging;
use hyperfleet_service::shutdown::Signals;
use tokio_util::sync::CancellationToken;

use super::super::config::{self, PRINT_CONFIG};
use super::super::{Failure, block_on};
use crate::BUILD;
use crate::cli::configuration::{Adapter, Configuration};
use crate::remote::session::duration;

/// Run an adapter that pretends to do its work
///
/// It receives the events of the Sentinel, reads each resource, waits as if it worked, and reports `Applied`,
/// `Available` and `Health`, or `Finalized` on a resource that is being deleted. Nothing outside is touched.
/// Several processes of one name share the work.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet adapter simulate --name dns --delay 2s --fail 5% --broker-type nats"
)]
pub(crate) struct Simulate {
    /// Name that it reports under, as kinds require it
    #[arg(long, value_name = "NAME", required_unless_present = "print_config", value_parser = name)]
    name: Option<String>,
    /// How long it works for a new generation, a quarter more or less
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    delay: Duration,
    /// How many attempts fail, such as 5%
    #[arg(long, value_name = "RATE", default_value = "0%")]
    fail: Rate,
    /// How long a failure lasts before another attempt may succeed
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s")]
    outage: Duration,
    /// Only this kind; may be given again [default: every kind of the server]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Makes the same resources fail again [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    #[arg(long, help = PRINT_CONFIG)]
    print_config: bool,
    #[command(flatten)]
    configuration: Configuration<Adapter>,
}

/// A name that the API takes.
fn name(text: &str) -> Result<String, String> {
    match text.chars().count() {
        1..=253 if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err("1 to 253 characters".to_owned()),
    }
}

impl Simulate {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load_simulated(&self.configuration.sources())?;
        if self.print_config {
            return Ok(config::print(&config.settings));
        }
        config.check_serving().map_err(Failure::usage)?;
        let simulation = Simulation {
            name: self.name.unwrap_or_default(),
            delay: self.delay,
            failing: self.fail,
            outage: self.outage,
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..)),
        };
        logging::init(config.log_config(BUILD.version)).map_err(Failure::new)?;
        block_on(|signals| serve(config, simulation, self.kinds, signals))
    }
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
