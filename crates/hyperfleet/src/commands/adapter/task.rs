//! The task file of a command.

use std::path::PathBuf;

use clap::Args;
use hyperfleet_adapter::Config;
use hyperfleet_adapter::task::{Finding, Loaded, Options, Severity, Task};
use hyperfleet_service::settings::environment;

use super::super::Failure;
use crate::output;

/// `--task-config`.
#[derive(Debug, Args)]
pub(super) struct TaskFile {
    /// File with what to do for a resource [default: $HYPERFLEET_TASK_CONFIG]
    #[arg(short = 't', long = "task-config", value_name = "FILE")]
    task: Option<PathBuf>,
}

impl TaskFile {
    pub(super) fn path(&self) -> Result<PathBuf, Failure> {
        let variables = environment();
        let named = variables.get("HYPERFLEET_TASK_CONFIG").filter(|file| !file.is_empty());
        let file = self.task.clone().or_else(|| named.map(PathBuf::from));
        file.ok_or_else(|| Failure::usage("a task file is required: name it with --task-config"))
    }

    /// Reads the file, with everything that is found in it.
    pub(super) fn read(&self, config: &Config) -> Result<Loaded, Failure> {
        Ok(Task::load(&self.path()?, &Options { as_go: config.as_go, ..Options::default() }))
    }

    /// Reads the file. Warnings go to stderr, errors end the command.
    pub(super) fn load(&self, config: &Config) -> Result<Task, Failure> {
        let loaded = self.read(config)?;
        let is_error = |finding: &&Finding| finding.severity == Severity::Error;
        match loaded.task {
            Some(task) => {
                for finding in &loaded.findings {
                    output::message(&finding.to_string());
                }
                Ok(task)
            }
            None => {
                let errors = loaded.findings.iter().filter(is_error).map(|finding| format!("\n  {finding}"));
                Err(Failure::usage(format!("the task cannot run:{}", errors.collect::<String>())))
            }
        }
    }
}
