//! Documents that describe resources: files, directories and stdin, JSON or YAML, many to a file. What `get -o yaml`
//! prints is a document too: members that the server manages are ignored, and unknown ones are errors.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use crate::commands::Failure;
use crate::output::yaml;

/// The largest file.
const MAX_BYTES: u64 = 256 << 20;

/// One document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// The file, for errors.
    pub(crate) source: String,
    /// As it was written: any name of the kind.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) owner: Option<Pointer>,
    pub(crate) labels: Option<Value>,
    pub(crate) spec: Option<Value>,
    /// Ref type and targets.
    pub(crate) references: Option<Vec<(String, Vec<Pointer>)>>,
}

/// Another resource: its kind, and the names (or the id) that lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pointer {
    /// Empty where the context decides the kind.
    pub(crate) kind: String,
    pub(crate) path: Vec<String>,
}

/// The flags that name documents.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// A file, a directory, or - for stdin; may be given again
    #[arg(long = "file", short, value_name = "PATH", required = true)]
    files: Vec<PathBuf>,
    /// Directories with what is below them
    #[arg(long, short = 'R')]
    recursive: bool,
}

impl Files {
    /// All documents, in the order of the files.
    pub(crate) fn read(&self) -> Result<Vec<Document>, Failure> {
        let mut documents = Vec::new();
        for path in &self.files {
            if path == Path::new("-") {
                let mut text = String::new();
                std::io::stdin()
                    .lock()
                    .take(MAX_BYTES)
                    .read_to_string(&mut text)
                    .map_err(|error| unread("stdin", &error))?;
                documents.extend(read("stdin", &text)?);
                continue;
            }
            for file in files(path, self.recursive)? {
                let shown = file.display().to_string();
                let text = std::fs::read_to_string(&file).map_err(|error| unread(&shown, &error))?;
                documents.extend(read(&shown, &text)?);
            }
        }
        if documents.is_empty() {
            return Err(Failure::usage("the files of -f contain no document"));
        }
        Ok(documents)
    }
}

fn unread(source: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {source}: {error}"))
}

/// The file itself, or the documents in a directory, by name.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: &std::io::Error| unread(&path.display().to_string(), error);
    if !std::fs::metadata(path).map_err(|error| failed(&error))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| failed(&error))? {
        entries.push(entry.map_err(|error| failed(&error))?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let known = entry.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
        if entry.is_dir() {
            if recursive {
                found.extend(files(&entry, true)?);
            }
        } else if known {
            found.push(entry);
        }
    }
    Ok(found)
}

/// The documents of one text.
pub(crate) fn read(source: &str, text: &str) -> Result<Vec<Document>, Failure> {
    let values = yaml::read(text).map_err(|fault| Failure::usage(format!("{source}: {fault}")))?;
    let many = values.len() > 1;
    let mut documents = Vec::new();
    for (at, value) in values.into_iter().enumerate() {
        let source = if many { format!("{source}, document {}", at + 1) } else { source.to_owned() };
        take(&source, value, &mut documents).map_err(Failure::usage)?;
    }
    Ok(documents)
}

/// A document, or each of a list of them.
fn take(source: &str, value: Value, documents: &mut Vec<Document>) -> Result<(), String> {
    let items = match value {
        Value::Array(items) => items,
        Value::Object(mut members)
            if members.get("items").is_some_and(Value::is_array) && !members.contains_key("name") =>
        {
            match members.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        Value::Object(members) => {
            documents.push(one(source, members)?);
            return Ok(());
        }
        _ => return Err(format!("{source}: a document is a map with kind and name")),
    };
    for (at, item) in items.into_iter().enumerate() {
        match item {
            Value::Object(members) => documents.push(one(&format!("{source}, item {}", at + 1), members)?),
            _ => return Err(format!("{source}, item {}: must be a map", at + 1)),
        }
    }
    Ok(())
}

fn one(source: &str, members: Map<String, Value>) -> Result<Document, String> {
    let mut document = Document {
        source: source.to_owned(),
        kind: String::new(),
        name: String::new(),
        owner: None,
        labels: None,
        spec: None,
        references: None,
    };
    let mut exported_owner = None;
    for (member, value) in members {
        let wrong = |format: &str| format!("{source}: {member} must be {format}");
        match member.as_str() {
            "kind" => document.kind = value.as_str().ok_or_else(|| wrong("a text"))?.to_owned(),
            "name" => document.name = value.as_str().ok_or_else(|| wrong("a text"))?.to_owned(),
            "owner" | "parent" => {
                document.owner = Some(pointer(&value).ok_or_else(|| wrong("KIND/NAME, or {kind, name}"))?);
            }
            "owner_references" => exported_owner = pointer(&value),
            "labels" => document.labels = Some(value).filter(|value| !value.is_null()),
            "spec" => document.spec = Some(value).filter(|value| !value.is_null()),
            "references" => {
                document.references = Some(
                    references(&value).ok_or_else(|| wrong("a map of lists of KIND/NAME or {kind, name}"))?,
                );
            }
            managed if managed == "version" || hyperfleet_core::is_managed(managed) => {}
            unknown => {
                let known = ["kind", "name", "owner", "labels", "spec", "references"];
                let meant = hyperfleet_core::nearest(unknown, known);
                let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                return Err(format!("{source}: unknown member {unknown:?}{meant}"));
            }
        }
    }
    document.owner = document.owner.or(exported_owner);
    match (document.kind.is_empty(), document.name.is_empty()) {
        (true, _) => Err(format!("{source}: kind is missing")),
        (_, true) => Err(format!("{source}: name is missing")),
        _ => Ok(document),
    }
}

/// `KIND/OWNER/NAME`, `{kind, name}`, `{kind, id}`, and `owner` within for deeper ones.
fn pointer(value: &Value) -> Option<Pointer> {
    match value {
        Value::String(text) => {
            let mut parts = text.split('/').map(str::to_owned);
            let kind = parts.next()?;
            let path: Vec<String> = parts.collect();
            (!path.is_empty() && path.iter().all(|part| !part.is_empty())).then_some(Pointer { kind, path })
        }
        Value::Object(members) => {
            let text = |member: &str| members.get(member).and_then(Value::as_str).map(str::to_owned);
            let mut path = match members.get("owner").or_else(|| members.get("parent")) {
                Some(owner) => pointer(owner)?.path,
                None => Vec::new(),
            };
            path.push(text("name").or_else(|| text("id"))?);
            Some(Pointer { kind: text("kind").unwrap_or_default(), path })
        }
        _ => None,
    }
}

fn references(value: &Value) -> Option<Vec<(String, Vec<Pointer>)>> {
    let members = value.as_object()?;
    let one = |(kind, targets): (&String, &Value)| {
        let targets = targets.as_array()?.iter().map(pointer).collect::<Option<Vec<_>>>()?;
        Some((kind.clone(), targets))
    };
    members.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_ok(text: &str) -> Vec<Document> {
        read("x.yaml", text).unwrap()
    }

    #[test]
    fn owners_are_written_in_many_ways() {
        for owner in [
            "owner: cluster/prod-1",
            "owner: {kind: cluster, name: prod-1}",
            "parent: {kind: cluster, id: prod-1}",
            "owner_references: {kind: cluster, id: prod-1, href: /x}",
        ] {
            let documents = read_ok(&format!("kind: NodePool\nname: workers\n{owner}\n"));
            let expected = Pointer { kind: "cluster".to_owned(), path: vec!["prod-1".to_owned()] };
            assert_eq!(documents[0].owner, Some(expected), "{owner}");
        }
        let deep = read_ok("kind: P\nname: p\nowner: {kind: Rack, name: r, owner: {kind: Zone, name: z}}\n");
        assert_eq!(deep[0].owner.as_ref().unwrap().path, ["z", "r"]);
    }

    #[test]
    fn an_exported_list_can_be_applied() {
        let exported = r#"{"kind":"ClusterList","items":[
            {"kind":"Cluster","id":"1","href":"/x","name":"a","generation":2,"spec":{"n":1.5e400},"labels":{},
             "created_time":"t","updated_time":"t","created_by":"x","updated_by":"x","status":{"conditions":[]},
             "references":{"dns":[{"kind":"Zone","id":"z","href":"/z"}]}},
            {"kind":"Cluster","name":"b","spec":{}}]}"#;
        let documents = read_ok(exported);
        assert_eq!(documents.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(documents[0].spec.as_ref().unwrap().to_string(), r#"{"n":1.5e+400}"#);
        assert_eq!(documents[0].references.as_ref().unwrap()[0].1[0].path, ["z"]);
        assert_eq!(documents[1].source, "x.yaml, item 2");
    }

    #[test]
    fn mistakes_are_reported_with_their_position() {
        for (text, told) in [
            ("kind: A\n", "x.yaml: name is missing"),
            ("kind: A\nname: a\n---\nname: b\n", "x.yaml, document 2: kind is missing"),
            ("kind: A\nname: a\nsepc: {}\n", "did you mean spec?"),
            ("- 1\n", "item 1: must be a map"),
            ("just text", "a document is a map"),
            ("kind: A\nname: a\nowner: b\n", "owner must be KIND/NAME"),
            ("kind: [", "x.yaml: "),
        ] {
            let failure = read("x.yaml", text).unwrap_err();
            assert!(failure.code == 2 && failure.text.contains(told), "{text}: {}", failure.text);
        }
    }
}
