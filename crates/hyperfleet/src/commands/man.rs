//! `hyperfleet man`: the manual, made from the same table of commands as the help.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory as _};

use super::Failure;
use crate::cli::Cli;
use crate::output;

/// Print a page of the manual, or write all pages to a directory
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet man get | man -l -\n  hyperfleet man --dir ~/.local/share/man/man1"
)]
pub(crate) struct Man {
    /// Write every page there
    #[arg(long, value_name = "DIR", conflicts_with = "page")]
    dir: Option<PathBuf>,
    /// The command; without one the page of hyperfleet itself
    #[arg(value_name = "COMMAND")]
    page: Vec<String>,
}

impl Man {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut whole = Cli::command();
        whole.build();
        if let Some(directory) = &self.dir {
            std::fs::create_dir_all(directory).map_err(Failure::new)?;
            let count = write_all(&whole, "hyperfleet", directory)?;
            output::message(&format!("{count} pages are in {}", directory.display()));
            return Ok(ExitCode::SUCCESS);
        }
        let mut command = &whole;
        let mut name = "hyperfleet".to_owned();
        for word in &self.page {
            command = command
                .get_subcommands()
                .find(|known| known.get_name() == word)
                .ok_or_else(|| Failure::usage(format!("no such command: {word}")))?;
            name = format!("{name}-{word}");
        }
        output::data(&page(command, &name)?);
        Ok(ExitCode::SUCCESS)
    }
}

fn page(command: &Command, name: &str) -> Result<String, Failure> {
    let mut page = Vec::new();
    let command = command.clone().name(name.to_owned()).version(env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(command).render(&mut page).map_err(Failure::new)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write_all(command: &Command, name: &str, directory: &std::path::Path) -> Result<usize, Failure> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        count += write_all(below, &format!("{name}-{}", below.get_name()), directory)?;
    }
    Ok(count)
}
