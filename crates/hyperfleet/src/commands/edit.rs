//! `hyperfleet edit`: a resource in the user's editor. The patch is bound to the version that was opened, so that no
//! concurrent change is overwritten, and the edited text survives every failure.

mod file;
mod text;

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{Error, PatchKind, Request, Resource};
use hyperfleet_service::settings;
use hyperfleet_service::shutdown::signals;

use super::{Exit, Failure};
use crate::output::format::{self, Format};
use crate::remote::Session;
use crate::remote::owners::Owners;
use crate::remote::resources::{UNCHANGED, print_outcome};
use crate::remote::target::{self, FoundResource, Prefer};

use file::Draft;

/// Change a resource in your editor
///
/// The editor is the one that $VISUAL or $EDITOR names; labels, spec and references can be changed. A change that
/// was made meanwhile is never overwritten: your text is then kept in a file, and the message names the file.
#[derive(Debug, Args)]
#[command(after_help = "Try it:\n  EDITOR=nano hyperfleet edit cluster prod-1")]
pub(crate) struct Edit {
    #[command(flatten)]
    target: target::One,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Edit {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let found = self.target.find(session, Prefer::Active).await?;
        // Items of a list have no entity tag.
        let there = session.fetch(Request::get(found.item().to_string())).await?.resource()?;
        let Some(etag) = there.etag() else {
            return Err(Failure::new(
                "the server returns no entity tags, so an edit could overwrite another change; use `patch`",
            ));
        };
        let format = self.output.as_ref();
        let owners = Owners::of(session, std::slice::from_ref(&there)).await?;
        let original = text::written(&there, &owners);
        let mut draft =
            Draft::new(&text::file_name(&there), &format!("{}{original}", text::heading(&there)))?;
        let mut complaint: Option<Failure> = None;
        // Ctrl-C is for the editor while that is open, and never a reason to lose the text.
        let mut signals = signals().map_err(Failure::new)?;
        loop {
            let before = match draft.show(complaint.as_ref().map(|failure| failure.text.as_str())) {
                Ok(before) => before,
                Err(failure) => return Err(draft.kept_after(failure)),
            };
            let edited = file::edit(&editor(), draft.path(), &mut signals).await;
            let after = match (edited, draft.read()) {
                (Ok(()), Ok(after)) => after,
                (Err(failure), Ok(after)) if after == before => return Err(failure),
                // An unreadable text, such as one in another encoding, is kept too.
                (Err(failure), _) | (Ok(()), Err(failure)) => return Err(draft.kept_after(failure)),
            };
            if after == before {
                return match complaint {
                    None => unchanged(&there, format),
                    Some(failure) => Err(draft.kept_after(failure)),
                };
            }
            let patch = match text::patch(&original, &after) {
                Ok(None) => return unchanged(&there, format),
                Ok(Some(patch)) => patch,
                Err(fault) => {
                    complaint = Some(Failure::usage(fault));
                    continue;
                }
            };
            let request = Request::patch(&found.item(), &patch, PatchKind::Json, Some(etag), false);
            let sent = tokio::select! {
                sent = session.call(request) => sent,
                signal = signals.next() => {
                    let text = format!("stopped by {signal}; the change may have been sent");
                    return Err(draft.kept_after(Failure { text, code: signal.exit_code() }));
                }
            };
            match sent {
                Ok(None) => return Ok(ExitCode::SUCCESS),
                Ok(Some(answer)) => {
                    print_outcome(&answer.resource()?, "changed", format)?;
                    return Ok(ExitCode::SUCCESS);
                }
                // The user can correct the text in the editor.
                Err(error) if error.status() == Some(400) => complaint = Some(error.into()),
                Err(error) => return Err(refused(&found, error, &mut draft)),
            }
        }
    }
}

fn unchanged(resource: &Resource, format: Option<&Format>) -> Result<ExitCode, Failure> {
    print_outcome(resource, UNCHANGED, format)?;
    Ok(ExitCode::SUCCESS)
}

/// A version conflict is a concurrent change.
fn refused(found: &FoundResource, error: Error, draft: &mut Draft) -> Failure {
    if error.problem().is_none_or(|problem| problem.actual_version.is_none()) {
        return draft.kept_after(error.into());
    }
    let display_name = found.display_name();
    let failure = Failure::with(
        Exit::Conflict,
        format!("{display_name} was changed while you edited it; nothing was sent"),
    );
    let mut failure = draft.kept_after(failure);
    failure.text.push_str(&format!(
        "\n  hyperfleet diff -f {} shows how it differs from what is there now",
        draft.path().display()
    ));
    failure
}

/// The user's editor, as a shell command.
fn editor() -> String {
    let environment = settings::environment();
    let named = ["VISUAL", "EDITOR"].iter().filter_map(|name| environment.get(*name));
    named.map(|editor| editor.trim()).find(|editor| !editor.is_empty()).unwrap_or("vi").to_owned()
}
