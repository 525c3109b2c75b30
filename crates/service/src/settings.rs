//! Settings of a process, driven by one table of keys. The table names every key with its form, default and meaning;
//! validation, environment names, flags, the printed configuration and the documentation are generated from it. This
//! module knows no key itself; each role brings its own table and its own typed view.

mod faults;
mod form;
mod print;
mod sources;
mod yaml;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;

pub use faults::{Fault, Faults};
pub use form::{Form, Value, parse_duration};
pub use print::{example, markdown, without_effect};
pub use sources::{Source, Sources, environment};

use crate::logging::{MASK, Secrets, url_secrets, without_url_secrets};

/// Start of the name of every environment variable that is read.
const ENVIRONMENT_PREFIX: &str = "HYPERFLEET_";

/// The meaning of a key that is read so that the files of another program can be used as they are.
pub const NO_EFFECT: &str = "Accepted for compatibility; has no effect.";

/// One row of a table of settings.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path in the file, such as `server.port`.
    pub path: &'static str,
    /// The form of its values.
    pub form: Form,
    /// The default, written as an environment variable would be.
    pub default: &'static str,
    /// Its meaning, in one sentence.
    pub doc: &'static str,
    /// How much of its value may be shown.
    pub secret: Secret,
}

/// A row whose value may be shown.
pub const fn key(path: &'static str, form: Form, default: &'static str, doc: &'static str) -> Key {
    Key { path, form, default, doc, secret: Secret::No }
}

/// How much of a key's value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secret {
    /// All of it.
    No,
    /// A URL without its password, or without its user where that may be a token; a subtree without such in its texts.
    Url,
    /// The names of a mapping, without its values.
    Values,
    /// Nothing.
    Whole,
}

impl Key {
    /// The environment variable: `HYPERFLEET_SERVER_PORT`.
    pub fn variable(&self) -> String {
        format!("{ENVIRONMENT_PREFIX}{}", self.path.to_uppercase().replace('.', "_"))
    }

    /// The flag without its dashes: `server-port`.
    pub fn flag(&self) -> String {
        self.path.replace(['.', '_'], "-")
    }

    /// The placeholder of the value in a flag's help, such as `DURATION`.
    pub fn value_name(&self) -> String {
        match self.form {
            Form::Text | Form::NonEmpty => "TEXT".to_owned(),
            Form::Bool => "true|false".to_owned(),
            Form::Integer { .. } => "NUMBER".to_owned(),
            Form::Duration { .. } => "DURATION".to_owned(),
            Form::Choice(choices) => choices.join("|"),
            Form::List | Form::Structured => "YAML".to_owned(),
        }
    }

    /// The doc sentence, followed by the choices where there are some.
    pub fn meaning(&self) -> String {
        match self.form {
            Form::Choice(choices) => format!("{} One of {}.", self.doc, choices.join(", ")),
            _ => self.doc.to_owned(),
        }
    }

    fn default_value(&self) -> Value {
        self.form
            .read_text(self.default)
            .expect("a table's defaults fit their forms, which loading it without sources proves")
    }

    /// The value as text that may be shown.
    fn shown(&self, text: &str) -> String {
        match self.secret {
            Secret::No => text.to_owned(),
            _ if text.is_empty() => String::new(),
            Secret::Url => without_url_secrets(text),
            Secret::Values | Secret::Whole => MASK.to_owned(),
        }
    }

    /// A subtree as it may be shown.
    fn shown_tree(&self, tree: &Json) -> Json {
        match (self.secret, tree) {
            (Secret::No, _) | (Secret::Url, Json::Null | Json::Bool(_) | Json::Number(_)) => tree.clone(),
            (Secret::Url, Json::String(text)) => self.shown(text).into(),
            (Secret::Url, Json::Array(items)) => items.iter().map(|item| self.shown_tree(item)).collect(),
            (Secret::Url, Json::Object(members)) => {
                members.iter().map(|(name, value)| (name.clone(), self.shown_tree(value))).collect()
            }
            (Secret::Values, Json::Object(members)) => {
                members.keys().map(|name| (name.clone(), Json::from(MASK))).collect()
            }
            (Secret::Values | Secret::Whole, _) => Json::from(MASK),
        }
    }
}

/// How many rows some tables have together.
pub const fn rows(tables: &[&[Key]]) -> usize {
    let (mut rows, mut at) = (0, 0);
    while at < tables.len() {
        rows += tables[at].len();
        at += 1;
    }
    rows
}

/// One table of several, for a role that takes over the keys of what it uses. `N` is their [`rows`].
pub const fn joined<const N: usize>(tables: &[&[Key]]) -> [Key; N] {
    let mut all = [tables[0][0]; N];
    let (mut row, mut table) = (0, 0);
    while table < tables.len() {
        let mut at = 0;
        while at < tables[table].len() {
            all[row] = tables[table][at];
            at += 1;
            row += 1;
        }
        table += 1;
    }
    all
}

/// The value of every key of a table, each with the source that decided it.
#[derive(Debug, Clone)]
pub struct Settings {
    entries: Vec<Entry>,
    file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct Entry {
    key: &'static Key,
    value: Value,
    source: Source,
}

impl Settings {
    /// Reads all sources by the table. Faults do not stop the reading: a faulty value is left
    /// out, so that the owner of the table can run its own checks and report everything together.
    pub fn read(table: &'static [Key], sources: &Sources) -> (Self, Faults) {
        let entries = table
            .iter()
            .map(|key| Entry { key, value: key.default_value(), source: Source::Default })
            .collect();
        let mut settings = Self { entries, file: None };
        let mut faults = Faults::default();
        for (path, text) in &sources.presets {
            settings.set_text(path, Source::Preset, text, &mut faults);
        }
        if let Some((file, document)) = sources.read_file(&mut faults) {
            settings.set_tree(&file, "", document, &mut faults);
            settings.file = Some(file);
        }
        for key in table {
            let variable = key.variable();
            // Deployment templates often leave a variable blank to mean "not set".
            if let Some(text) = sources.environment.get(&variable).filter(|t| !t.trim().is_empty()) {
                settings.set_text(key.path, Source::Environment(variable), text, &mut faults);
            }
        }
        for (path, text) in &sources.flags {
            let flag = Source::Flag(path.replace(['.', '_'], "-"));
            settings.set_text(path, flag, text, &mut faults);
        }
        (settings, faults)
    }

    /// The file that was read, if there was one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where the value of `path` came from.
    pub fn source(&self, path: &str) -> &Source {
        &self.entry(path).source
    }

    /// The value of `path`, whatever its form.
    pub fn value(&self, path: &str) -> &Value {
        &self.entry(path).value
    }

    /// The text at `path`; also of a choice.
    pub fn text(&self, path: &str) -> &str {
        match self.value(path) {
            Value::Text(text) => text,
            _ => unreachable!("{path} is not text in its table"),
        }
    }

    /// The text at `path`, or nothing when it is empty.
    pub fn some_text(&self, path: &str) -> Option<&str> {
        Some(self.text(path)).filter(|text| !text.is_empty())
    }

    /// The truth value at `path`.
    pub fn bool(&self, path: &str) -> bool {
        match self.value(path) {
            Value::Bool(value) => *value,
            _ => unreachable!("{path} is not bool in its table"),
        }
    }

    /// The number at `path`, as a type that holds the bounds of its form.
    pub fn integer<T: TryFrom<i64>>(&self, path: &str) -> T {
        match self.value(path) {
            Value::Integer(value) => {
                T::try_from(*value).ok().expect("the bounds in the table fit the type that reads them")
            }
            _ => unreachable!("{path} is not a number in its table"),
        }
    }

    /// The duration at `path`.
    pub fn duration(&self, path: &str) -> Duration {
        match self.value(path) {
            Value::Duration(value) => *value,
            _ => unreachable!("{path} is not a duration in its table"),
        }
    }

    /// The list at `path`.
    pub fn list(&self, path: &str) -> &[String] {
        match self.value(path) {
            Value::List(items) => items,
            _ => unreachable!("{path} is not a list in its table"),
        }
    }

    /// The subtree at `path`.
    pub fn structured(&self, path: &str) -> &Json {
        match self.value(path) {
            Value::Structured(tree) => tree,
            _ => unreachable!("{path} is not a subtree in its table"),
        }
    }

    /// The secrets among the values, for logs to hide.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Vec::new();
        for Entry { key, value, .. } in &self.entries {
            match (key.secret, value) {
                (Secret::Whole, Value::Text(text)) => secrets.push(text.as_str()),
                (Secret::Url, Value::Text(text)) => secrets.extend(url_secrets(text)),
                (Secret::Values, Value::Structured(Json::Object(members))) => {
                    secrets.extend(members.values().filter_map(Json::as_str));
                }
                _ => {}
            }
        }
        Secrets::of(secrets)
    }

    /// A fault of the value at `path`, for rules that span keys or that the form cannot say.
    pub fn fault(&self, path: &str, rule: impl Into<String>) -> Fault {
        let entry = self.entry(path);
        let given = match (&entry.value, &entry.source) {
            (Value::Structured(_), _) | (_, Source::Default) => None,
            (value, _) => Some(faults::quote(&entry.key.shown(&value.to_string()))),
        };
        Fault { path: path.to_owned(), source: entry.source.clone(), rule: rule.into(), given }
    }

    fn entry(&self, path: &str) -> &Entry {
        self.entries
            .iter()
            .find(|entry| entry.key.path == path)
            .expect("the typed view reads only keys of its own table")
    }

    fn entry_mut(&mut self, path: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key.path == path)
    }

    fn set_text(&mut self, path: &str, source: Source, text: &str, faults: &mut Faults) {
        let Some(entry) = self.entry_mut(path) else {
            return faults.push(self.unknown(path, source));
        };
        match entry.key.form.read_text(text) {
            Ok(value) => (entry.value, entry.source) = (value, source),
            Err(rule) => {
                let given = Some(faults::quote(&entry.key.shown(text)));
                faults.push(Fault { path: path.to_owned(), source, rule, given });
            }
        }
    }

    /// Takes a file's mapping apart, one level a call, down to the keys of the table.
    fn set_tree(&mut self, file: &Path, path: &str, tree: Json, faults: &mut Faults) {
        let source = Source::File(file.to_owned());
        if self.entry_mut(path).is_some() {
            return self.set_json(path, source, tree, faults);
        }
        if !path.is_empty() && !self.is_section(path) {
            return faults.push(self.unknown(path, source));
        }
        let fault = |path: String, rule: &str, given| Fault {
            path,
            source: source.clone(),
            rule: rule.to_owned(),
            given,
        };
        match tree {
            Json::Null => {}
            Json::Object(members) => {
                for (name, value) in members {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    if name.contains('.') {
                        faults.push(fault(
                            below,
                            "keys are nested in the file, one level for each dot",
                            None,
                        ));
                    } else {
                        self.set_tree(file, &below, value, faults);
                    }
                }
            }
            other => {
                // A text may be a secret one level too high.
                let given = (!other.is_string()).then(|| faults::cut(&other.to_string()));
                faults.push(fault(path.to_owned(), "must be a mapping of keys", given));
            }
        }
    }

    fn set_json(&mut self, path: &str, source: Source, json: Json, faults: &mut Faults) {
        let Some(entry) = self.entry_mut(path).filter(|_| !json.is_null()) else { return };
        let given = match &json {
            Json::String(text) => faults::quote(&entry.key.shown(text)),
            other => match entry.key.shown_tree(other) {
                Json::String(shown) => shown,
                shown => faults::cut(&shown.to_string()),
            },
        };
        match entry.key.form.read_json(json) {
            Ok(value) => (entry.value, entry.source) = (value, source),
            Err(rule) => {
                faults.push(Fault { path: path.to_owned(), source, rule, given: Some(given) });
            }
        }
    }

    fn is_section(&self, path: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The value of an unknown key is never shown: it may be a misspelt secret.
    fn unknown(&self, path: &str, source: Source) -> Fault {
        let known = self.entries.iter().flat_map(|entry| {
            let full = entry.key.path;
            full.match_indices('.').map(|(dot, _)| &full[..dot]).chain([full])
        });
        let rule = match hyperfleet_core::nearest(path, known) {
            Some(near) => format!("unknown key, did you mean {near}?"),
            None => "unknown key".to_owned(),
        };
        Fault { path: path.to_owned(), source, rule, given: None }
    }
}

#[cfg(test)]
mod tests;
