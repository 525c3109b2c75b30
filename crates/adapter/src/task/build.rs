//! Documents of a task: manifests and payloads, in which texts are templates and `{expression}` or `{field}` stands for
//! a computed value.

use std::collections::BTreeSet;

use hyperfleet_core::Timestamp;
use serde_json::{Map, Value};

use super::jsonpath::JsonPath;
use super::model::{Build, Extract};
use super::reader::{Findings, check_names, expression, template};
use super::source::{Text, Variables};
use super::yaml::{Content, Node};

/// Compiles a document. With `computes`, mappings with `expression` or `field` are computed values.
pub(crate) fn read_build(
    node: &Node,
    known: &BTreeSet<String>,
    findings: &Findings,
    computes: bool,
) -> Option<Build> {
    match &node.content {
        Content::Text(_) => {
            let text = template(node, findings)?;
            check_names(&text, node, known, findings);
            Some(if text.is_constant() { Build::Value(node.to_json()) } else { Build::Text(text) })
        }
        Content::List(items) => {
            let items: Vec<_> =
                items.iter().map(|item| read_build(item, known, findings, computes)).collect();
            items.into_iter().collect::<Option<_>>().map(Build::List)
        }
        Content::Map(_) if computes && is_computed(node) => computed(node, known, findings),
        Content::Map(members) => {
            let mut built = Vec::with_capacity(members.len());
            let mut is_sound = true;
            for (name, value) in members {
                let key = match Text::compile(&name.text) {
                    Ok(key) => Some(key),
                    Err(fault) => {
                        findings.error(name.at, "A202", fault.message);
                        None
                    }
                };
                match (key, read_build(value, known, findings, computes)) {
                    (Some(key), Some(value)) => built.push((key, value)),
                    _ => is_sound = false,
                }
            }
            is_sound.then_some(Build::Map(built))
        }
        _ => Some(Build::Value(node.to_json())),
    }
}

fn is_computed(node: &Node) -> bool {
    ["expression", "field"]
        .iter()
        .any(|key| node.get(key).and_then(Node::text).is_some_and(|text| !text.is_empty()))
}

fn computed(node: &Node, known: &BTreeSet<String>, findings: &Findings) -> Option<Build> {
    let default = node.get("default").map(Node::to_json).unwrap_or_default();
    let from = match (node.get("expression"), node.get("field")) {
        (Some(source), None) => Extract::Expression(expression(source, Some(known), findings)?),
        (None, Some(path)) => match JsonPath::parse(path.text().unwrap_or_default()) {
            Ok(path) => Extract::Field(path),
            Err(message) => {
                findings.error(path.at, "A201", message);
                return None;
            }
        },
        _ => {
            findings.error(node.at, "A104", "a computed value has either expression or field");
            return None;
        }
    };
    for (name, _) in node.members().unwrap_or_default() {
        if !["expression", "field", "default"].contains(&name.text.as_str()) {
            findings.warning(name.at, "A101", format!("{} beside expression or field is ignored", name.text));
        }
    }
    Some(Build::Computed { from, default })
}

/// Names of the environment that expressions and templates of a file read as `env.NAME`.
pub(crate) fn environment(node: &Node) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(node, &mut names);
    names
}

fn collect(node: &Node, names: &mut BTreeSet<String>) {
    match &node.content {
        Content::Text(text) => {
            let mut rest = text.value.as_str();
            while let Some(at) = rest.find("env.") {
                let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                rest = &rest[at + 4..];
                let name = rest.strip_prefix('?').unwrap_or(rest);
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                if begins && end > 0 {
                    names.insert(name[..end].to_owned());
                }
            }
        }
        Content::List(items) => items.iter().for_each(|item| collect(item, names)),
        Content::Map(members) => members.iter().for_each(|(_, value)| collect(value, names)),
        _ => {}
    }
}

impl Build {
    /// The document over variables. A computed value that fails is its default, and told in `missing`; a template that
    /// fails is an error.
    pub(crate) fn build(
        &self,
        variables: &dyn Variables,
        templates: &Map<String, Value>,
        now: Timestamp,
        missing: &mut Vec<String>,
    ) -> Result<Value, String> {
        Ok(match self {
            Self::Value(value) => value.clone(),
            Self::Text(text) => Value::String(text.render(templates, now)?),
            Self::Computed { from, default } => match from.value(variables, now) {
                Ok(Value::Null) => default.clone(),
                Ok(value) => value,
                Err(why) => {
                    missing.push(why);
                    default.clone()
                }
            },
            Self::List(items) => {
                let items = items.iter().map(|item| item.build(variables, templates, now, missing));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Map(members) => {
                let mut built = Map::new();
                for (key, value) in members {
                    built.insert(
                        key.render(templates, now)?,
                        value.build(variables, templates, now, missing)?,
                    );
                }
                Value::Object(built)
            }
        })
    }
}

impl Extract {
    /// The value; an error when it cannot be computed or is not there.
    pub(crate) fn value(&self, variables: &dyn Variables, now: Timestamp) -> Result<Value, String> {
        match self {
            Self::Expression(expression) => expression.evaluate(variables, now),
            Self::Field(path) => {
                path.find_in(variables).ok_or_else(|| format!("there is nothing at {}", path.source()))
            }
        }
    }
}
