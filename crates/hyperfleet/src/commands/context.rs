//! `hyperfleet context`: the servers that were logged in to, and which one is in use.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use super::Failure;
use crate::output;
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::contexts::{Context, Contexts};

pub(crate) fn command() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).help("As it was named at login");
    Command::new("context")
        .about("List the servers you know, and choose one")
        .subcommands([
            Command::new("list").about("List them; * marks the one in use"),
            Command::new("use").about("Use this one from now on").arg(name()),
            Command::new("remove").about("Forget one").arg(name()),
            Command::new("current").about("Print the name of the one in use"),
        ])
        .after_help("Try it:\n  hyperfleet login https://fleet.example.com --name prod --token-file ~/.fleet-token\n  hyperfleet context use prod")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut contexts = Contexts::load()?;
    let name = |matches: &ArgMatches| matches.get_one::<String>("name").cloned().unwrap_or_default();
    match matches.subcommand() {
        Some(("use", matches)) => {
            let name = name(matches);
            let server = contexts.named(&name)?.server.clone();
            contexts.current = Some(name.clone());
            contexts.save()?;
            output::talk(&format!("using {name} ({server})"));
        }
        Some(("remove", matches)) => {
            let name = name(matches);
            contexts.named(&name)?;
            contexts.all.remove(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            contexts.save()?;
            output::talk(&format!("forgot {name}"));
        }
        Some(("current", _)) => match &contexts.current {
            Some(name) => output::data(&format!("{name}\n")),
            None => return Err(Failure::new("no context is in use")),
        },
        _ => list(&contexts),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(contexts: &Contexts) {
    if contexts.all.is_empty() {
        output::talk("none yet; see `hyperfleet login --help`");
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

fn token(context: &Context) -> String {
    match (&context.token_file, context.token_command.as_slice()) {
        (Some(file), _) => format!("file {}", file.display()),
        (None, []) => "none".to_owned(),
        // What a command is given may be a secret.
        (None, _) => "command".to_owned(),
    }
}
