//! `hyperfleet create`: one new resource, from flags or from a document.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hyperfleet_client::Request;
use serde_json::{Map, Value, json};

use super::apply::plan::{self, Known, Step};
use super::apply::{dry_run, wish};
use super::{Failure, label};
use crate::output::form::Form;
use crate::output::yaml;
use crate::remote::documents::{self, Document, Pointer};
use crate::remote::resources::{output_argument, print_outcome};
use crate::remote::target::{self, Wanted};
use crate::remote::{Session, session};

pub(crate) fn command() -> Command {
    let command = Command::new("create")
        .about("Create a resource")
        .args([
            Arg::new("what").value_name("WHAT").num_args(1..=2).required_unless_present("file").help("KIND NAME, or KIND OWNER/NAME for what belongs to something"),
            target::within(),
            Arg::new("file").short('f').long("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help("A document with the resource, or - for stdin"),
            Arg::new("label").long("label").value_name("KEY=VALUE").action(ArgAction::Append).help("A label; may be given again"),
            Arg::new("spec").long("spec").value_name("JSON").help("The spec, as JSON or YAML, or @FILE"),
            Arg::new("set").long("set").value_name("PATH=VALUE").action(ArgAction::Append).help("A member of the spec, such as region=us-east-1 or pool.size=3; may be given again"),
            Arg::new("recursive").long("recursive").hide(true).action(ArgAction::SetTrue),
            dry_run(),
            output_argument(),
        ])
        .after_help("Try it:\n  hyperfleet create cluster prod-1 --label environment=production --set region=us-east-1\n  hyperfleet create nodepool prod-1/workers --spec '{\"replicas\": 3}'");
    session::arguments(command)
}

pub(crate) async fn run(session: &Session, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let document = document(session, matches).await?;
    let mut levels = plan::levels(session.kinds().await?, vec![document])?;
    let Some(step) = levels.pop().and_then(|mut level| level.pop()) else {
        return Err(Failure::usage("there is nothing to create"));
    };
    let known = RefCell::new(Known::default());
    let owner = wish::owner(session, &known, &step).await?;
    let collection = wish::collection(&step, owner.as_ref());
    let body = body(session, &known, &step).await?;
    let dry = matches.get_flag("dry-run");
    if let Some(answer) = session.call(Request::create(&collection, &body, dry)).await? {
        let verb = if dry { "would be created (dry run)" } else { "created" };
        print_outcome(&answer.resource()?, verb, matches.get_one::<Form>("output"))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn body(session: &Session, known: &RefCell<Known>, step: &Step) -> Result<Value, Failure> {
    let mut body = json!({"kind": step.kind.kind, "name": step.document.name, "spec": {}});
    if let Some(members) = body.as_object_mut() {
        members.extend(wish::wish(session, known, step).await?.body);
    }
    Ok(body)
}

/// The document that the flags describe, on top of the one in the file.
async fn document(session: &Session, matches: &ArgMatches) -> Result<Document, Failure> {
    let mut document = match matches.get_one::<PathBuf>("file") {
        Some(path) => one_of(path)?,
        None => Document {
            source: "the command line".to_owned(),
            kind: String::new(),
            name: String::new(),
            owner: None,
            labels: None,
            spec: None,
            references: None,
        },
    };
    let words: Vec<String> = matches.get_many("what").into_iter().flatten().cloned().collect();
    if !words.is_empty() {
        let kinds = session.kinds().await?;
        let wanted = target::parse(kinds, &words)?;
        let [Wanted { kind, path }] = wanted.as_slice() else {
            return Err(Failure::usage("one resource at a time; `apply` makes many"));
        };
        let Some((name, owners)) = path.split_last() else {
            return Err(Failure::usage(format!("which name shall the {} have?", kind.kind)));
        };
        document.kind.clone_from(&kind.kind);
        document.name.clone_from(name);
        if !owners.is_empty() {
            document.owner = Some(Pointer { kind: String::new(), path: owners.to_vec() });
        }
    }
    if let Some(word) = matches.get_one::<String>("in") {
        let owner = target::slashed(session.kinds().await?, word)?;
        document.owner = Some(Pointer { kind: owner.kind.kind, path: owner.path });
    }
    if let Some(labels) = matches.get_many::<String>("label") {
        let labels = labels.map(|text| label::pair(text)).collect::<Result<Map<_, _>, _>>()?;
        let all = document.labels.get_or_insert_with(|| json!({}));
        if let Some(all) = all.as_object_mut() {
            all.extend(labels);
        }
    }
    if let Some(spec) = matches.get_one::<String>("spec") {
        document.spec = Some(value(spec, "--spec")?);
    }
    for text in matches.get_many::<String>("set").into_iter().flatten() {
        set(document.spec.get_or_insert_with(|| json!({})), text)?;
    }
    Ok(document)
}

fn one_of(path: &PathBuf) -> Result<Document, Failure> {
    let text = text_of(path)?;
    let mut documents = documents::read(&path.display().to_string(), &text)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(Failure::usage("`create -f` takes one document; `apply -f` takes many")),
    }
}

/// The text of a file, or of stdin for `-`.
pub(crate) fn text_of(path: &PathBuf) -> Result<String, Failure> {
    let unread = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(unread)
    } else {
        std::fs::read_to_string(path).map_err(unread)
    }
}

/// JSON or YAML on the command line, or `@FILE`.
pub(crate) fn value(text: &str, flag: &str) -> Result<Value, Failure> {
    let text = match text.strip_prefix('@') {
        Some(path) => text_of(&path.into())?,
        None => text.to_owned(),
    };
    let mut values = yaml::read(&text).map_err(|fault| Failure::usage(format!("{flag}: {fault}")))?;
    match (values.pop(), values.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err(Failure::usage(format!("{flag}: must be one JSON or YAML value"))),
    }
}

/// `a.b=value`, where the value is JSON if it can be, else a text.
fn set(spec: &mut Value, text: &str) -> Result<(), Failure> {
    let (path, value) =
        text.split_once('=').ok_or_else(|| Failure::usage(format!("--set {text}: say PATH=VALUE")))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    let mut place = spec;
    for name in path.split('.') {
        if name.is_empty() {
            return Err(Failure::usage(format!("--set {text}: {path:?} is no path")));
        }
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[name];
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_set_by_their_path() {
        let mut spec = json!({"pool": 1});
        for text in ["region=us-east-1", "pool.size=3", "pool.spot=true", "tag=\"7\"", "empty="] {
            set(&mut spec, text).unwrap();
        }
        assert_eq!(
            spec,
            json!({"pool": {"size": 3, "spot": true}, "region": "us-east-1", "tag": "7", "empty": ""})
        );
        assert!(set(&mut spec, "region").is_err());
        assert!(set(&mut spec, "a..b=1").is_err());
    }
}
