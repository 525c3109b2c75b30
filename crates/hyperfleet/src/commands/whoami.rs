//! `hyperfleet whoami`: the identity that the server sees.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{Request, WhoAmI};
use serde_json::Value;

use super::Failure;
use crate::output;
use crate::output::format::{self, Format};
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::Session;
use crate::remote::resources::brief;

/// Show the identity that the server sees
#[derive(Debug, Args)]
pub(crate) struct Whoami {
    #[arg(long, short, value_name = "FORMAT", value_parser = Format::of_data, help = format::DATA_HELP)]
    output: Option<Format>,
}

impl Whoami {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let Some(answer) = session.call(Request::get("/whoami")).await? else { return Ok(ExitCode::SUCCESS) };
        let value: Value = answer.json()?;
        if let Some(text) = self.output.as_ref().and_then(|format| format.value(&value)) {
            output::data(&text.map_err(Failure::usage)?);
            return Ok(ExitCode::SUCCESS);
        }
        let me: WhoAmI = answer.json()?;
        let mut table = Table::new(&["", ""]);
        let mut row = |what: &str, value: &str| table.row(vec![Cell::new(what, Tone::Strong), value.into()]);
        row("Server:", &session.client.base_url());
        row("Identity:", me.identity.as_deref().unwrap_or("anonymous"));
        if me.system {
            row("System:", "yes");
        }
        for (key, value) in me.tenant.iter().flatten() {
            row("Tenant:", &format!("{key}={}", brief(value)));
        }
        if let Some(roles) = &me.roles {
            row("Roles:", &roles.join(", "));
        }
        output::data(&table.render_rows("", output::data_colours()));
        Ok(ExitCode::SUCCESS)
    }
}
