//! The end of every run: what it was made on and what it found, printed and written to a file, beside an earlier run
//! where one was given.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::compare::Earlier;
use crate::found::Found;
use crate::machine::Machine;
use crate::options::Options;
use crate::spread::Measured;

/// What is known of the end before anything is measured, so that a wrong file name costs nobody half an hour.
pub(crate) struct Conclusion {
    machine: Machine,
    settings: Value,
    earlier: Option<Earlier>,
    json: Option<PathBuf>,
}

impl Conclusion {
    pub(crate) fn prepare(options: &Options, postgres: &Postgres) -> Result<Self> {
        let earlier = options.compare.as_deref().map(Earlier::read).transpose()?;
        if let Some(directory) = options.json.as_deref().and_then(|file| file.parent()) {
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let machine = Machine::look(&options.server()?, &postgres.program("postgres"));
        print!("{machine}");
        if cfg!(debug_assertions) {
            println!("This is a debug build: its figures say that it works, and nothing about speed.");
        }
        println!();
        let settings = json!({
            "seconds": options.seconds, "rounds": options.rounds, "clusters": options.clusters,
            "rate": options.rate, "only": options.only, "environment": options.environment,
        });
        Ok(Self { machine, settings, earlier, json: options.json.clone() })
    }

    /// Prints, writes and compares what was found; fails if an answer was wrong.
    pub(crate) fn draw(self, parts: &[&dyn Found]) -> Result<()> {
        let measured: Vec<Measured> = parts.iter().flat_map(|part| part.measured()).collect();
        if let Some(file) = &self.json {
            let figures: Vec<Value> = measured.iter().map(Measured::json).collect();
            let mut json =
                json!({"machine": self.machine.json(), "settings": self.settings, "measured": figures});
            for part in parts {
                json[part.name()] = part.json();
            }
            fs::write(file, format!("{json:#}\n")).with_context(|| file.display().to_string())?;
        }
        for text in parts.iter().map(ToString::to_string).filter(|text| !text.trim().is_empty()) {
            println!("{text}");
        }
        if let Some(earlier) = &self.earlier {
            println!("{}", earlier.compare(&self.machine, &measured));
        }
        let errors: u64 = parts.iter().map(|part| part.errors()).sum();
        ensure!(errors == 0, "{errors} wrong answers: this run is no result");
        Ok(())
    }
}
