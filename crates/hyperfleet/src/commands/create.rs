//! `hyperfleet create`: one new resource, from flags or from a document.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use hyperfleet_client::Request;
use serde_json::{Map, Value, json};

use super::apply::plan::{self, Lookups, Step};
use super::apply::{DRY_RUN, desired};
use super::{Failure, label};
use crate::output::format::{self, Format};
use crate::output::yaml;
use crate::remote::Session;
use crate::remote::documents::{self, Document, Pointer};
use crate::remote::kinds::singular;
use crate::remote::resources::print_outcome;
use crate::remote::target::{self, NamedTarget, Within};

/// Create a resource
#[derive(Debug, Args)]
#[command(
    after_help = "Try it:\n  hyperfleet create cluster prod-1 --label environment=production --set region=us-east-1\n  hyperfleet create nodepool prod-1/workers --spec '{\"replicas\": 3}'"
)]
pub(crate) struct Create {
    /// KIND NAME, or KIND OWNER/NAME for a child
    #[arg(value_name = "WHAT", num_args = 1..=2, required_unless_present = "file")]
    words: Vec<String>,
    #[command(flatten)]
    within: Within,
    /// A document with the resource, or - for stdin
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A label; may be given again
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// The spec, as JSON or YAML, or @FILE
    #[arg(long, value_name = "JSON")]
    spec: Option<String>,
    /// A member of the spec, such as region=us-east-1 or pool.size=3; may be given again
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    #[arg(long, help = DRY_RUN)]
    dry_run: bool,
    #[arg(long, short, value_name = "FORMAT", help = format::HELP)]
    output: Option<Format>,
}

impl Create {
    pub(crate) async fn run(&self, session: &Session) -> Result<ExitCode, Failure> {
        let document = self.document(session).await?;
        let mut levels = plan::levels(session.kinds().await?, vec![document])?;
        let Some(step) = levels.pop().and_then(|mut level| level.pop()) else {
            return Err(Failure::usage("a kind and a name are required"));
        };
        let lookups = RefCell::new(Lookups::default());
        let owner = desired::owner(session, &lookups, &step).await?;
        let collection = desired::collection(&step, owner.as_ref());
        let body = body(session, &lookups, &step).await?;
        if let Some(answer) = session.call(Request::create(&collection, &body, self.dry_run)).await? {
            let verb = if self.dry_run { "would be created (dry run)" } else { "created" };
            print_outcome(&answer.resource()?, verb, self.output.as_ref())?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The document that the flags describe, on top of the one in the file.
    async fn document(&self, session: &Session) -> Result<Document, Failure> {
        let mut document = match &self.file {
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
        if !self.words.is_empty() {
            let kinds = session.kinds().await?;
            let wanted = target::parse(kinds, &self.words)?;
            let [NamedTarget { kind, path }] = wanted.as_slice() else {
                return Err(Failure::usage("create takes one resource; use apply for several"));
            };
            let Some((name, owners)) = path.split_last() else {
                return Err(Failure::usage(format!("a {} name is required", singular(&kind.kind))));
            };
            document.kind.clone_from(&kind.kind);
            document.name.clone_from(name);
            if !owners.is_empty() {
                document.owner = Some(Pointer { kind: String::new(), path: owners.to_vec() });
            }
        }
        if let Some(word) = &self.within.owner {
            let owner = target::slashed(session.kinds().await?, word)?;
            document.owner = Some(Pointer { kind: owner.kind.kind, path: owner.path });
        }
        if !self.labels.is_empty() {
            let labels =
                self.labels.iter().map(|text| label::pair(text)).collect::<Result<Map<_, _>, _>>()?;
            let all = document.labels.get_or_insert_with(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                all.extend(labels);
            }
        }
        if let Some(spec) = &self.spec {
            document.spec = Some(value(spec, "--spec")?);
        }
        for text in &self.set {
            set(document.spec.get_or_insert_with(|| json!({})), text)?;
        }
        Ok(document)
    }
}

async fn body(session: &Session, lookups: &RefCell<Lookups>, step: &Step) -> Result<Value, Failure> {
    let mut body = json!({"kind": step.kind.kind, "name": step.document.name, "spec": {}});
    if let Some(members) = body.as_object_mut() {
        members.extend(desired::desired(session, lookups, step).await?.body);
    }
    Ok(body)
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
        text.split_once('=').ok_or_else(|| Failure::usage(format!("--set {text}: must be PATH=VALUE")))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    let mut member = spec;
    for name in path.split('.') {
        if name.is_empty() {
            return Err(Failure::usage(format!("--set {text}: {path:?} is not a path")));
        }
        if !member.is_object() {
            *member = json!({});
        }
        member = &mut member[name];
    }
    *member = value;
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
