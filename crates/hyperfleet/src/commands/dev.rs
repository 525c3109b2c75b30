//! `hyperfleet dev token`: a token of a local issuer, for trying things out. The token alone goes to standard output, so
//! that a script can take it; what to do with it goes to the terminal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use hyperfleet_auth::dev::{DevIssuer, Grant, ISSUER_URL};
use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};

use super::Failure;
use crate::output;

/// Default directory of the issuer's key.
pub(super) const DIRECTORY: &str = ".hyperfleet";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Token(Token),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Token(token) => token.run(),
        }
    }
}

/// Print a token of a local issuer, for trying things out
///
/// The first call makes the issuer's key. Servers that name its JWKS in server.jwt.configs accept its tokens, and
/// `hyperfleet up --auth` does. Never do that with a server that others can reach.
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet up --auth\n  curl localhost:8000/api/hyperfleet/v1/whoami -H \"Authorization: Bearer $(hyperfleet dev token ann@example.com 2>/dev/null)\""
)]
pub(crate) struct Token {
    /// The identity that the token names
    #[arg(value_name = "IDENTITY", default_value = "dev@localhost")]
    identity: String,
    /// A further claim, such as groups=admins; may be given again
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim)]
    claims: Vec<(String, Value)>,
    /// The audience that the server requires
    #[arg(long, value_name = "TEXT")]
    audience: Option<String>,
    /// How long it is valid [default: 60]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(1..=525_600))]
    minutes: Option<u64>,
    /// Directory of the issuer's key [default: .hyperfleet]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// `NAME=VALUE`, where the value may be JSON, such as a list of groups.
fn claim(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("a claim is written as NAME=VALUE")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

impl Token {
    fn run(self) -> Result<ExitCode, Failure> {
        let directory = self.dir.unwrap_or_else(|| DIRECTORY.into());
        let directory = std::path::absolute(&directory).map_err(Failure::new)?;
        let issuer = DevIssuer::open(&directory, ISSUER_URL).map_err(Failure::new)?;
        let mut grant = Grant::new(self.identity);
        grant.audience = self.audience;
        grant.lifetime = Duration::from_secs(60 * self.minutes.unwrap_or(60));
        grant.claims = together(self.claims);
        let token = issuer.mint(&grant, Timestamp::now()).map_err(Failure::usage)?;
        output::data(&format!("{token}\n"));
        output::message(&format!(
            "\nA server that accepts it (`hyperfleet up --auth` is one) has this in its configuration:\n\n{}",
            issuer.snippet(&grant, None)
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// A name that comes again makes a list.
fn together(given: Vec<(String, Value)>) -> Map<String, Value> {
    let mut claims = Map::new();
    for (name, value) in given {
        match claims.get_mut(&name) {
            None => drop(claims.insert(name, value)),
            Some(Value::Array(list)) => list.push(value),
            Some(one) => *one = Value::Array(vec![one.take(), value]),
        }
    }
    claims
}
