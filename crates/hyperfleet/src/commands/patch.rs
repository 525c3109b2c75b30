//! `hyperfleet patch`: a merge patch or a JSON Patch on one resource.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use hyperfleet_client::{PatchKind, Request};

use super::apply::dry_run;
use super::{Failure, create};
use crate::output::form::Form;
use crate::remote::resources::{output_argument, print_outcome};
use crate::remote::target::{self, Prefer};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("patch")
        .about("Change a resource by a merge patch or a JSON Patch")
        .args([
            target::one(),
            target::within(),
            Arg::new("patch").short('p').long("patch").value_name("JSON").required_unless_present("file").conflicts_with("file").help("The patch, as JSON or YAML, or @FILE; a list is a JSON Patch"),
            Arg::new("file").short('f').long("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help("The patch from a file, or - for stdin"),
            Arg::new("if-version").long("if-version").value_name("NUMBER").value_parser(value_parser!(u64)).help("Only if the resource still has this version (its ETag)"),
            dry_run(),
            output_argument(),
        ])
        .after_help("Try it:\n  hyperfleet patch cluster prod-1 -p '{\"spec\": {\"region\": \"eu-west-1\"}}'\n  hyperfleet patch cluster prod-1 -p '[{\"op\": \"remove\", \"path\": \"/labels/old\"}]'");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let patch = match (matches.get_one::<String>("patch"), matches.get_one::<PathBuf>("file")) {
        (Some(text), _) => create::value(text, "-p")?,
        (None, Some(path)) => create::value(&create::text_of(path)?, "-f")?,
        (None, None) => return Err(Failure::usage("say the patch by -p or -f")),
    };
    let found = target::single(session, matches, Prefer::Active).await?;
    let version = matches.get_one::<u64>("if-version").copied();
    let kind = if patch.is_array() { PatchKind::Json } else { PatchKind::Merge };
    let dry = matches.get_flag("dry-run");
    if let Some(answer) = session.call(Request::patch(&found.item(), &patch, kind, version, dry)).await? {
        let after = answer.resource()?;
        let same = ["spec", "labels", "references"].iter().all(|member| {
            let (before, after) = (found.resource.raw().get(*member), after.raw().get(*member));
            match (before, after) {
                (Some(before), Some(after)) => hyperfleet_core::same(before, after),
                (before, after) => before == after,
            }
        });
        let verb = if same { "unchanged" } else { verb(dry) };
        print_outcome(&after, verb, matches.get_one::<Form>("output"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What became of a resource that differs now.
pub(crate) fn verb(dry_run: bool) -> &'static str {
    if dry_run { "would be changed (dry run)" } else { "changed" }
}
