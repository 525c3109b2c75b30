//! `hyperfleet api`: any request to the API, with the session's server, token and headers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Request;
use serde_json::Value;

use super::{Failure, create};
use crate::output::{self, json, text};
use crate::remote::Session;
use crate::remote::failure::of_status;

/// Send any request to the API
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet api GET '/clusters?total=none&fields=name'\n  hyperfleet api POST /clusters -d '{\"kind\": \"Cluster\", \"name\": \"east\", \"spec\": {}}'"
)]
pub(crate) struct Api {
    /// GET, POST, PUT, PATCH, DELETE …
    #[arg(value_name = "METHOD")]
    method: String,
    /// Below /api/hyperfleet/v1, with its query, such as '/clusters?pageSize=5'
    #[arg(value_name = "PATH")]
    path: String,
    /// The body, or @FILE, or @- for stdin
    #[arg(long, short, value_name = "TEXT")]
    data: Option<String>,
    /// Media type of the body [default: application/json; of PATCH application/merge-patch+json]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Also print status and headers, on stderr
    #[arg(long, short)]
    include: bool,
}

impl Api {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let method = self.method.to_ascii_uppercase();
        let method = method.parse().map_err(|_| Failure::usage(format!("{method:?} is not a method")))?;
        let path = format!("/{}", self.path.strip_prefix('/').unwrap_or(&self.path));
        let mut request = Request::new(method, path);
        if let Some(data) = &self.data {
            let body = match data.strip_prefix('@') {
                Some(file) => create::text_of(&PathBuf::from(file))?,
                None => data.clone(),
            };
            request.body = Some(body.into_bytes().into());
            let usual = if request.method.as_str() == "PATCH" {
                "application/merge-patch+json"
            } else {
                "application/json"
            };
            let media_type = self.content_type.as_deref().unwrap_or(usual);
            let value = media_type
                .parse()
                .map_err(|_| Failure::usage(format!("{media_type:?} is not a media type")))?;
            request.headers.insert("content-type", value);
        }
        if session.prints_curl() {
            session.call(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let answer = session.send(request).await?;
        if self.include {
            output::message(&format!("HTTP {}", answer.status));
            for (name, value) in &answer.headers {
                output::message(&format!(
                    "{name}: {}",
                    text::clean(&String::from_utf8_lossy(value.as_bytes()))
                ));
            }
        }
        output::data(&shown(&answer.body));
        Ok(if answer.status.is_success() {
            ExitCode::SUCCESS
        } else {
            of_status(answer.status.as_u16()).into()
        })
    }
}

/// The unchanged body for programs; on a terminal indented and without control characters.
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
