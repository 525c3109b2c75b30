//! `hyperfleet statuses`: what the adapters reported on a resource.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use hyperfleet_client::{AdapterReport, Request};
use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::{Failure, describe};
use crate::output;
use crate::output::form::Form;
use crate::remote::resources::output_argument;
use crate::remote::target::{self, Prefer};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("statuses")
        .about("Show what the adapters reported on a resource")
        .args([target::one(), target::within(), output_argument()])
        .after_help("Try it:\n  hyperfleet statuses cluster prod-1 -o yaml");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = target::single(session, matches, Prefer::Active).await?;
    let request = Request::get(found.item().statuses());
    if session.prints_curl() {
        session.call(request).await?;
        return Ok(ExitCode::SUCCESS);
    }
    match matches.get_one::<Form>("output") {
        Some(form @ (Form::Json | Form::Yaml | Form::JsonPath(_))) => {
            let page = session.pages::<Value>(request, None).await?;
            if let Some(text) = form.value(&json!({"kind": "AdapterStatusList", "items": page.items})) {
                output::data(&text.map_err(Failure::usage)?);
            }
        }
        Some(Form::Name) => {
            let page = session.pages::<AdapterReport>(request, None).await?;
            let names: String = page
                .items
                .iter()
                .map(|report| format!("{}\n", output::text::clean(report.adapter())))
                .collect();
            output::data(&names);
        }
        _ => {
            let page = session.pages::<AdapterReport>(request, None).await?;
            if page.items.is_empty() {
                output::talk("no adapter has reported yet");
            } else {
                output::data(
                    &describe::reports_table(&page.items, Timestamp::now()).render(output::data_colours()),
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
