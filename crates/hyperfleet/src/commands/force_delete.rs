//! `hyperfleet force-delete`: removes a resource whose deletion does not come to an end. What its adapters have made may
//! stay behind, so it wants a reason, and asks.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use hyperfleet_client::Request;

use super::apply::dry_run;
use super::{Failure, delete};
use crate::output;
use crate::output::ask::confirm;
use crate::output::paint::{Tone, paint};
use crate::remote::target::{self, Prefer};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("force-delete")
        .about("Remove a resource whose deletion does not come to an end")
        .long_about(
            "Remove a resource whose deletion does not come to an end, with all that is below it, without waiting for \
             its adapters: what they have made may stay behind. The reason is kept in the timeline.",
        )
        .args([
            target::one(),
            target::within(),
            Arg::new("reason").long("reason").value_name("TEXT").required(true).help("Why, for whoever reads the timeline"),
            delete::yes(),
            dry_run(),
        ])
        .after_help("Try it:\n  hyperfleet why cluster prod-1\n  hyperfleet force-delete cluster prod-1 --reason 'the dns adapter is retired'");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = target::single(session, matches, Prefer::Finalizing).await?;
    let reason = matches.get_one::<String>("reason").cloned().unwrap_or_default();
    let dry = matches.get_flag("dry-run");
    let asks = !session.prints_curl() && !dry && !matches.get_flag("yes");
    if asks
        && !confirm(&format!(
            "Remove {} with all below it, and leave behind what its adapters made?",
            found.called()
        ))?
    {
        output::talk("nothing was removed");
        return Ok(ExitCode::SUCCESS);
    }
    if session.call(Request::force_delete(&found.item(), &reason, dry)).await?.is_some() {
        let verb = if dry { "would be removed (dry run)" } else { "removed" };
        output::data(&format!("{} {}\n", found.called(), paint(verb, Tone::Bad, output::data_colours())));
    }
    Ok(ExitCode::SUCCESS)
}
