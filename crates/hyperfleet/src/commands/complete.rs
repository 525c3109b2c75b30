//! Completion. The scripts are a few lines for each shell that ask `hyperfleet __complete`; what can come next is
//! decided here, for all shells alike: commands, flags and their values from the command line's own table, kinds and
//! names from the server. A slow or absent server completes nothing.

mod candidates;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, ValueEnum};

use super::Failure;
use crate::cli::Cli;
use crate::output;
use crate::output::text::clean;
use crate::remote::Session;
use candidates::{Candidate, Expected, Question};

/// A user waits for the completion.
const PATIENCE: Duration = Duration::from_millis(800);

const BASH: &str = include_str!("complete/bash.sh");
const ZSH: &str = include_str!("complete/zsh.sh");
const FISH: &str = include_str!("complete/fish.fish");
const POWERSHELL: &str = include_str!("complete/powershell.ps1");

/// Print a completion script for your shell, with live names of resources
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  source <(hyperfleet completion bash)                                    # or in ~/.bashrc\n  hyperfleet completion zsh > \"${fpath[1]}/_hyperfleet\"\n  hyperfleet completion fish > ~/.config/fish/completions/hyperfleet.fish\n  hyperfleet completion powershell | Out-String | Invoke-Expression"
)]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Powershell,
    Zsh,
}

impl Completion {
    /// Prints a script.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        output::data(match self.shell {
            Shell::Bash => BASH,
            Shell::Fish => FISH,
            Shell::Powershell => POWERSHELL,
            Shell::Zsh => ZSH,
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// What can come next, for completion scripts
#[derive(Debug, Args)]
pub(crate) struct Complete {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

impl Complete {
    /// Prints what can come next, one candidate per line with its meaning behind a tab. It never fails: a user who presses
    /// a key expects no error.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut whole = Cli::command();
        whole.build();
        let question = candidates::question(&whole, &self.words);
        let found = match &question.expected {
            Expected::Values(candidates) => candidates.clone(),
            expected => live(&question, expected).unwrap_or_default(),
        };
        let lines: String = found
            .iter()
            .filter(|candidate| candidate.value.starts_with(&question.partial))
            .map(|Candidate { value, meaning }| match meaning.is_empty() {
                true => format!("{}\n", clean(value)),
                false => format!("{}\t{}\n", clean(value), clean(meaning)),
            })
            .collect();
        output::data(&lines);
        Ok(ExitCode::SUCCESS)
    }
}

/// Candidates that only the server has.
fn live(question: &Question, expected: &Expected) -> Result<Vec<Candidate>, Failure> {
    let session = Session::for_completion(question.server.as_deref(), question.context.as_deref(), PATIENCE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    runtime.block_on(async {
        let asked = candidates::ask(&session, expected, &question.partial);
        tokio::time::timeout(2 * PATIENCE, asked).await.map_err(Failure::new)?
    })
}
