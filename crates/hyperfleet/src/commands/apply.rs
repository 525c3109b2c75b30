//! `hyperfleet apply`: creates and changes resources as documents describe. Owners come before the resources that they
//! own; everything else runs concurrently, within a bound. Running an interrupted apply again continues it: resources in
//! the desired state are left alone, and a creation whose answer was lost is found by its name.

pub(crate) mod desired;
pub(crate) mod plan;
mod progress;
pub(crate) mod write;

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Args, value_parser};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyperfleet_service::shutdown::{Signal, Signals};

use super::{Exit, Failure};
use crate::output;
use crate::remote::Session;
use crate::remote::documents::Files;
use plan::{Lookups, Step};
use progress::Progress;
use write::WriteOptions;

/// Create or change resources as documents describe
///
/// Documents are JSON or YAML, many to a file. A member that a document omits stays as it is, null removes a
/// member, and --replace makes spec, labels and references exactly as written. Owners are created before the
/// resources that they own. It is safe to interrupt and to run again.
#[derive(Debug, Args)]
#[command(
    after_help = "A document:\n  kind: NodePool\n  name: workers\n  owner: cluster/prod-1        # or {kind: Cluster, name: prod-1}\n  labels: {team: blue}\n  spec: {replicas: 3}\n\nTry it:\n  hyperfleet apply -f fleet.yaml\n  hyperfleet get clusters -o yaml | hyperfleet apply -f - --dry-run"
)]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Files,
    /// Remove what the document's spec, labels and references do not have
    #[arg(long)]
    replace: bool,
    /// How many requests may be under way at a time
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u16).range(1..=64), default_value = "8")]
    parallel: u16,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
}

/// Help of `--dry-run`.
pub(crate) const DRY_RUN: &str = "Let the server check everything and change nothing";

impl Apply {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let documents = self.files.read()?;
        let levels = plan::levels(session.kinds().await?, documents)?;
        let options = WriteOptions { dry_run: self.dry_run, replace: self.replace };
        let total = levels.iter().map(Vec::len).sum();
        let signals = hyperfleet_service::shutdown::signals().map_err(Failure::new)?;
        let mut run = Run {
            signals,
            session,
            options,
            parallel: self.parallel.into(),
            lookups: RefCell::new(Lookups::default()),
            progress: Progress::new(total, options.dry_run),
            interrupted: None,
        };
        for level in levels {
            if run.interrupted.is_some() {
                break;
            }
            if let Err(failure) = run.level(level).await {
                run.progress.break_off();
                return Err(failure);
            }
        }
        Ok(run.progress.finish(run.interrupted))
    }
}

struct Run<'a> {
    signals: Signals,
    session: &'a Session,
    options: WriteOptions,
    parallel: usize,
    lookups: RefCell<Lookups>,
    progress: Progress,
    interrupted: Option<Signal>,
}

impl Run<'_> {
    /// Applies documents that do not depend on each other, concurrently.
    async fn level(&mut self, steps: Vec<Step>) -> Result<(), Failure> {
        let (session, options) = (self.session, self.options);
        // Lookups change nothing, so the first signal ends them.
        let existing = tokio::select! {
            existing = write::existing(session, &self.lookups, &steps) => existing?,
            signal = self.signals.next() => {
                self.interrupted = Some(signal);
                return Ok(());
            }
        };
        let lookups = &self.lookups;
        let existing = &existing;
        let mut left = steps.iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.parallel && self.interrupted.is_none() {
                let Some(step) = left.next() else { break };
                under_way
                    .push(async move { (step, write::one(session, lookups, existing, step, options).await) });
            }
            let (step, outcome) = tokio::select! {
                done = under_way.next() => match done {
                    Some(done) => done,
                    None => return Ok(()),
                },
                // The first signal lets requests in flight finish, and starts no others; the second does not wait.
                signal = self.signals.next() => match self.interrupted.replace(signal) {
                    None => {
                        self.progress.interrupt(signal);
                        continue;
                    }
                    Some(_) => return Ok(()),
                },
            };
            self.progress.count(&step.display_name(), &outcome);
        }
    }
}

/// The exit code of several failures: theirs if they agree.
pub(crate) fn common_exit(codes: &[u8]) -> ExitCode {
    match codes {
        [] => ExitCode::SUCCESS,
        [first, rest @ ..] if rest.iter().all(|code| code == first) => ExitCode::from(*first),
        _ => Exit::Failed.into(),
    }
}

/// A failure as one of many.
pub(crate) fn print_failure(display_name: &str, failure: &Failure) {
    output::message(&format!("{} {display_name}: {}", output::red("error:"), failure.text));
}
