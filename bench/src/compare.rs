//! Two runs beside each other, figure by figure: how many times the earlier one the later one is, and whether that is
//! more than the rounds of each differ among themselves. It only tells; what follows is for a person to say.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::machine::Machine;
use crate::spread::{Better, Measured, short};

/// Settings that change no figure, only how many there are of it.
const PASSING: [&str; 3] = ["rounds", "only", "resumed"];

/// A run that was written to a file.
#[derive(Debug)]
pub(crate) struct Earlier {
    machine: Value,
    settings: Value,
    figures: BTreeMap<String, Measured>,
}

impl Earlier {
    /// Reads the file at once: the run that is compared with it may write to the same place.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        Self::parse(&serde_json::from_str(&text).with_context(name)?).with_context(name)
    }

    fn parse(run: &Value) -> Result<Self> {
        let figures = run["measured"].as_array().context("no list of measured figures")?;
        let figures = figures.iter().map(|figure| {
            let figure = Measured::parse(figure).with_context(|| format!("not a figure: {figure}"))?;
            Ok((figure.name.clone(), figure))
        });
        Ok(Self {
            machine: run["machine"].clone(),
            settings: run["settings"].clone(),
            figures: figures.collect::<Result<_>>()?,
        })
    }

    /// The same figures now.
    pub(crate) fn compare(&self, machine: &Machine, settings: &Value, now: &[Measured]) -> Comparison {
        let rows = now
            .iter()
            .filter_map(|now| Some(Row { earlier: self.figures.get(&now.name)?.clone(), now: now.clone() }))
            .collect();
        let is_measured = |name: &str| now.iter().any(|figure| figure.name == name);
        let gone = self.figures.keys().filter(|name| !is_measured(name)).cloned().collect();
        let mut otherwise = machine.differences(&self.machine);
        let lasting =
            settings.as_object().into_iter().flatten().filter(|(name, _)| !PASSING.contains(&name.as_str()));
        for (name, now) in lasting.filter(|(name, now)| self.settings[name.as_str()] != **now) {
            otherwise.push(format!("{name}: {} then, {now} now", self.settings[name.as_str()]));
        }
        Comparison { otherwise, rows, gone }
    }
}

#[derive(Debug)]
struct Row {
    earlier: Measured,
    now: Measured,
}

impl Row {
    /// Of what was nothing, nothing is a multiple.
    fn ratio(&self) -> Option<f64> {
        let earlier = self.earlier.spread().median;
        (earlier > 0.0).then(|| self.now.spread().median / earlier)
    }

    /// What the change means.
    fn verdict(&self) -> &'static str {
        let (earlier, now) = (self.earlier.spread(), self.now.spread());
        if self.earlier.rounds.len().min(self.now.rounds.len()) < 2 {
            return "one round: no spread";
        }
        if earlier.overlaps(&now) {
            return "same";
        }
        match ((now.median > earlier.median), self.now.better) {
            (true, Better::More) | (false, Better::Less) => "better",
            _ => "worse",
        }
    }
}

/// Every figure that both runs have.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// What else differs between both runs.
    otherwise: Vec<String>,
    rows: Vec<Row>,
    /// What was measured only then.
    gone: Vec<String>,
}

impl Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "Compared with the earlier run (medians, in brackets the lowest and highest round)")?;
        for difference in &self.otherwise {
            writeln!(out, "not the same: {difference}")?;
        }
        let width = self.rows.iter().map(|row| row.now.name.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let (earlier, now) = (row.earlier.spread(), row.now.spread());
            writeln!(
                out,
                "{:<width$} {:>9} ({earlier:>13}) {:>9} ({now:>13}) {:<8} {:>6}  {}",
                row.now.name,
                short(earlier.median),
                short(now.median),
                row.now.unit,
                row.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
                row.verdict()
            )?;
        }
        if self.rows.is_empty() {
            writeln!(out, "no figure in common")?;
        }
        if !self.gone.is_empty() {
            writeln!(out, "not measured this time: {} of the earlier figures", self.gone.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn earlier() -> Earlier {
        let figures = [
            Measured::new("get", "/s", Better::More, &[90.0, 100.0, 110.0]),
            Measured::new("get p99", "ms", Better::Less, &[9.0, 10.0, 11.0]),
            Measured::new("list", "/s", Better::More, &[10.0, 12.0]),
            Measured::new("create", "/s", Better::More, &[50.0]),
            Measured::new("patch", "/s", Better::More, &[50.0, 60.0]),
        ];
        let figures: Vec<Value> = figures.iter().map(Measured::json).collect();
        let machine = json!({"cores": 8, "kernel": "6.1"});
        let settings = json!({"clusters": 20, "rounds": 3, "seconds": 3});
        Earlier::parse(&json!({"machine": machine, "settings": settings, "measured": figures})).unwrap()
    }

    fn line<'a>(text: &'a str, name: &str) -> &'a str {
        text.lines().find(|line| line.starts_with(name)).unwrap()
    }

    #[test]
    fn a_change_counts_when_it_is_beyond_the_spread_of_both_runs() {
        let now = [
            Measured::new("get", "/s", Better::More, &[111.0, 120.0, 130.0]),
            Measured::new("get p99", "ms", Better::Less, &[12.0, 13.0, 12.0]),
            Measured::new("list", "/s", Better::More, &[11.9, 14.0]),
            Measured::new("create", "/s", Better::More, &[500.0, 501.0]),
            Measured::new("new", "/s", Better::More, &[1.0, 1.0]),
        ];
        let machine = Machine::parse(&json!({"cores": 2, "kernel": "6.1"}));
        let settings = json!({"clusters": 10_000, "rounds": 5, "seconds": 3});
        let text = earlier().compare(&machine, &settings, &now).to_string();
        assert!(line(&text, "get ").ends_with("1.20  better"), "{text}");
        assert!(line(&text, "get p99").ends_with("1.20  worse"), "{text}");
        assert!(line(&text, "list").ends_with("same"), "{text}");
        assert!(line(&text, "create").ends_with("one round: no spread"), "{text}");
        assert!(!text.contains("new") && text.contains("not measured this time: 1 of"), "{text}");
        assert!(text.contains("not the same: cores: 8 then, 2 now") && !text.contains("kernel"), "{text}");
        assert!(text.contains("not the same: clusters: 20 then, 10000 now"), "{text}");
        assert!(!text.contains("rounds: ") && !text.contains("seconds"), "{text}");
    }

    #[test]
    fn what_was_nothing_has_no_ratio() {
        let idle = |value| Measured::new("idle", "%", Better::Less, &[value, value]);
        let row = Row { earlier: idle(0.0), now: idle(0.5) };
        assert_eq!((row.ratio(), row.verdict()), (None, "worse"));
    }

    #[test]
    fn a_file_that_is_no_result_is_refused() {
        assert!(Earlier::parse(&json!({"rows": []})).is_err());
        assert!(Earlier::parse(&json!({"measured": [{"name": "get"}]})).is_err());
    }
}
