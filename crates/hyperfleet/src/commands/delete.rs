//! `hyperfleet delete`: shows everything below the resources, asks for confirmation, and requests the deletion.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Request;

use super::apply::{DRY_RUN, common_exit, print_failure};
use super::wait::{self, Awaited, Timeout};
use super::{Failure, tree};
use crate::output;
use crate::output::confirm::confirm;
use crate::output::paint::{Tone, paint};
use crate::output::tree::Branch;
use crate::remote::Session;
use crate::remote::target::selection::{self, Selection};
use crate::remote::target::{FoundResource, Within};

/// Delete resources with everything below them, after confirmation
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet delete cluster prod-1 --wait\n  hyperfleet delete clusters -l environment=dev -y"
)]
pub(crate) struct Delete {
    /// KIND NAME..., KIND/NAME..., or a KIND with -l, --search or --all
    #[arg(value_name = "WHAT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    selection: Selection,
    #[arg(long, short, help = YES)]
    yes: bool,
    /// Wait until they are gone
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    timeout: Timeout,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
}

/// Help of `--yes`.
pub(crate) const YES: &str = "Do not ask";

impl Delete {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = selection::found(session, &self.words, &self.within, &self.selection).await?;
        let dry = self.dry_run;
        if found.is_empty() {
            output::message("nothing found");
            return Ok(ExitCode::SUCCESS);
        }
        if !session.prints_curl() && !dry && !self.yes {
            let (roots, size) = preview(session, &found).await?;
            for root in &roots {
                output::message(root.render(output::message_colours()).trim_end());
            }
            let question = match size {
                1 => format!("Delete {}?", found[0].display_name()),
                size => format!("Delete these {size} resources?"),
            };
            if !confirm(&question)? {
                output::message("nothing was deleted");
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
                    output::data(&format!("{} {verb}\n", one.display_name()));
                    asked.push(one);
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    if alone {
                        return Err(failure);
                    }
                    print_failure(&one.display_name(), &failure);
                    failures.push(failure.code);
                }
            }
        }
        if self.wait && !dry {
            failures.extend(wait::all(session, &asked, &Awaited::Deletion, self.timeout.timeout).await?);
        }
        Ok(common_exit(&failures))
    }
}

/// The trees that would go, and how many resources they are.
async fn preview(session: &Session, found: &[FoundResource]) -> Result<(Vec<Branch>, usize), Failure> {
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
    found: &'a FoundResource,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Branch, Failure>> + 'a>> {
    Box::pin(async move {
        let mut branch = Branch::new(found.display_name());
        for kind in session.kinds().await?.children(&found.kind.kind) {
            for resource in tree::children(session, found, kind).await? {
                let child = FoundResource { kind: kind.clone(), resource };
                branch.below.push(below(session, &child).await?);
            }
        }
        Ok(branch)
    })
}
