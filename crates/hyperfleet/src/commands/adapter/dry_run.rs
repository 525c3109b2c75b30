//! `hyperfleet adapter dry-run`: one execution of a task against a recorded world.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use hyperfleet_adapter::Config;
use hyperfleet_adapter::engine::Program;
use hyperfleet_adapter::tools::{Trace, World};
use hyperfleet_core::Timestamp;
use hyperfleet_service::settings::environment;

use super::super::Failure;
use super::task::TaskFile;
use crate::cli::configuration::{Adapter, Configuration};
use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Run a task once against recorded answers
///
/// Nothing is connected to: the event, the answers of the API and the objects that applied ones become are files, in the
/// form of the Go adapter. The exit code is 1 when the execution fails.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet adapter dry-run -t task.yaml --dry-run-event event.json --dry-run-api-responses api.json"
)]
pub(crate) struct DryRun {
    #[command(flatten)]
    task: TaskFile,
    /// The event, a CloudEvent in JSON
    #[arg(long = "dry-run-event", alias = "event", value_name = "FILE")]
    event: PathBuf,
    /// Answers of the API by method and URL
    #[arg(long = "dry-run-api-responses", value_name = "FILE")]
    responses: Option<PathBuf>,
    /// Objects that applied ones become, by name
    #[arg(long = "dry-run-discovery", value_name = "FILE")]
    discovery: Option<PathBuf>,
    /// Show manifests and bodies
    #[arg(long = "dry-run-verbose")]
    verbose: bool,
    /// How the trace is written
    #[arg(long = "dry-run-output", value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    configuration: Configuration<Adapter>,
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}

impl DryRun {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        let task = self.task.load(&config)?;
        let responses = self.responses.as_deref().map(read).transpose()?;
        let discovery = self.discovery.as_deref().map(read).transpose()?;
        let mut world = World::read(&read(&self.event)?, responses.as_deref(), discovery.as_deref())
            .map_err(Failure::usage)?;
        world.file_roots = config.roots_of(&self.task.path()?);
        let mut program = Program::new(&config, task, &environment());
        if program.adapter.is_empty() {
            program.adapter = "dry-run".to_owned();
        }
        let finished = world.execute(Arc::new(program), Timestamp::now());
        let trace = Trace {
            event_id: &world.event_id,
            event_type: &world.event_type,
            finished: &finished,
            operations: &world.operations,
            verbose: self.verbose,
        };
        Ok(print(&trace, self.format))
    }
}

/// Prints a trace; the exit code tells whether the execution failed.
pub(super) fn print(trace: &Trace<'_>, format: Format) -> ExitCode {
    match format {
        Format::Text => output::data(&trace.to_text()),
        Format::Json => output::data(&format!("{:#}\n", trace.to_json())),
    }
    ExitCode::from(u8::from(trace.is_failed()))
}
