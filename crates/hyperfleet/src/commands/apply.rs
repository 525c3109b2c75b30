//! `hyperfleet apply`: makes what documents wish for, creating what is missing and changing what differs. Owners come
//! before what they own; everything else goes side by side, within a bound. Whatever ended it, running it again goes on:
//! what is as wished is left alone, and a creation that nobody heard of is found by its name.

pub(crate) mod plan;
mod progress;
pub(crate) mod wish;
pub(crate) mod write;

use std::cell::RefCell;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyperfleet_service::shutdown::{Signal, Signals};

use super::{Exit, Failure};
use crate::output;
use crate::remote::{Session, documents, session};
use plan::{Known, Step};
use progress::Progress;
use write::Way;

pub(crate) fn command() -> Command {
    let command = Command::new("apply")
        .about("Create or change resources as documents wish")
        .long_about(
            "Create or change resources as documents wish, JSON or YAML, many to a file. What a document does not speak of \
             stays as it is, null removes a member, and --replace makes spec, labels and references exactly as written. \
             Owners are made before what they own. It is safe to interrupt and to run again.",
        )
        .args(documents::arguments())
        .args([
            Arg::new("replace").long("replace").action(ArgAction::SetTrue).help("Remove what the document's spec, labels and references do not have"),
            Arg::new("parallel").long("parallel").value_name("NUMBER").value_parser(value_parser!(u16).range(1..=64)).default_value("8").help("How many requests may be under way at a time"),
            dry_run(),
        ])
        .after_help("A document:\n  kind: NodePool\n  name: workers\n  owner: cluster/prod-1        # or {kind: Cluster, name: prod-1}\n  labels: {team: blue}\n  spec: {replicas: 3}\n\nTry it:\n  hyperfleet apply -f fleet.yaml\n  hyperfleet get clusters -o yaml | hyperfleet apply -f - --dry-run");
    session::arguments(command)
}

/// `--dry-run`.
pub(crate) fn dry_run() -> Arg {
    Arg::new("dry-run")
        .long("dry-run")
        .action(ArgAction::SetTrue)
        .help("Let the server check everything and change nothing")
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let documents = documents::read_all(matches)?;
    let levels = plan::levels(session.kinds().await?, documents)?;
    let way = Way { dry_run: matches.get_flag("dry-run"), replace: matches.get_flag("replace") };
    let parallel = usize::from(matches.get_one::<u16>("parallel").copied().unwrap_or(8));
    let total = levels.iter().map(Vec::len).sum();
    let signals = hyperfleet_service::shutdown::signals().map_err(Failure::new)?;
    let mut run = Run {
        signals,
        session,
        way,
        parallel,
        known: RefCell::new(Known::default()),
        progress: Progress::new(total, way.dry_run),
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

struct Run<'a> {
    signals: Signals,
    session: &'a Session,
    way: Way,
    parallel: usize,
    known: RefCell<Known>,
    progress: Progress,
    interrupted: Option<Signal>,
}

impl Run<'_> {
    /// What needs nothing of each other, side by side.
    async fn level(&mut self, steps: Vec<Step>) -> Result<(), Failure> {
        let (session, way) = (self.session, self.way);
        // To look changes nothing, so the first signal ends it.
        let situation = tokio::select! {
            situation = write::situation(session, &self.known, &steps) => situation?,
            signal = self.signals.next() => {
                self.interrupted = Some(signal);
                return Ok(());
            }
        };
        let known = &self.known;
        let situation = &situation;
        let mut left = steps.iter();
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.parallel && self.interrupted.is_none() {
                let Some(step) = left.next() else { break };
                under_way.push(async move { (step, write::one(session, known, situation, step, way).await) });
            }
            let (step, outcome) = tokio::select! {
                done = under_way.next() => match done {
                    Some(done) => done,
                    None => return Ok(()),
                },
                // The first signal lets what was sent come to its end, and nothing new begins; the second does not wait.
                signal = self.signals.next() => match self.interrupted.replace(signal) {
                    None => {
                        self.progress.interrupt(signal);
                        continue;
                    }
                    Some(_) => return Ok(()),
                },
            };
            self.progress.done(&step.called(), &outcome);
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
pub(crate) fn tell_failure(called: &str, failure: &Failure) {
    output::talk(&format!("{} {called}: {}", output::red("error:"), failure.text));
}
