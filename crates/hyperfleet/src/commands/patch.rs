//! `hyperfleet patch`: a merge patch or a JSON Patch on one resource.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::{PatchKind, Request};

use super::apply::DRY_RUN;
use super::{Failure, create};
use crate::output::format::{self, Format};
use crate::remote::Session;
use crate::remote::resources::{UNCHANGED, print_outcome};
use crate::remote::target::{self, Prefer};

/// Change a resource by a merge patch or a JSON Patch
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet patch cluster prod-1 -p '{\"spec\": {\"region\": \"eu-west-1\"}}'\n  hyperfleet patch cluster prod-1 -p '[{\"op\": \"remove\", \"path\": \"/labels/old\"}]'"
)]
pub(crate) struct Patch {
    #[command(flatten)]
    target: target::One,
    /// The patch, as JSON or YAML, or @FILE; a list is a JSON Patch
    #[arg(long, short, value_name = "JSON", required_unless_present = "file", conflicts_with = "file")]
    patch: Option<String>,
    /// The patch from a file, or - for stdin
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only if the resource still has this version: its ETag, or the number alone
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Patch {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let patch = match (&self.patch, &self.file) {
            (Some(text), _) => create::value(text, "-p")?,
            (None, Some(path)) => create::value(&create::text_of(path)?, "-f")?,
            (None, None) => return Err(Failure::usage("a patch is required: -p or -f")),
        };
        let found = self.target.find(session, Prefer::Active).await?;
        let kind = if patch.is_array() { PatchKind::Json } else { PatchKind::Merge };
        let tag = self.if_version.as_deref().map(|version| format!("\"{}\"", version.trim_matches('"')));
        let request = Request::patch(&found.item(), &patch, kind, tag.as_deref(), self.dry_run);
        if let Some(answer) = session.call(request).await? {
            let after = answer.resource()?;
            let same = ["spec", "labels", "references"].iter().all(|member| {
                let (before, after) = (found.resource.raw().get(*member), after.raw().get(*member));
                match (before, after) {
                    (Some(before), Some(after)) => hyperfleet_core::same(before, after),
                    (before, after) => before == after,
                }
            });
            let verb = if same { UNCHANGED } else { verb(self.dry_run) };
            print_outcome(&after, verb, self.output.as_ref())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The outcome for a changed resource.
pub(crate) fn verb(dry_run: bool) -> &'static str {
    if dry_run { "would be changed (dry run)" } else { "changed" }
}
