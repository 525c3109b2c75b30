//! `hyperfleet label`: sets labels by `key=value`, and removes them by `key-`.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

use super::apply::{common_exit, dry_run, tell_failure};
use super::{Failure, patch};
use crate::output;
use crate::output::form::Form;
use crate::remote::change::{self, Changed};
use crate::remote::resources::{output_argument, print_outcome};
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
    let mut failures = Vec::new();
    for one in &found {
        if let Err(failure) = label(session, matches, one, &wished).await {
            if found.len() == 1 {
                return Err(failure);
            }
            tell_failure(&one.called(), &failure);
            failures.push(failure.code);
        }
    }
    Ok(common_exit(&failures))
}

async fn label(
    session: &Session,
    matches: &ArgMatches,
    found: &Found,
    wished: &Map<String, Value>,
) -> Result<(), Failure> {
    let (dry, form) = (matches.get_flag("dry-run"), matches.get_one::<Form>("output"));
    match change::carry_out(session, found, dry, |_| wished.clone()).await? {
        Changed::No(resource) => print_outcome(&resource, "unchanged", form),
        Changed::Yes(resource) => print_outcome(&resource, patch::verb(dry), form),
        Changed::Printed => Ok(()),
    }
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
