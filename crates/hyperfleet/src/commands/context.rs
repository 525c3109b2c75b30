//! `hyperfleet context`: the servers that were logged in to, and which one is in use.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Failure;
use crate::output;
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::contexts::{self, Contexts};

/// List and choose contexts
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet login https://fleet.example.com --name prod --token-file ~/.fleet-token\n  hyperfleet context use prod"
)]
pub(crate) struct Context {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List contexts; * marks the current one
    List,
    /// Make a context the current one
    Use(Name),
    /// Remove a context
    Remove(Name),
    /// Print the name of the current context
    Current,
}

#[derive(Debug, Args)]
struct Name {
    /// Name of the context
    #[arg(value_name = "NAME")]
    name: String,
}

impl Context {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut contexts = Contexts::load()?;
        match self.command {
            None | Some(Command::List) => list(&contexts),
            Some(Command::Use(Name { name })) => {
                let server = contexts.named(&name)?.server.clone();
                contexts.current = Some(name.clone());
                contexts.save()?;
                output::message(&format!("using {name} ({server})"));
            }
            Some(Command::Remove(Name { name })) => {
                contexts.named(&name)?;
                contexts.all.remove(&name);
                contexts.current = contexts.current.filter(|current| *current != name);
                contexts.save()?;
                output::message(&format!("removed {name}"));
            }
            Some(Command::Current) => match &contexts.current {
                Some(name) => output::data(&format!("{name}\n")),
                None => return Err(Failure::new("no context is in use")),
            },
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(contexts: &Contexts) {
    if contexts.all.is_empty() {
        output::message("none yet; see `hyperfleet login --help`");
        return;
    }
    let mut table = Table::new(&["", "name", "server", "token"]);
    for (name, context) in &contexts.all {
        let used = contexts.current.as_ref() == Some(name);
        table.row(vec![
            Cell::new(if used { "*" } else { " " }, Tone::Good),
            Cell::new(name, Tone::Strong),
            context.server.as_str().into(),
            token(context).into(),
        ]);
    }
    output::data(&table.render(output::data_colours()));
}

fn token(context: &contexts::Context) -> String {
    match (&context.token_file, context.token_command.as_slice()) {
        (Some(file), _) => format!("file {}", file.display()),
        (None, []) => "none".to_owned(),
        // Arguments of a command may be secrets.
        (None, _) => "command".to_owned(),
    }
}
