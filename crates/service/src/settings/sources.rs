//! The sources of settings. The process environment and the file system are read here and nowhere else, so that tests
//! can pass any sources.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::{ENVIRONMENT_PREFIX, Fault, Faults, yaml};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The table.
    Default,
    /// The command that runs, in place of the table's default.
    Preset,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag, without its dashes.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset => f.write_str("preset of this command"),
            Self::File(path) => path.display().fmt(f),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// Everything that settings are read from. The default has no source at all.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Defaults of the running command, by key path; everything else beats them.
    pub presets: Vec<(&'static str, String)>,
    /// The file of `--config`.
    pub config: Option<PathBuf>,
    /// Files to look for, in order, when none is named; they may be missing.
    pub usual_files: Vec<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// Flags as pairs of key path and value.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The sources of this process: its environment, the usual files, and what the command line
    /// gave.
    pub fn of_process(config: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        Self {
            presets: Vec::new(),
            config,
            usual_files: vec![
                PathBuf::from("/etc/hyperfleet/config.yaml"),
                PathBuf::from("./configs/config.yaml"),
            ],
            environment: environment(),
            flags,
        }
    }

    /// Reads the file that applies, if any. A file that cannot be read or parsed is a fault, and
    /// then counts as absent, so that the other sources are still checked.
    pub(super) fn read_file(&self, faults: &mut Faults) -> Option<(PathBuf, Json)> {
        let variable = format!("{ENVIRONMENT_PREFIX}CONFIG");
        let from_variable = self.environment.get(&variable).filter(|path| !path.trim().is_empty());
        let (path, named_by) = if let Some(path) = &self.config {
            (path.clone(), Source::Flag("config".to_owned()))
        } else if let Some(path) = from_variable {
            (PathBuf::from(path), Source::Environment(variable))
        } else {
            let path = self.usual_files.iter().find(|path| path.exists())?;
            (path.clone(), Source::File(path.clone()))
        };
        let mut fault = |source: Source, rule: String| {
            faults.push(Fault { path: String::new(), source, rule, given: None });
            None
        };
        match std::fs::read_to_string(&path) {
            Err(error) => fault(named_by, format!("cannot read {}: {error}", path.display())),
            Ok(text) => match yaml::read(&text) {
                Err(error) => fault(Source::File(path), error),
                Ok(document) => Some((path, document)),
            },
        }
    }
}

/// The environment of this process: the one place that reads it. Names and values that are not
/// UTF-8 are carried over with replacement characters rather than stopping the start.
pub fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}
