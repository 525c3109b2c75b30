//! `hyperfleet delete`: shows what goes with it, asks, and asks the server for the deletion.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_client::Request;

use super::apply::{common_exit, dry_run, tell_failure};
use super::wait::{self, Awaited};
use super::{Failure, tree};
use crate::output;
use crate::output::ask::confirm;
use crate::output::paint::{Tone, paint};
use crate::output::tree::Branch;
use crate::remote::target::{self, Found, selection};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("delete")
        .about("Delete resources with what is below them, after a look and a question")
        .args([
            target::words("KIND NAME..., KIND/NAME..., or a KIND with -l, --search or --all"),
            target::within(),
        ])
        .args(selection::arguments())
        .args([
            yes(),
            Arg::new("wait").long("wait").action(ArgAction::SetTrue).help("Wait until they are gone"),
            wait::timeout(),
            dry_run(),
        ])
        .after_help("Try it:\n  hyperfleet delete cluster prod-1 --wait\n  hyperfleet delete clusters -l environment=dev -y");
    session::arguments(command)
}

/// `-y`.
pub(crate) fn yes() -> Arg {
    Arg::new("yes").short('y').long("yes").action(ArgAction::SetTrue).help("Do not ask")
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let words: Vec<String> = matches.get_many("what").into_iter().flatten().cloned().collect();
    let found = selection::found(session, matches, &words).await?;
    let dry = matches.get_flag("dry-run");
    if found.is_empty() {
        output::talk("nothing found");
        return Ok(ExitCode::SUCCESS);
    }
    if !session.prints_curl() && !dry && !matches.get_flag("yes") {
        let (roots, size) = preview(session, &found).await?;
        for root in &roots {
            output::talk(root.render(output::talk_colours()).trim_end());
        }
        let question = match size {
            1 => format!("Delete {}?", found[0].called()),
            size => format!("Delete these {size} resources?"),
        };
        if !confirm(&question)? {
            output::talk("nothing was deleted");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let alone = found.len() == 1;
    let mut failures = Vec::new();
    let mut asked = Vec::new();
    for one in found {
        match session.call(Request::delete(&one.item(), None, dry)).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let verb = if dry { "would be deleted (dry run)" } else { "deletion requested" };
                let verb = paint(verb, Tone::Pending, output::data_colours());
                output::data(&format!("{} {verb}\n", one.called()));
                asked.push(one);
            }
            Err(error) => {
                let failure = Failure::from(error);
                if alone {
                    return Err(failure);
                }
                tell_failure(&one.called(), &failure);
                failures.push(failure.code);
            }
        }
    }
    if matches.get_flag("wait") && !dry {
        let timeout = matches.get_one::<Duration>("timeout").copied().unwrap_or_default();
        failures.extend(wait::all(session, &asked, &Awaited::Deletion, timeout).await?);
    }
    Ok(common_exit(&failures))
}

/// The trees that would go, and how many resources they are.
async fn preview(session: &Session, found: &[Found]) -> Result<(Vec<Branch>, usize), Failure> {
    let mut roots = Vec::new();
    for one in found {
        roots.push(below(session, one).await?);
    }
    let size = roots.iter().map(Branch::size).sum();
    Ok((roots, size))
}

/// A resource with all that is below it. Boxed, because it nests as deep as the kinds do.
fn below<'a>(
    session: &'a Session,
    found: &'a Found,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Branch, Failure>> + 'a>> {
    Box::pin(async move {
        let mut branch = Branch::new(found.called());
        for kind in session.kinds().await?.children(&found.kind.kind) {
            for resource in tree::children(session, found, kind).await? {
                let child = Found { kind: kind.clone(), resource };
                branch.below.push(below(session, &child).await?);
            }
        }
        Ok(branch)
    })
}
