//! `hyperfleet adapter check`: what is wrong with a task file, and where.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hyperfleet_adapter::Config;
use hyperfleet_adapter::task::Severity;
use serde_json::json;

use super::super::Failure;
use super::task::TaskFile;
use crate::cli::configuration::{Adapter, Configuration};
use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Check a task file
///
/// Every finding has its file, line and column: keys, names in expressions and templates, and files that are referred to.
/// Nothing is connected to. The exit code is 1 when there are errors.
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet adapter check -t adapter-task-config.yaml --strict")]
pub(crate) struct Check {
    #[command(flatten)]
    task: TaskFile,
    /// Take warnings for errors
    #[arg(long)]
    strict: bool,
    /// How findings are written
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
    #[command(flatten)]
    configuration: Configuration<Adapter>,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let config = Config::load(&self.configuration.sources())?;
        let loaded = self.task.read(&config)?;
        match self.output {
            Format::Text => {
                let lines: String = loaded.findings.iter().map(|finding| format!("{finding}\n")).collect();
                output::data(&lines);
            }
            Format::Json => {
                let findings = loaded.findings.iter().map(|finding| {
                    json!({"file": &*finding.file, "line": finding.at.line, "column": finding.at.column,
                           "severity": finding.severity.name(), "code": finding.code, "message": finding.message})
                });
                output::data(&format!("{}\n", json!(findings.collect::<Vec<_>>())));
            }
        }
        let worst = if self.strict { Severity::Warning } else { Severity::Error };
        let is_sound = loaded.findings.iter().all(|finding| finding.severity > worst);
        Ok(ExitCode::from(u8::from(!is_sound)))
    }
}
