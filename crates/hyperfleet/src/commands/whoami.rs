//! `hyperfleet whoami`: whom the server takes us for.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use hyperfleet_client::{Request, WhoAmI};
use serde_json::Value;

use super::Failure;
use crate::output;
use crate::output::form::Form;
use crate::output::paint::Tone;
use crate::output::table::{Cell, Table};
use crate::remote::resources::{brief, data_argument};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    session::arguments(
        Command::new("whoami").about("Show whom the server takes you for").arg(data_argument()),
    )
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let Some(answer) = session.call(Request::get("/whoami")).await? else { return Ok(ExitCode::SUCCESS) };
    let value: Value = answer.json()?;
    if let Some(text) = matches.get_one::<Form>("output").and_then(|form| form.value(&value)) {
        output::data(&text.map_err(Failure::usage)?);
        return Ok(ExitCode::SUCCESS);
    }
    let me: WhoAmI = answer.json()?;
    let mut table = Table::new(&["", ""]);
    let mut row = |what: &str, value: &str| table.row(vec![Cell::new(what, Tone::Strong), value.into()]);
    row("Server:", &session.client.base_url());
    row("Identity:", me.identity.as_deref().unwrap_or("nobody in particular"));
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
