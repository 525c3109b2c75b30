//! The servers that a user works with, by name, in one file: `$HYPERFLEET_CONTEXTS`, else `hyperfleet/config.yaml`
//! below `$XDG_CONFIG_HOME` or `~/.config`. It names the source of a token, and never holds one.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hyperfleet_service::settings;
use serde_json::{Map, Value, json};

use crate::commands::Failure;
use crate::output::yaml;

/// One server, and the credentials for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) server: String,
    pub(crate) token_file: Option<PathBuf>,
    /// A program with its arguments that prints a token.
    pub(crate) token_command: Vec<String>,
    pub(crate) ca_file: Option<PathBuf>,
    /// Headers of every request, such as those that name a tenant.
    pub(crate) headers: BTreeMap<String, String>,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contexts {
    pub(crate) current: Option<String>,
    pub(crate) all: BTreeMap<String, Context>,
}

/// Where the file is.
pub(crate) fn path() -> Result<PathBuf, Failure> {
    let environment = settings::environment();
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set("HYPERFLEET_CONTEXTS") {
        return Ok(path);
    }
    let directory = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    directory
        .map(|directory| directory.join("hyperfleet/config.yaml"))
        .ok_or_else(|| Failure::usage("set HYPERFLEET_CONTEXTS or HOME"))
}

impl Contexts {
    /// The content of the file; empty without a file.
    pub(crate) fn load() -> Result<Self, Failure> {
        let Ok(path) = path() else { return Ok(Self::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                Self::read(&text).map_err(|fault| Failure::usage(format!("{}: {fault}", path.display())))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::new(format!("cannot read {}: {error}", path.display()))),
        }
    }

    /// Replaces the file atomically, readable by its owner alone.
    pub(crate) fn save(&self) -> Result<PathBuf, Failure> {
        let path = path()?;
        let failed =
            |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
        if let Some(directory) = path.parent().filter(|directory| *directory != Path::new("")) {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .map_err(failed)?;
        file.write_all(self.write().as_bytes()).map_err(failed)?;
        std::fs::rename(&beside, &path).map_err(failed)?;
        Ok(path)
    }

    /// One by its name.
    pub(crate) fn named(&self, name: &str) -> Result<&Context, Failure> {
        self.all.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.all.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "none yet; see `hyperfleet login`".to_owned()
            } else {
                known.join(", ")
            };
            Failure::usage(format!("no context {name:?}\n  there is: {known}"))
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let document = match yaml::read(text)?.into_iter().next() {
            None => return Ok(Self::default()),
            Some(document) => document,
        };
        let members = document.as_object().ok_or("it must be a map")?;
        let mut contexts = Self::default();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("current", Value::String(current)) => contexts.current = Some(current.clone()),
                ("contexts", Value::Object(all)) => {
                    for (name, value) in all {
                        let context =
                            Context::read(value).map_err(|fault| format!("contexts.{name}: {fault}"))?;
                        contexts.all.insert(name.clone(), context);
                    }
                }
                (other, _) => return Err(format!("{other}: unknown member or wrong type")),
            }
        }
        Ok(contexts)
    }

    fn write(&self) -> String {
        let all: Map<String, Value> =
            self.all.iter().map(|(name, context)| (name.clone(), context.write())).collect();
        let mut document = Map::new();
        if let Some(current) = &self.current {
            document.insert("current".to_owned(), json!(current));
        }
        document.insert("contexts".to_owned(), Value::Object(all));
        yaml::write(&Value::Object(document))
    }
}

impl Context {
    fn read(value: &Value) -> Result<Self, String> {
        let members = value.as_object().ok_or("it must be a map")?;
        let mut context = Self::default();
        for (name, value) in members {
            let text = || value.as_str().map(str::to_owned).ok_or(format!("{name}: must be a text"));
            match name.as_str() {
                "server" => context.server = text()?,
                "token_file" => context.token_file = Some(text()?.into()),
                "ca_file" => context.ca_file = Some(text()?.into()),
                "token_command" => {
                    let words = value
                        .as_array()
                        .ok_or("token_command: must be a list: the program and its arguments")?;
                    let word = |word: &Value| {
                        word.as_str().map(str::to_owned).ok_or("token_command: must hold texts")
                    };
                    context.token_command = words.iter().map(word).collect::<Result<_, _>>()?;
                }
                "headers" => {
                    let headers = value.as_object().ok_or("headers: must be a map")?;
                    for (header, value) in headers {
                        let value = value.as_str().ok_or(format!("headers.{header}: must be a text"))?;
                        context.headers.insert(header.clone(), value.to_owned());
                    }
                }
                other => {
                    return Err(format!(
                        "{other}: unknown; known are server, token_file, token_command, ca_file, headers"
                    ));
                }
            }
        }
        if context.server.is_empty() { Err("server: is missing".to_owned()) } else { Ok(context) }
    }

    fn write(&self) -> Value {
        let mut members = Map::new();
        members.insert("server".to_owned(), json!(self.server));
        let path = |path: &PathBuf| json!(path.to_string_lossy());
        members.extend(self.token_file.as_ref().map(|file| ("token_file".to_owned(), path(file))));
        if !self.token_command.is_empty() {
            members.insert("token_command".to_owned(), json!(self.token_command));
        }
        members.extend(self.ca_file.as_ref().map(|file| ("ca_file".to_owned(), path(file))));
        if !self.headers.is_empty() {
            members.insert("headers".to_owned(), json!(self.headers));
        }
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_contexts_read_back_as_the_same() {
        let contexts = Contexts {
            current: Some("prod".to_owned()),
            all: BTreeMap::from([(
                "prod".to_owned(),
                Context {
                    server: "https://fleet.example.com".to_owned(),
                    token_file: Some("/run/token".into()),
                    token_command: vec!["print-token".to_owned(), "--for=fleet".to_owned()],
                    ca_file: Some("/etc/ca.pem".into()),
                    headers: BTreeMap::from([("X-Org".to_owned(), "blue".to_owned())]),
                },
            )]),
        };
        assert_eq!(Contexts::read(&contexts.write()).unwrap(), contexts);
        assert_eq!(Contexts::read("").unwrap(), Contexts::default());
    }

    #[test]
    fn a_misspelt_member_is_named() {
        for (text, told) in [
            ("contexts: {a: {server: x, tokenfile: y}}", "contexts.a: tokenfile"),
            ("contexts: {a: {}}", "contexts.a: server: is missing"),
            ("currant: a", "currant"),
            ("contexts: {a: {server: x, token_command: print}}", "token_command"),
        ] {
            let fault = Contexts::read(text).unwrap_err();
            assert!(fault.contains(told), "{text}: {fault}");
        }
    }
}
