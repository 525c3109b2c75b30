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

/// What a result was made on, in a few words.
pub(crate) fn origin(run: &Value) -> String {
    let text = |part: &str, name: &str| match &run[part][name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let machine = ["time", "server", "postgresql", "cpu"].map(|name| text("machine", name)).join(", ");
    let [cores, clusters, rounds, seconds] =
        [("machine", "cores"), ("settings", "clusters"), ("settings", "rounds"), ("settings", "seconds")]
            .map(|(part, name)| text(part, name));
    format!("{machine}, {cores} cores; {clusters} clusters, {rounds} rounds of {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_result_is_one_short_line() {
        let run = json!({
            "machine": {"time": "2026-11-19T20:00:00Z", "server": "hyperfleet 1.0.0", "postgresql": "15.18",
                "cpu": "EPYC", "cores": 2, "kernel": "6.1", "memory": "24 GB"},
            "settings": {"clusters": 10_000, "rounds": 3, "seconds": 2, "environment": ["A=B"]},
        });
        assert_eq!(
            origin(&run),
            "2026-11-19T20:00:00Z, hyperfleet 1.0.0, 15.18, EPYC, 2 cores; 10000 clusters, 3 rounds of 2 s"
        );
    }
}
