//! The end of every run: what it was made on and what it found, printed and written to a file, beside an earlier run
//! where one was given.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Postgres;
use serde_json::{Value, json};

use crate::compare::Earlier;
use crate::found::Found;
use crate::goals::Goals;
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
    /// `settings` are those that only this kind of run has.
    pub(crate) fn prepare(options: &Options, postgres: &Postgres, settings: Value) -> Result<Self> {
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
        let mut all = json!({"seconds": options.seconds, "rounds": options.rounds, "environment": options.environment,
                   "postgres": options.postgres});
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), settings) {
            all.extend(more);
        }
        let settings = all;
        Ok(Self { machine, settings, earlier, json: options.json.clone() })
    }

    /// Writes what was found so far, so that a run that is cut short is not all lost.
    pub(crate) fn keep(&self, parts: &[&dyn Found]) -> Result<()> {
        let Some(file) = &self.json else { return Ok(()) };
        let figures: Vec<Value> = measured(parts).iter().map(Measured::json).collect();
        let mut json =
            json!({"machine": self.machine.json(), "settings": self.settings, "measured": figures});
        for part in parts {
            json[part.name()] = part.json();
        }
        fs::write(file, format!("{json:#}\n")).with_context(|| file.display().to_string())
    }

    /// Prints, writes and compares what was found; fails if an answer was wrong.
    pub(crate) fn draw(self, parts: &[&dyn Found]) -> Result<()> {
        self.keep(parts)?;
        let measured = measured(parts);
        for text in parts.iter().map(ToString::to_string).filter(|text| !text.trim().is_empty()) {
            println!("{text}");
        }
        if let Some(earlier) = &self.earlier {
            println!("{}", earlier.compare(&self.machine, &self.settings, &measured));
        }
        let goals = Goals::measured(&measured).to_string();
        if !goals.is_empty() {
            println!("Goals, of those that were measured\n\n{goals}");
        }
        let errors: u64 = parts.iter().map(|part| part.errors()).sum();
        ensure!(errors == 0, "{errors} wrong answers: this run is no result");
        Ok(())
    }
}

/// All figures; one that is no number says nothing, and could not be read again.
fn measured(parts: &[&dyn Found]) -> Vec<Measured> {
    let all = parts.iter().flat_map(|part| part.measured());
    all.filter(|figure| !figure.rounds.is_empty() && figure.rounds.iter().all(|round| round.is_finite()))
        .collect()
}
