//! `hyperfleet edit`: a resource in the person's own editor. What is sent is bound to the version that was opened, so
//! nobody's change is lost; and whatever goes wrong, the text that was written is not.

mod file;
mod text;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use hyperfleet_client::{Error, PatchKind, Request, Resource};
use hyperfleet_service::settings;
use hyperfleet_service::shutdown::signals;

use super::{Exit, Failure};
use crate::output::form::Form;
use crate::remote::owners::Owners;
use crate::remote::resources::{output_argument, print_outcome};
use crate::remote::target::{self, Found, Prefer};
use crate::remote::{Session, session};

use file::Draft;

pub(crate) fn command() -> Command {
    let command = Command::new("edit")
        .about("Change a resource in your editor")
        .long_about(
            "Change the labels, the spec and the references of a resource in the editor that $VISUAL or $EDITOR names. What \
             somebody else changed meanwhile is never overwritten: then your text is kept in a file, and you are told where.",
        )
        .args([target::one(), target::within(), output_argument()])
        .after_help("Try it:\n  EDITOR=nano hyperfleet edit cluster prod-1");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let found = target::single(session, matches, Prefer::Active).await?;
    // A list tells no versions.
    let there = session.look(Request::get(found.item().to_string())).await?.resource()?;
    let Some(version) = there.version() else {
        return Err(Failure::new(
            "the server tells no versions, so an edit could undo somebody else's: use `patch`",
        ));
    };
    let form = matches.get_one::<Form>("output");
    let owners = Owners::of(session, std::slice::from_ref(&there)).await?;
    let original = text::written(&there, &owners);
    let mut draft = Draft::new(&text::file_name(&there), &format!("{}{original}", text::heading(&there)))?;
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
            // What cannot be read, such as text in another encoding, is somebody's work all the same.
            (Err(failure), _) | (Ok(()), Err(failure)) => return Err(draft.kept_after(failure)),
        };
        if after == before {
            return match complaint {
                None => unchanged(&there, form),
                Some(failure) => Err(draft.kept_after(failure)),
            };
        }
        let patch = match text::patch(&original, &after) {
            Ok(None) => return unchanged(&there, form),
            Ok(Some(patch)) => patch,
            Err(fault) => {
                complaint = Some(Failure::usage(fault));
                continue;
            }
        };
        let request = Request::patch(&found.item(), &patch, PatchKind::Json, Some(version), false);
        let sent = tokio::select! {
            sent = session.call(request) => sent,
            signal = signals.next() => {
                let text = format!("stopped by {signal}; nobody knows whether it was sent");
                return Err(draft.kept_after(Failure { text, code: signal.exit_code() }));
            }
        };
        match sent {
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Ok(Some(answer)) => {
                print_outcome(&answer.resource()?, "changed", form)?;
                return Ok(ExitCode::SUCCESS);
            }
            // What is wrong with the text can be put right in it.
            Err(error) if error.status() == Some(400) => complaint = Some(error.into()),
            Err(error) => return Err(refused(&found, error, &mut draft)),
        }
    }
}

fn unchanged(resource: &Resource, form: Option<&Form>) -> Result<ExitCode, Failure> {
    print_outcome(resource, "unchanged", form)?;
    Ok(ExitCode::SUCCESS)
}

/// A version that has moved is somebody else's change.
fn refused(found: &Found, error: Error, draft: &mut Draft) -> Failure {
    if error.problem().is_none_or(|problem| problem.actual_version.is_none()) {
        return draft.kept_after(error.into());
    }
    let called = found.called();
    let failure =
        Failure::with(Exit::Conflict, format!("{called} was changed while you edited it; nothing was sent"));
    let mut failure = draft.kept_after(failure);
    failure.text.push_str(&format!(
        "\n  hyperfleet diff -f {} shows how it differs from what is there now",
        draft.path().display()
    ));
    failure
}

/// The person's editor, as a shell reads it.
fn editor() -> String {
    let environment = settings::environment();
    let named = ["VISUAL", "EDITOR"].iter().filter_map(|name| environment.get(*name));
    named.map(|editor| editor.trim()).find(|editor| !editor.is_empty()).unwrap_or("vi").to_owned()
}
