//! `hyperfleet login`: saves a server and the source of its token under a name, after a test connection.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Failure;
use crate::output;
use crate::remote::Session;
use crate::remote::contexts::{Context, Contexts};
use crate::remote::session::{header, settings_of};

/// Save a server and its credentials as a context, and use it
#[derive(Debug, Args)]
#[command(
    after_help = "Contexts are kept in ~/.config/hyperfleet/config.yaml, or where HYPERFLEET_CONTEXTS says. No token is kept there.\n\nTry it:\n  hyperfleet login https://fleet.example.com --name prod --token-command 'gcloud auth print-identity-token'\n  hyperfleet login http://localhost:8000 --token-command 'hyperfleet dev token me@example.com 2>/dev/null'"
)]
pub(crate) struct Login {
    /// The server, such as https://fleet.example.com
    #[arg(value_name = "URL")]
    url: String,
    /// Name of the context [default: its host]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The file with the token, read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "token_command")]
    token_file: Option<PathBuf>,
    /// A shell command that prints a token
    #[arg(long, value_name = "COMMAND")]
    token_command: Option<String>,
    /// Certificate authorities in PEM, instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A header of every request, such as one that names a tenant; may be given again
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Save without connecting
    #[arg(long)]
    unchecked: bool,
}

impl Login {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let absolute = |path: PathBuf| std::path::absolute(path).map_err(Failure::new);
        let context = Context {
            server: self.url,
            token_file: self.token_file.map(absolute).transpose()?,
            token_command: self
                .token_command
                .map(|line| vec!["sh".to_owned(), "-c".to_owned(), line])
                .unwrap_or_default(),
            ca_file: self.ca_file.map(absolute).transpose()?,
            headers: self.header.into_iter().collect(),
        };
        let session = Session::new(settings_of(&context), false, false)?;
        let identity = if self.unchecked { None } else { Some(identity(&session)?) };
        let name = self.name.unwrap_or_else(|| host(&session.client.base_url()));
        let mut contexts = Contexts::load()?;
        contexts.all.insert(name.clone(), context);
        contexts.current = Some(name.clone());
        let path = contexts.save()?;
        let who = identity.map(|who| format!(" as {who}")).unwrap_or_default();
        let url = session.client.base_url();
        output::message(&format!("using {name} ({url}){who}; kept in {}", path.display()));
        Ok(ExitCode::SUCCESS)
    }
}

fn identity(session: &Session) -> Result<String, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    let me = runtime.block_on(session.client.whoami())?;
    Ok(me.identity.map_or_else(|| "anonymous".to_owned(), |who| output::text::clean(&who).into_owned()))
}

/// `fleet.example.com` of `https://fleet.example.com/x`.
fn host(base_url: &str) -> String {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest).to_owned()
}
