//! `hyperfleet statuses`: what the adapters reported on a resource.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{AdapterReport, Request};
use hyperfleet_core::Timestamp;
use serde_json::{Value, json};

use super::{Failure, describe};
use crate::output;
use crate::output::format::{self, Format};
use crate::remote::Session;
use crate::remote::target::{self, Prefer};

/// Show what the adapters reported on a resource
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  hyperfleet statuses cluster prod-1 -o yaml")]
pub(crate) struct Statuses {
    #[command(flatten)]
    target: target::One,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Statuses {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        let request = Request::get(found.item().statuses());
        if session.prints_curl() {
            session.call(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        match &self.output {
            Some(format @ (Format::Json | Format::Yaml | Format::JsonPath(_))) => {
                let page = session.pages::<Value>(request, None).await?;
                if let Some(text) = format.value(&json!({"kind": "AdapterStatusList", "items": page.items})) {
                    output::data(&text.map_err(Failure::usage)?);
                }
            }
            Some(Format::Name) => {
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
                    output::message("no adapter has reported yet");
                } else {
                    output::data(
                        &describe::reports_table(&page.items, Timestamp::now())
                            .render(output::data_colours()),
                    );
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
