//! The largest steady fleet: each of four adapters reports on each cluster every half hour, and nearly all reports only
//! move times. The rate of reports is raised until the p99 exceeds its limit, then held for a longer window. What is
//! measured is the rate; the number of clusters that report at it is arithmetic.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use hyperfleet_testkit::Postgres;

use crate::fleet::{Fleet, Plan, Reported};
use crate::load::{Load, Outcome};
use crate::options::Options;
use crate::reports::{ADAPTERS, Change};
use crate::results::Results;

const CONNECTIONS: usize = 256;
/// Seconds between two reports of an adapter on a cluster.
const INTERVAL: f64 = 1_800.0;
/// The highest p99, in milliseconds.
const MAX_P99: f64 = 100.0;
/// The part of the wanted rate that must be reached.
const REACHED: f64 = 0.97;
const START_RATE: f64 = 1_000.0;
/// How often the span between a rate that held and one that did not is halved.
const HALVINGS: usize = 3;
/// How often the long window is tried, each time a tenth slower.
const LONG_WINDOWS: usize = 5;

#[derive(Clone, Debug, Args)]
pub(crate) struct FleetArgs {
    /// Length of the last window in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    hold: u64,
}

/// Finds the highest rate and holds it.
pub(crate) async fn measure(
    options: &Options,
    args: &FleetArgs,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    let replicas = options.replicas.unwrap_or(1);
    let plan = Plan {
        replicas,
        adapters: ADAPTERS.len(),
        reported: Reported::All,
        ..Plan::new(Some(postgres), options.clusters)
    };
    eprintln!("making {} clusters", options.clusters);
    let fleet = Fleet::start(&options.launch()?, &plan).await?;
    let mut rate = highest(async |rate| {
        // A failure is repeated, because anything may disturb the machine for a moment.
        Ok(holds(rate, &window(&fleet, rate, options.seconds).await?)
            || holds(rate, &window(&fleet, rate, options.seconds).await?))
    })
    .await?;
    let name = if replicas == 1 { "postgresql".to_owned() } else { format!("postgresql x{replicas}") };
    let row = format!("{name} steady fleet of {}", options.clusters);
    for _ in 0..LONG_WINDOWS {
        let outcome = window(&fleet, rate, args.hold).await?;
        if holds(rate, &outcome) {
            results.add(&row, "clusters", outcome.rate() * INTERVAL / ADAPTERS.len() as f64);
            results.add_load(&row, &outcome);
            return Ok(());
        }
        rate *= 0.9;
    }
    results.fail(&row, 1, "no rate held for the long window");
    Ok(())
}

async fn window(fleet: &Fleet<'_>, rate: f64, seconds: u64) -> Result<Outcome> {
    let window = Duration::from_secs(seconds);
    let load = Load { connections: CONNECTIONS, warm_up: window / 3, window, rate: Some(rate) };
    fleet.load_reports(&load, Change::Mixed).await
}

fn holds(wanted: f64, outcome: &Outcome) -> bool {
    let holds =
        outcome.errors == 0 && outcome.quantile(0.99) <= MAX_P99 && outcome.rate() >= wanted * REACHED;
    let word = if holds { "holds" } else { "too much" };
    eprintln!("{wanted:.0} reports/s: {:.0}, p99 {:.1} ms, {word}", outcome.rate(), outcome.quantile(0.99));
    holds
}

/// The highest rate that holds: up by half until one does not, then between the two.
async fn highest(mut holds: impl AsyncFnMut(f64) -> Result<bool>) -> Result<f64> {
    let (mut held, mut failed, mut rate, mut halvings) = (None, None, START_RATE, 0);
    while halvings <= HALVINGS && rate >= 1.0 {
        if holds(rate).await? {
            held = Some(rate);
        } else {
            failed = Some(rate);
        }
        rate = match (held, failed) {
            (Some(held), Some(failed)) => {
                halvings += 1;
                f64::sqrt(held * failed)
            }
            (_, None) => rate * 1.5,
            (None, Some(_)) => rate / 2.0,
        };
    }
    held.context("no rate held, however low")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_highest_rate_never_exceeds_one_that_holds() {
        for limit in [150.0, 7_000.0] {
            let rate = highest(async |rate| Ok(rate <= limit)).await.unwrap();
            assert!(rate <= limit && rate > 0.9 * limit, "{rate} of {limit}");
        }
        assert!(highest(async |_| Ok(false)).await.is_err());
    }
}
