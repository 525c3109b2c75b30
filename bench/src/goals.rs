//! What was promised beside what was measured, as one table in Markdown: printed at the end of every run for what that
//! run measured, and by `hyperfleet-bench goals` for the runs of some files together, also into a document. So no figure
//! in the documentation is copied by hand.

use std::fmt::{self, Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::findings::verdict;
use crate::promises::{Is, PROMISES, Promise};
use crate::spread::{Measured, grouped, number};

/// Lines of a document between which the table stands.
const BEGIN: &str = "<!-- goals: filled by hyperfleet-bench goals -->";
const END: &str = "<!-- end of goals -->";

/// What a row says that no run has a figure for, and one that has its figure from an earlier table.
const UNMEASURED: &str = "| not measured |";
const EARLIER: &str = ", earlier";

/// What is put together.
#[derive(Clone, Debug, Args)]
pub(crate) struct Asked {
    /// Results of earlier runs; a figure that several have is taken from the last
    #[arg(required = true, value_name = "RESULT.json")]
    files: Vec<PathBuf>,
    /// Also put the table into this document, between the lines that mark its place
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

/// Prints the table of some runs, keeps their figures in one file, and fills a document.
pub(crate) fn run(asked: &Asked, json: Option<&Path>) -> Result<()> {
    let mut runs = Runs::default();
    for file in &asked.files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let run = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        runs.add(&run).with_context(|| file.display().to_string())?;
    }
    let table = format!("{}\n{}", Goals::all(&runs.figures), runs);
    println!("{table}");
    if let Some(file) = json {
        let text = format!("{:#}\n", runs.json());
        fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &asked.into {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        fs::write(file, filled(&text, &table).with_context(name)?).with_context(name)?;
    }
    Ok(())
}

/// The document with another table. Rows that these runs say nothing about stay, marked as older than the runs below.
fn filled(document: &str, table: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("no place for the table")?;
    let (old, after) = rest.split_once(END).context("the place for the table has no end")?;
    ensure!(!after.contains(BEGIN), "more than one place for the table");
    let rows = table.trim().lines().map(|row| kept(row, old).unwrap_or_else(|| row.to_owned()));
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", rows.collect::<Vec<_>>().join("\n")))
}

/// What an older table has in place of a row without a figure.
fn kept(row: &str, old: &str) -> Option<String> {
    let (what, _) = row.split_once(" | ").filter(|_| row.contains(UNMEASURED))?;
    let older = old.lines().find(|line| line.split_once(" | ").is_some_and(|(other, _)| other == what))?;
    let mut cells: Vec<String> = older.split(" | ").map(str::to_owned).collect();
    let measured = cells.get_mut(2).filter(|cell| !UNMEASURED.contains(cell.as_str()))?;
    if !measured.ends_with(EARLIER) {
        measured.push_str(EARLIER);
    }
    Some(cells.join(" | "))
}

/// What several runs measured, and on what.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Value>,
    figures: Vec<Measured>,
}

impl Runs {
    /// One more, or what was put together of several before.
    fn add(&mut self, run: &Value) -> Result<()> {
        let measured = run["measured"].as_array().context("no list of measured figures")?;
        for figure in measured {
            let figure = Measured::parse(figure).with_context(|| format!("not a figure: {figure}"))?;
            self.figures.retain(|known| known.name != figure.name);
            self.figures.push(figure);
        }
        match run["runs"].as_array() {
            Some(runs) => self.runs.extend(runs.iter().cloned()),
            None => self.runs.push(json!({"machine": run["machine"], "settings": run["settings"]})),
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let figures: Vec<Value> = self.figures.iter().map(Measured::json).collect();
        json!({"runs": self.runs, "measured": figures})
    }
}

/// What each run was made on.
impl Display for Runs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            let fact = |part: &str, name: &str| match &run[part][name] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let machine = |name| fact("machine", name);
            writeln!(
                out,
                "- {}: {}, {} cores, {} MiB, Linux {}, load {} before, {}, {} ({}); windows of {} s, {} rounds{}",
                machine("time"),
                machine("cpu"),
                machine("cores"),
                machine("memory_mib"),
                machine("kernel"),
                machine("load_average"),
                machine("postgresql"),
                machine("server"),
                machine("profile"),
                fact("settings", "seconds"),
                fact("settings", "rounds"),
                settings(&run["settings"])
            )?;
        }
        Ok(())
    }
}

/// What it was told to measure, and whatever else it was told.
fn settings(settings: &Value) -> String {
    let only = settings["only"].as_str().filter(|only| !only.is_empty());
    let all = ["environment", "postgres"].into_iter().filter_map(|name| settings[name].as_array());
    let settings = all.flatten().filter_map(Value::as_str);
    let only = only.map_or_else(String::new, |only| format!(", `--only \"{only}\"`"));
    settings.fold(only, |text, setting| text + ", " + setting)
}

/// The table.
#[derive(Debug)]
pub(crate) struct Goals<'a> {
    figures: &'a [Measured],
    /// Whether what was not measured is shown too.
    whole: bool,
}

impl<'a> Goals<'a> {
    pub(crate) fn all(figures: &'a [Measured]) -> Self {
        Self { figures, whole: true }
    }

    /// Only what these figures tell something about.
    pub(crate) fn measured(figures: &'a [Measured]) -> Self {
        Self { figures, whole: false }
    }

    fn cells(&self, promise: &Promise) -> Option<(String, &'static str)> {
        let found = promise.found(self.figures);
        let worst = promise.worst(&found)?;
        let mut text = match found.as_slice() {
            [one] => match one.rounds.len() {
                0 | 1 => number(worst),
                _ => format!("{} ({})", number(worst), spread(one)),
            },
            many => {
                let medians: Vec<f64> = many.iter().map(|figure| figure.spread().median).collect();
                spread(&Measured::new("", "", many[0].better, &medians))
            }
        };
        if !promise.unit.is_empty() {
            let _ = write!(text, " {}", promise.unit);
        }
        let mut met = verdict(promise.is.met(worst));
        if let Some((size, enough)) = promise.size(&found) {
            let _ = write!(text, " with {}", grouped(&size.to_string()));
            met = if enough { met } else { "" };
        }
        Some((text, met))
    }
}

fn spread(figure: &Measured) -> String {
    let spread = figure.spread();
    format!("{}–{}", number(spread.low), number(spread.high))
}

impl Display for Goals<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = PROMISES.iter().map(|promise| (promise, self.cells(promise))).collect();
        if !self.whole && rows.iter().all(|(_, cells)| cells.is_none()) {
            return Ok(());
        }
        writeln!(out, "| What | Goal | Measured | | Command |\n|---|---|---|---|---|")?;
        for (promise, cells) in rows.into_iter().filter(|(_, cells)| self.whole || cells.is_some()) {
            let Promise { what, is, unit, command, .. } = promise;
            let (sign, goal) = match is {
                Is::AtLeast(goal) => ('≥', goal),
                Is::AtMost(goal) => ('≤', goal),
            };
            let goal = grouped(&goal.to_string());
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let (measured, verdict) = cells.unwrap_or_else(|| ("not measured".to_owned(), ""));
            writeln!(out, "| {what} | {sign} {goal}{unit} | {measured} | {verdict} | `{command}` |")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Better;

    fn figures() -> Vec<Measured> {
        vec![
            Measured::new("postgresql get @32 / bare get", "", Better::More, &[0.7, 0.5, 0.65]),
            Measured::new("postgresql memory with 1000", "MiB", Better::Less, &[20.0]),
            Measured::new("postgresql memory with 1000000", "MiB", Better::Less, &[170.0]),
            Measured::new("sqlite: list done, 100000 / 10000 clusters", "", Better::Less, &[1.25]),
            Measured::new("postgresql: list name, 100000 / 10000 clusters", "", Better::Less, &[0.75]),
            Measured::new(
                "postgresql fleet: largest, played on 99",
                "clusters",
                Better::More,
                &[5_123_456.0],
            ),
        ]
    }

    fn line<'a>(text: &'a str, part: &str) -> &'a str {
        text.lines().find(|line| line.contains(part)).unwrap()
    }

    #[test]
    fn a_goal_is_shown_with_what_was_measured_and_whether_it_is_met_where_that_can_be_told() {
        let text = Goals::all(&figures()).to_string();
        assert!(line(&text, "get by id, 32").contains("| ≥ 0.6 | 0.65 (0.50–0.70) | ok |"), "{text}");
        assert!(line(&text, "memory of the server").contains("| 170 MiB with 1,000,000 | MISS |"), "{text}");
        assert!(line(&text, "100,000 against 10,000").contains("| ≤ 2 | 0.75–1.25 | ok |"), "{text}");
        assert!(line(&text, "steady fleet").contains("| 5,123,456 clusters with 99 |  |"), "{text}");
        assert!(line(&text, "patch, 32").contains("| not measured |  |"), "{text}");
    }

    #[test]
    fn a_run_shows_only_the_goals_that_it_measured() {
        let text = Goals::measured(&figures()[..1]).to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(Goals::measured(&[]).to_string(), "");
    }

    #[test]
    fn of_several_runs_the_last_counts_and_what_was_put_together_can_be_again() {
        let run = |value: f64| {
            let figure = Measured::new("get", "/s", Better::More, &[value]).json();
            json!({"machine": {"cores": 2, "time": "now"}, "settings": {"rounds": 1}, "measured": [figure]})
        };
        let mut runs = Runs::default();
        runs.add(&run(1.0)).unwrap();
        runs.add(&run(2.0)).unwrap();
        let mut again = Runs::default();
        again.add(&runs.json()).unwrap();
        assert_eq!((again.runs.len(), again.figures.len()), (2, 1));
        assert_eq!(again.figures[0].rounds, [2.0]);
        assert!(again.to_string().starts_with("- now: null, 2 cores"), "{again}");
        assert!(Runs::default().add(&json!({})).is_err());
    }

    #[test]
    fn a_document_keeps_the_rows_that_no_run_has_a_figure_for() {
        let row = |what: &str, cell: &str| format!("| {what} | ≤ 1 | {cell} | ok | `x` |");
        let new = [row("a", "not measured"), row("b", "2"), row("c", "not measured")].join("\n");
        let old = [row("a", "7"), row("b", "1"), row("c", "not measured")].join("\n");
        let document = filled(&format!("{BEGIN}\n{old}\n{END}\n"), &new).unwrap();
        let expected = [row("a", "7, earlier"), row("b", "2"), row("c", "not measured")].join("\n");
        assert_eq!(document, format!("{BEGIN}\n{expected}\n{END}\n"));
        assert_eq!(filled(&document, &new).unwrap(), document);
    }

    #[test]
    fn a_document_keeps_everything_but_the_table() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = filled(&document, "new\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert!(filled("nothing", "new").is_err() && filled(BEGIN, "new").is_err());
    }
}
