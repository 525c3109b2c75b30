//! One round of single requests: the limits with some number of connections, then the rows with as many.

use anyhow::{Result, ensure};

use crate::bare::{self, Bare};
use crate::findings::{Figure, Findings, median};
use crate::load::Outcome;
use crate::options::Options;
use crate::pgbench::Pgbench;
use crate::reporting::Reporting;
use crate::reports::Moves;
use crate::samples::{BARE_LIST, BARE_ONE, Ran, SELECT, UPDATE};
use crate::subject::Subject;
use crate::workload::{Operation, Verb};

const MIB: f64 = 1024.0 * 1024.0;
const IDLE_MEMORY_MIB: f64 = 30.0;
const START_MILLIS: f64 = 300.0;

/// One round of the limits that rows with as many connections need, or reports with any.
pub(crate) fn limits(
    options: &Options,
    findings: &mut Findings,
    bare: Option<&Bare>,
    pgbench: &Pgbench<'_>,
    connections: usize,
) -> Result<()> {
    let rows = options.connections(Operation::Cluster(Verb::Get)).iter();
    let bare = bare.filter(|_| rows.map(|&count| usize::from(count)).any(|count| count == connections));
    if bare.is_some() || options.measures_anywhere(&Operation::reports()) {
        findings.add_limit(UPDATE, connections, pgbench.update(connections, options.seconds)?, None);
    }
    let Some(bare) = bare else { return Ok(()) };
    findings.add_limit(SELECT, connections, pgbench.select(connections, options.seconds)?, None);
    for (name, path) in [(BARE_ONE, bare::ONE), (BARE_LIST, bare::LIST)] {
        let outcome = options.load(connections, None).run(&bare.target(path))?;
        ensure!(outcome.errors == 0, "the bare handler: {}", outcome.first_error.unwrap_or_default());
        let ran = Ran { rate: outcome.rate(), busy: outcome.cores.map(|cores| cores.busy) };
        findings.add_limit(name, connections, ran, outcome.cores);
    }
    Ok(())
}

/// One round of a row on clusters of one store, if it is wanted.
pub(crate) fn clusters(
    options: &Options,
    findings: &mut Findings,
    subject: &Subject,
    verb: Verb,
    connections: usize,
) -> Result<()> {
    let operation = Operation::Cluster(verb);
    if options.measures_with(subject.store, operation, connections) && subject.is_enough_for(verb) {
        let outcome = options.load(connections, options.rate).run(&subject.target(verb)?)?;
        keep(findings, subject.store, operation, connections, outcome);
    }
    Ok(())
}

/// One round of a row on reports of one store, if it is wanted.
pub(crate) async fn reports(
    options: &Options,
    findings: &mut Findings,
    reporting: &Reporting,
    moves: Moves,
    connections: usize,
) -> Result<()> {
    let operation = Operation::Report(moves);
    if options.measures_with(reporting.store, operation, connections) {
        let before = reporting.views().await;
        let mut outcome = options.load(connections, options.rate).run(&reporting.target(moves)?)?;
        let faults = match before {
            Ok(before) => reporting.faults(moves, &before).await,
            Err(fault) => vec![format!("{fault:#}")],
        };
        faults.into_iter().for_each(|fault| outcome.fail(fault));
        keep(findings, reporting.store, operation, connections, outcome);
    }
    Ok(())
}

/// Adds one round to the findings, and says at once what went wrong in it.
fn keep(
    findings: &mut Findings,
    store: &'static str,
    operation: Operation,
    connections: usize,
    outcome: Outcome,
) {
    if let Some(error) = &outcome.first_error {
        eprintln!("{store} {}, first of {} errors: {error}", operation.name(), outcome.errors);
    }
    findings.add(store, operation, connections, outcome);
}

/// Memory and start of one store's server.
pub(crate) async fn figures(findings: &mut Findings, subject: &mut Subject) -> Result<()> {
    let store = subject.store;
    let mut figure = |what: &str, value, unit, at_most| {
        findings.figures.push(Figure { name: format!("{store}: {what}"), value, unit, at_most });
    };
    figure("peak memory under load", subject.peak_memory()? as f64 / MIB, "MiB", None);
    let idle = subject.idle().await?;
    figure("idle memory after start", idle.resident as f64 / MIB, "MiB", Some(IDLE_MEMORY_MIB));
    let starts: Vec<f64> = idle.starts.iter().map(|start| start.as_secs_f64() * 1e3).collect();
    figure("start to ready, existing database", median(&starts), "ms", Some(START_MILLIS));
    Ok(())
}
