//! `hyperfleet login`: remembers a server by a name, with where its token is found, after trying that it works.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::Failure;
use crate::output;
use crate::remote::Session;
use crate::remote::contexts::{Context, Contexts};
use crate::remote::session::settings_of;

pub(crate) fn command() -> Command {
    Command::new("login")
        .about("Remember a server and how to be known to it, and use it from now on")
        .args([
            Arg::new("url").value_name("URL").required(true).help("The server, such as https://fleet.example.com"),
            Arg::new("name").long("name").value_name("NAME").help("What to call it [default: its host]"),
            Arg::new("token-file").long("token-file").value_name("FILE").value_parser(value_parser!(PathBuf)).conflicts_with("token-command").help("The file with the token, read again when it changes"),
            Arg::new("token-command").long("token-command").value_name("COMMAND").help("A shell command that prints a token"),
            Arg::new("ca-file").long("ca-file").value_name("FILE").value_parser(value_parser!(PathBuf)).help("Authorities to trust instead of the system's, in PEM"),
            Arg::new("header").long("header").short('H').value_name("NAME: VALUE").action(ArgAction::Append).help("A header of every request, such as one that names a tenant; may be given again"),
            Arg::new("unchecked").long("unchecked").action(ArgAction::SetTrue).help("Do not try whether it works"),
        ])
        .after_help("Contexts are kept in ~/.config/hyperfleet/config.yaml, or where HYPERFLEET_CONTEXTS says. No token is kept there.\n\nTry it:\n  hyperfleet login https://fleet.example.com --name prod --token-command 'gcloud auth print-identity-token'\n  hyperfleet login http://localhost:8000 --token-command 'hyperfleet dev token me@example.com 2>/dev/null'")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(Failure::new);
    let file = |name: &str| matches.get_one::<PathBuf>(name).map(absolute).transpose();
    let server = text("url").unwrap_or_default();
    let mut context = Context {
        server: server.clone(),
        token_file: file("token-file")?,
        token_command: text("token-command")
            .map(|line| vec!["sh".to_owned(), "-c".to_owned(), line])
            .unwrap_or_default(),
        ca_file: file("ca-file")?,
        headers: std::collections::BTreeMap::new(),
    };
    for header in matches.get_many::<String>("header").into_iter().flatten() {
        let (name, value) =
            header.split_once(':').ok_or_else(|| Failure::usage("a header is written as 'Name: value'"))?;
        context.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let session = Session::new(settings_of(&context), false, false)?;
    let identity = if matches.get_flag("unchecked") { None } else { Some(identity(&session)?) };
    let name = text("name").unwrap_or_else(|| host(&session.client.base_url()));
    let mut contexts = Contexts::load()?;
    contexts.all.insert(name.clone(), context);
    contexts.current = Some(name.clone());
    let path = contexts.save()?;
    let who = identity.map(|who| format!(" as {who}")).unwrap_or_default();
    output::talk(&format!("using {name} ({}){who}; kept in {}", session.client.base_url(), path.display()));
    Ok(ExitCode::SUCCESS)
}

fn identity(session: &Session) -> Result<String, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    let me = runtime.block_on(session.client.whoami())?;
    Ok(me
        .identity
        .map_or_else(|| "nobody in particular".to_owned(), |who| output::text::clean(&who).into_owned()))
}

/// `fleet.example.com` of `https://fleet.example.com/x`.
fn host(base_url: &str) -> String {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest).to_owned()
}
