//! `hyperfleet label`: sets labels by `key=value`, and removes them by `key-`.

use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Resource;
use serde_json::{Map, Value};

use super::apply::{DRY_RUN, common_exit, print_failure};
use super::{Failure, patch};
use crate::output;
use crate::output::format::{self, Format};
use crate::remote::Session;
use crate::remote::change::{self, Changed};
use crate::remote::resources::{self, TableOptions, UNCHANGED, print_outcome};
use crate::remote::target::selection::{self, Selection};
use crate::remote::target::{FoundResource, Within};

/// Set and remove labels of resources
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet label cluster prod-1 environment=production tier-\n  hyperfleet label clusters -l environment=dev team=blue"
)]
pub(crate) struct Label {
    /// KIND NAME..., KIND/NAME..., or a KIND with -l, --search or --all; then key=value to set and key- to remove
    #[arg(value_name = "WHAT", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    selection: Selection,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Label {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let (names, labels) = split(&self.words)?;
        let desired = Map::from_iter([("labels".to_owned(), labels.into())]);
        let found = selection::found(session, names, &self.within, &self.selection).await?;
        if found.is_empty() {
            output::message("nothing found");
        }
        let format = self.output.as_ref();
        // Several resources are printed as one list, as by `get`.
        let list = format.filter(|format| format.is_data() && (found.len() > 1 || self.selection.is_given()));
        let (mut failures, mut labelled) = (Vec::new(), Vec::new());
        for one in &found {
            let outcome = match label(session, one, &desired, self.dry_run).await {
                Ok(Some((resource, _))) if list.is_some() => {
                    labelled.push(resource);
                    Ok(())
                }
                Ok(Some((resource, verb))) => print_outcome(&resource, verb, format),
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = outcome {
                if found.len() == 1 {
                    return Err(failure);
                }
                print_failure(&one.display_name(), &failure);
                failures.push(failure.code);
            }
        }
        if let Some(format) = list.filter(|_| !session.prints_curl()) {
            resources::print(session, &labelled, true, format, &TableOptions::default()).await?;
        }
        Ok(common_exit(&failures))
    }
}

/// The resource afterwards, and the outcome; `None` if the request was printed instead.
async fn label(
    session: &Session,
    found: &FoundResource,
    desired: &Map<String, Value>,
    dry: bool,
) -> Result<Option<(Resource, &'static str)>, Failure> {
    Ok(match change::carry_out(session, found, dry, |_| desired.clone()).await? {
        Changed::No(resource) => Some((resource, UNCHANGED)),
        Changed::Yes(resource) => Some((resource, patch::verb(dry))),
        Changed::Printed => None,
    })
}

/// The words that name the resource, and the labels behind them.
fn split(words: &[String]) -> Result<(&[String], Map<String, Value>), Failure> {
    let is_label = |word: &String| word.contains('=') || word.ends_with('-');
    let first = words.iter().position(is_label).unwrap_or(words.len());
    let (names, labels) = words.split_at(first);
    if labels.is_empty() {
        return Err(Failure::usage("labels are required: key=value sets one, key- removes one"));
    }
    Ok((names, labels.iter().map(|word| pair(word)).collect::<Result<_, _>>()?))
}

/// `key=value`, or `key-` as a null.
pub(crate) fn pair(text: &str) -> Result<(String, Value), Failure> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), value.into())),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), Value::Null)),
        _ => Err(Failure::usage(format!("{text:?} is not a label; use key=value, or key- to remove one"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_stand_behind_the_name() {
        let words = ["cluster", "prod-1", "a=b", "c-", "d="].map(str::to_owned);
        let (names, labels) = split(&words).unwrap();
        assert_eq!(names, ["cluster", "prod-1"]);
        assert_eq!(Value::Object(labels), json!({"a": "b", "c": null, "d": ""}));
        assert!(split(&["cluster".to_owned(), "x".to_owned()]).is_err());
        assert!(split(&["cluster/x".to_owned(), "=".to_owned()]).is_err());
        assert!(split(&["cluster/x".to_owned(), "a=b".to_owned(), "prod".to_owned()]).is_err());
    }
}
