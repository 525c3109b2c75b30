//! `hyperfleet dev token`: a token of a local issuer, for trying things out. The token alone goes to standard output, so
//! that a script can take it; what to do with it goes to the terminal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};

use super::Failure;
use crate::output;

/// Where the issuer keeps its key unless told otherwise.
pub(super) const DIRECTORY: &str = ".hyperfleet";

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("token", matches)) => token(matches),
        _ => Err(Failure::usage("no such command; see hyperfleet dev --help")),
    }
}

fn token(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let directory = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_else(|| DIRECTORY.into());
    let directory = std::path::absolute(&directory).map_err(Failure::new)?;
    let issuer = DevIssuer::open(&directory, ISSUER_URL).map_err(Failure::new)?;
    let mut grant = Grant::new(text("identity").unwrap_or_default());
    grant.audience = text("audience");
    grant.lifetime = Duration::from_secs(60 * matches.get_one::<u64>("minutes").copied().unwrap_or(60));
    grant.claims = claims(matches.get_many::<String>("claim").into_iter().flatten())?;
    let token = issuer.mint(&grant, Timestamp::now()).map_err(Failure::usage)?;
    output::data(&format!("{token}\n"));
    output::talk(&format!(
        "\nA server that accepts it (`hyperfleet up --auth` is one) has this in its configuration:\n\n{}",
        issuer.snippet(&grant, None)
    ));
    Ok(ExitCode::SUCCESS)
}

/// `name=value`, where the value may be JSON, such as a list of groups; a name that comes again makes a list.
fn claims<'a>(given: impl Iterator<Item = &'a String>) -> Result<Map<String, Value>, Failure> {
    let mut claims = Map::new();
    for claim in given {
        let (name, value) = claim
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--claim takes name=value, not '{claim}'")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        match claims.get_mut(name) {
            None => drop(claims.insert(name.to_owned(), value)),
            Some(Value::Array(list)) => list.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
        }
    }
    Ok(claims)
}
