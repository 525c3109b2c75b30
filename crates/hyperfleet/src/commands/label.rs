//! `hyperfleet label`: sets labels by `key=value`, and removes them by `key-`.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hyperfleet_client::Resource;
use serde_json::{Map, Value};

use super::apply::{common_exit, dry_run, tell_failure};
use super::{Failure, patch};
use crate::output;
use crate::output::form::Form;
use crate::remote::change::{self, Changed};
use crate::remote::resources::{self, Look, output_argument, print_outcome};
use crate::remote::target::{self, Found, selection};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("label")
        .about("Set and remove labels of resources")
        .args([
            Arg::new("what")
                .value_name("WHAT")
                .action(ArgAction::Append)
                .num_args(1..)
                .required(true)
                .allow_hyphen_values(false)
                .help("KIND NAME..., KIND/NAME..., or a KIND with -l, --search or --all; then key=value to set and key- to remove"),
            target::within(),
        ])
        .args(selection::arguments())
        .args([dry_run(), output_argument()])
        .after_help("Try it:\n  hyperfleet label cluster prod-1 environment=production tier-\n  hyperfleet label clusters -l environment=dev team=blue");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let words: Vec<String> = matches.get_many("what").into_iter().flatten().cloned().collect();
    let (names, labels) = split(&words)?;
    let wished = Map::from_iter([("labels".to_owned(), labels.into())]);
    let found = selection::found(session, matches, names).await?;
    if found.is_empty() {
        output::talk("nothing found");
    }
    let form = matches.get_one::<Form>("output");
    // Many are one list, as `get` has them, and not documents that run into each other.
    let list = form.filter(|form| form.is_data() && (found.len() > 1 || selection::is_one(matches)));
    let (mut failures, mut labelled) = (Vec::new(), Vec::new());
    for one in &found {
        let outcome = match label(session, matches, one, &wished).await {
            Ok(Some((resource, _))) if list.is_some() => {
                labelled.push(resource);
                Ok(())
            }
            Ok(Some((resource, verb))) => print_outcome(&resource, verb, form),
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = outcome {
            if found.len() == 1 {
                return Err(failure);
            }
            tell_failure(&one.called(), &failure);
            failures.push(failure.code);
        }
    }
    if let Some(form) = list.filter(|_| !session.prints_curl()) {
        resources::print(session, &labelled, true, form, &Look::default()).await?;
    }
    Ok(common_exit(&failures))
}

/// The resource as it is then, and what became of it; `None` if the request was printed instead.
async fn label(
    session: &Session,
    matches: &ArgMatches,
    found: &Found,
    wished: &Map<String, Value>,
) -> Result<Option<(Resource, &'static str)>, Failure> {
    let dry = matches.get_flag("dry-run");
    Ok(match change::carry_out(session, found, dry, |_| wished.clone()).await? {
        Changed::No(resource) => Some((resource, "unchanged")),
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
        return Err(Failure::usage("which labels? Say key=value to set one, key- to remove one"));
    }
    Ok((names, labels.iter().map(|word| pair(word)).collect::<Result<_, _>>()?))
}

/// `key=value`, or `key-` as a null.
pub(crate) fn pair(text: &str) -> Result<(String, Value), Failure> {
    match (text.split_once('='), text.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), value.into())),
        (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), Value::Null)),
        _ => Err(Failure::usage(format!("{text:?} is no label: say key=value, or key- to remove one"))),
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
