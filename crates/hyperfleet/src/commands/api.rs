//! `hyperfleet api`: any request to the API, with the session's server, token and headers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_client::Request;
use serde_json::Value;

use super::{Failure, create};
use crate::output::{self, json, text};
use crate::remote::failure::of_status;
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("api")
        .about("Send any request to the API")
        .args([
            Arg::new("method").value_name("METHOD").required(true).help("GET, POST, PUT, PATCH, DELETE …"),
            Arg::new("path").value_name("PATH").required(true).help("Below /api/hyperfleet/v1, with its query, such as '/clusters?pageSize=5'"),
            Arg::new("data").short('d').long("data").value_name("TEXT").help("The body, or @FILE, or @- for stdin"),
            Arg::new("content-type").long("content-type").value_name("TYPE").help("Media type of the body [default: application/json; of PATCH application/merge-patch+json]"),
            Arg::new("include").short('i').long("include").action(ArgAction::SetTrue).help("Also print status and headers, on stderr"),
        ])
        .after_help("Try it:\n  hyperfleet api GET '/clusters?total=none&fields=name'\n  hyperfleet api POST /clusters -d '{\"kind\": \"Cluster\", \"name\": \"east\", \"spec\": {}}'");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let method = word("method").unwrap_or_default().to_ascii_uppercase();
    let method = method.parse().map_err(|_| Failure::usage(format!("{method:?} is no method")))?;
    let path = word("path").unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut request = Request::new(method, path);
    if let Some(data) = word("data") {
        let body = match data.strip_prefix('@') {
            Some(file) => create::text_of(&PathBuf::from(file))?,
            None => data.to_owned(),
        };
        request.body = Some(body.into_bytes().into());
        let usual = if request.method.as_str() == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let media_type = word("content-type").unwrap_or(usual);
        let value =
            media_type.parse().map_err(|_| Failure::usage(format!("{media_type:?} is no media type")))?;
        request.headers.insert("content-type", value);
    }
    if session.prints_curl() {
        session.call(request).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = session.send(request).await?;
    if matches.get_flag("include") {
        output::talk(&format!("HTTP {}", answer.status));
        for (name, value) in &answer.headers {
            output::talk(&format!("{name}: {}", text::clean(&String::from_utf8_lossy(value.as_bytes()))));
        }
    }
    output::data(&shown(&answer.body));
    Ok(if answer.status.is_success() { ExitCode::SUCCESS } else { of_status(answer.status.as_u16()).into() })
}

/// The body as it came for programs; for people indented and without what a terminal would act on.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if !output::data_on_terminal() {
        return text.into_owned();
    }
    let mut text = match serde_json::from_slice::<Value>(body) {
        Ok(value) => json::pretty(&value),
        Err(_) => text::clean_lines(&text).into_owned(),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
