//! The frame of every run: what it is made on, what it measured, and the file that keeps both.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::options::Options;
use crate::results::Results;
use crate::{goals, machine};

/// A run that has begun.
pub(crate) struct Run {
    machine: Value,
    settings: Value,
    json: Option<PathBuf>,
}

impl Run {
    /// Prints what the run is made on. The directory of the result is made now, before half an hour is spent.
    pub(crate) fn begin(options: &Options, postgres: &Postgres, settings: Value) -> Result<Self> {
        if let Some(directory) = options.json.as_deref().and_then(|file| file.parent()) {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let machine = Value::Object(machine::describe(&options.server()?, &postgres.program("postgres")));
        println!("{machine:#}\n{settings}");
        if cfg!(debug_assertions) {
            println!("This is a debug build: its figures say nothing about speed.");
        }
        Ok(Self { machine, settings, json: options.json.clone() })
    }

    /// Prints and writes the results; fails if any answer was wrong.
    pub(crate) fn finish(&self, results: &Results) -> Result<()> {
        let figures = results.figures();
        if let Some(file) = &self.json {
            let json = json!({"machine": self.machine, "settings": self.settings, "figures": figures});
            fs::write(file, format!("{json:#}\n")).with_context(|| file.display().to_string())?;
        }
        println!("{results}\n{}", goals::table(&figures, false));
        ensure!(results.errors() == 0, "{} wrong answers: this run is no result", results.errors());
        Ok(())
    }
}

/// One line about what a result was made on.
pub(crate) fn origin(run: &Value) -> String {
    let text = |part: &str, name: &str| match &run[part][name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let machine =
        ["time", "cpu", "cores", "memory", "kernel", "load_average", "postgresql", "server", "profile"]
            .map(|name| format!("{name} {}", text("machine", name)))
            .join(", ");
    format!("{machine}; settings {}", run["settings"])
}
