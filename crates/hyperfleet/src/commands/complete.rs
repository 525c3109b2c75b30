//! Completion. The scripts are a few lines for each shell that ask `hyperfleet __complete`; what can come next is
//! decided here, for all shells alike: commands, flags and their values from the command line's own table, kinds and
//! names from the server. A server that is slow or not there costs a moment and completes nothing.

mod candidates;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::Failure;
use crate::output;
use crate::output::text::clean;
use crate::remote::Session;
use candidates::{Candidate, Question, Wish};

/// A person has a finger on the key.
const PATIENCE: Duration = Duration::from_millis(800);

const BASH: &str = include_str!("complete/bash.sh");
const ZSH: &str = include_str!("complete/zsh.sh");
const FISH: &str = include_str!("complete/fish.fish");
const POWERSHELL: &str = include_str!("complete/powershell.ps1");

/// `hyperfleet completion`.
pub(crate) fn script_command() -> Command {
    Command::new("completion")
        .about("Print a completion script for your shell, with live names of resources")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(["bash", "fish", "powershell", "zsh"])
                .help("The shell"),
        )
        .after_help("Try it:\n  source <(hyperfleet completion bash)                                    # or in ~/.bashrc\n  hyperfleet completion zsh > \"${fpath[1]}/_hyperfleet\"\n  hyperfleet completion fish > ~/.config/fish/completions/hyperfleet.fish\n  hyperfleet completion powershell | Out-String | Invoke-Expression")
}

/// `hyperfleet __complete`, which the scripts call.
pub(crate) fn command() -> Command {
    Command::new("__complete").about("What can come next, for completion scripts").hide(true).arg(
        Arg::new("words")
            .action(ArgAction::Append)
            .num_args(0..)
            .allow_hyphen_values(true)
            .trailing_var_arg(true),
    )
}

/// Prints a script.
pub(crate) fn script(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    output::data(match matches.get_one::<String>("shell").map(String::as_str) {
        Some("bash") => BASH,
        Some("zsh") => ZSH,
        Some("fish") => FISH,
        _ => POWERSHELL,
    });
    Ok(ExitCode::SUCCESS)
}

/// Prints what can come next, one candidate per line with its meaning behind a tab. It never fails: a person who presses
/// a key wants no error.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let words: Vec<String> = matches.get_many("words").into_iter().flatten().cloned().collect();
    let mut whole = crate::cli::command();
    whole.build();
    let question = candidates::question(&whole, &words);
    let found = match &question.wish {
        Wish::Known(candidates) => candidates.clone(),
        wish => live(&question, wish).unwrap_or_default(),
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

/// What only the server knows.
fn live(question: &Question, wish: &Wish) -> Result<Vec<Candidate>, Failure> {
    let session = Session::hasty(question.server.as_deref(), question.context.as_deref(), PATIENCE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    runtime.block_on(async {
        let asked = candidates::ask(&session, wish, &question.partial);
        tokio::time::timeout(2 * PATIENCE, asked).await.map_err(Failure::new)?
    })
}
