//! Every comparison and every goal in one table, and the same table in Markdown with what runs measured.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::results::Figures;
use crate::run;
use crate::stats::{median, number, spread};

/// On which side of a number the median of a figure must be.
#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// The figure is shown without a goal.
    None,
}

use Bound::{AtLeast, AtMost};

/// One line of the table.
#[derive(Debug)]
struct Goal {
    /// The figures that it is about, as `row: column`. `*` stands for any text; of several figures the worst decides.
    figure: &'static str,
    /// The figure that each is divided by, round by round; empty for none. `*` stands for the same texts.
    compared_with: &'static str,
    bound: Bound,
}

const fn goal(figure: &'static str, compared_with: &'static str, bound: Bound) -> Goal {
    Goal { figure, compared_with, bound }
}

const BEST: &str = "pgbench update best: /s";

// Rates of the deployed shape are ten times the highest that the Go implementation reached on two cores: 530 reports,
// 850 gets, 16 searches a second. Ratios to a limit of the machine are floors, a tenth below what 1.0.0 reached.
#[rustfmt::skip]
const GOALS: &[Goal] = &[
    goal("postgresql x3 report time only @256: /s", "", AtLeast(5_300.0)),
    goal("postgresql x3 report changing @256: /s", "", AtLeast(5_300.0)),
    goal("postgresql x3 get @32: /s", "", AtLeast(8_500.0)),
    goal("postgresql any page of 20 @32: /s", "", AtLeast(160.0)),
    // Two builds in turns: an upgrade makes nothing slower.
    goal("postgresql x3 *: this / other", "", AtLeast(1.0)),
    goal("postgresql report time only @256: /s", "postgresql x3 report time only @256: /s", AtLeast(1.0)),
    goal("postgresql report changing @256: /s", "postgresql x3 report changing @256: /s", AtLeast(1.0)),
    goal("postgresql get @32: /s", "postgresql x3 get @32: /s", AtLeast(1.0)),
    goal("postgresql of 100000 report time only @256: /s", "postgresql report time only @256: /s", AtLeast(0.5)),
    goal("postgresql of 100000 report changing @256: /s", "postgresql report changing @256: /s", AtLeast(0.5)),
    goal("postgresql x3 report time only @256: /s", BEST, AtLeast(0.4)),
    goal("postgresql x3 report changing @256: /s", BEST, AtLeast(0.3)),
    goal("postgresql patch @32: /s", "pgbench update @32: /s", AtLeast(0.4)),
    goal("postgresql create @32: /s", "pgbench update @32: /s", AtLeast(0.4)),
    goal("postgresql x3 get @32: /s", "baseline get @32: /s", AtLeast(0.25)),
    goal("postgresql page of 20 @32: /s", "baseline page of 20 @32: /s", AtLeast(0.3)),
    goal("sqlite get @32: /s", "postgresql get @32: /s", AtLeast(0.9)),
    goal("sqlite page of 20 @32: /s", "postgresql page of 20 @32: /s", AtLeast(1.0)),
    goal("sqlite any page of 20 @32: /s", "postgresql any page of 20 @32: /s", AtLeast(1.0)),
    goal("sqlite report * @256: /s", "postgresql report * @256: /s", AtLeast(0.5)),
    goal("* report * @256: p99 ms", "* report * @256: p50 ms", AtMost(10.0)),
    goal("postgresql x3 steady fleet of 100000: clusters", "", AtLeast(1_000_000.0)),
    goal("* list * of 100000: p50 ms", "* list * of 10000: p50 ms", AtMost(2.0)),
    goal("* list page 1000 of 100000: p50 ms", "* list everything of 100000: p50 ms", AtMost(1.2)),
    goal("* list nothing due of 100000: p50 ms", "* read by id of 100000: p50 ms", AtMost(2.0)),
    goal("sqlite list scan of 100000: clusters/s", "", AtLeast(100_000.0)),
    goal("postgresql list scan of 100000: clusters/s", "", AtLeast(50_000.0)),
    goal("postgresql fleet of 1000000: MiB", "", AtMost(150.0)),
    goal("postgresql fleet of 100000: bytes a cluster", "", AtMost(10_240.0)),
    goal("postgresql fleet of 100000: bytes before VACUUM", "", AtMost(10_240.0)),
    goal("* access * @32: /s", "* no access control * @32: /s", AtLeast(0.85)),
    goal("* neighbours beside a flood: p99 ms", "* neighbours alone: p99 ms", AtMost(1.5)),
    goal("* watch by *: p99 ms", "", AtMost(50.0)),
    goal("* watch after an hour: p50 ms", "* watch in the first minute: p50 ms", AtMost(1.5)),
    goal("* idle watcher: KiB", "", AtMost(32.0)),
    goal("events nats: p99 ms", "", AtMost(100.0)),
    goal("events nats burst: events/s", "", AtLeast(5_000.0)),
    goal("idle Sentinel of 100000: % of a core", "", AtMost(1.0)),
    goal("idle Sentinel of 100000: requests/s", "", AtMost(1.0)),
    goal("Sentinel with 1 % due of 100000: % of a core", "", Bound::None),
    goal("* idle server: MiB", "", AtMost(30.0)),
    goal("* idle server: ms to ready", "", AtMost(300.0)),
    goal("server binary: MB", "", AtMost(40.0)),
    // Near 1 it is the load generator that is measured.
    goal("sqlite *: generator", "", AtMost(0.9)),
    goal("postgresql *: generator", "", AtMost(0.9)),
];

impl Goal {
    /// The rounds of each of its figures, divided by those of the figure that it is compared with.
    fn measured(&self, figures: &Figures) -> Vec<Vec<f64>> {
        let one = |(name, rounds): (&String, &Vec<f64>)| {
            let texts = captures(self.figure, name)?;
            if self.compared_with.is_empty() {
                return Some(rounds.clone());
            }
            let others = figures.get(&fill(self.compared_with, &texts))?;
            Some(rounds.iter().zip(others).map(|(rate, other)| rate / other).collect())
        };
        figures.iter().filter_map(one).filter(|rounds: &Vec<f64>| !rounds.is_empty()).collect()
    }

    /// The line of the table. Median and result are empty if no figure was measured.
    fn line(&self, figures: &Figures) -> String {
        let Self { figure, compared_with, bound } = self;
        let measured = self.measured(figures);
        let medians: Vec<f64> = measured.iter().map(|rounds| median(rounds)).collect();
        let shown = match (measured.as_slice(), medians.as_slice()) {
            (_, []) => String::new(),
            ([rounds], [median]) if rounds.len() > 1 => format!("{} ({})", number(*median), spread(rounds)),
            (_, [median]) => number(*median),
            _ => spread(&medians),
        };
        let (goal, met) = match *bound {
            AtLeast(least) => (format!("≥ {}", number(least)), medians.iter().all(|median| *median >= least)),
            AtMost(most) => (format!("≤ {}", number(most)), medians.iter().all(|median| *median <= most)),
            Bound::None => (String::new(), true),
        };
        let is_met = match met {
            _ if goal.is_empty() || medians.is_empty() => "",
            true => "ok",
            false => "MISS",
        };
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let (figure, compared_with) = (code(figure), code(compared_with));
        format!("| {figure} | {compared_with} | {goal} | {shown} | {is_met} |\n")
    }
}

/// The texts that the stars of `pattern` stand for in `name`, each as short as possible.
fn captures<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let Some((before, rest)) = pattern.split_once('*') else { return (pattern == name).then(Vec::new) };
    let name = name.strip_prefix(before)?;
    let mut ends = name.char_indices().map(|(position, _)| position).chain([name.len()]);
    ends.find_map(|end| {
        let mut texts = captures(rest, &name[end..])?;
        texts.insert(0, &name[..end]);
        Some(texts)
    })
}

fn fill(pattern: &str, texts: &[&str]) -> String {
    texts.iter().fold(pattern.to_owned(), |name, text| name.replacen('*', text, 1))
}

/// The whole table, or the lines that were measured; empty without any.
pub(crate) fn table(figures: &Figures, whole: bool) -> String {
    let shown = GOALS.iter().filter(|goal| whole || !goal.measured(figures).is_empty());
    let lines: String = shown.map(|goal| goal.line(figures)).collect();
    match lines.is_empty() {
        true => lines,
        false => format!(
            "| Row: column | Compared with | Goal | Median (lowest–highest) | |\n|---|---|---|---|---|\n{lines}"
        ),
    }
}

/// Lines of a document between which the table stands.
const BEGIN: &str = "<!-- goals: filled by hyperfleet-bench goals -->";
const END: &str = "<!-- end of goals -->";

#[derive(Clone, Debug, Args)]
pub(crate) struct GoalsArgs {
    /// Results of earlier runs; of a figure that several have, the last counts
    #[arg(required = true, value_name = "RESULT.json")]
    files: Vec<PathBuf>,
    /// Also put the table into this document, between the lines that mark its place
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

/// Prints the whole table with the figures of several runs, with what each run was made on, and fills a document.
pub(crate) fn run(args: &GoalsArgs) -> Result<()> {
    let mut figures = Figures::new();
    let mut origins = String::new();
    for file in &args.files {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).with_context(name)?;
        let mut run: Value = serde_json::from_str(&text).with_context(name)?;
        let measured: Figures = serde_json::from_value(run["figures"].take()).with_context(name)?;
        figures.extend(measured);
        origins += &format!("- {}\n", run::origin(&run));
    }
    let text = format!("{}\n{origins}", table(&figures, true));
    println!("{text}");
    if let Some(file) = &args.into {
        let name = || file.display().to_string();
        let document = fs::read_to_string(file).with_context(name)?;
        fs::write(file, replace_table(&document, &text).with_context(name)?).with_context(name)?;
    }
    Ok(())
}

fn replace_table(document: &str, table: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).with_context(|| format!("no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no line {END}"))?;
    ensure!(!after.contains(BEGIN), "more than one line {BEGIN}");
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(all: &[(&str, &[f64])]) -> Figures {
        all.iter().map(|(name, rounds)| ((*name).to_owned(), rounds.to_vec())).collect()
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let figures = figures(&[
            ("postgresql patch @32: /s", &[50.0, 80.0, 21.0]),
            ("pgbench update @32: /s", &[100.0, 100.0, 30.0]),
        ]);
        let table = table(&figures, false);
        assert!(table.contains("| ≥ 0.40 | 0.70 (0.50–0.80) | ok |"), "{table}");
    }

    #[test]
    fn a_figure_without_its_counterpart_has_no_ratio() {
        assert_eq!(table(&figures(&[("postgresql patch @32: /s", &[50.0])]), false), "");
    }

    #[test]
    fn the_worst_of_several_figures_decides() {
        let figures = figures(&[
            ("sqlite list name of 10000: p50 ms", &[1.0]),
            ("sqlite list name of 100000: p50 ms", &[1.5]),
            ("postgresql list done of 10000: p50 ms", &[1.0]),
            ("postgresql list done of 100000: p50 ms", &[2.5]),
        ]);
        let table = table(&figures, false);
        assert!(table.contains("| ≤ 2.00 | 1.50–2.50 | MISS |"), "{table}");
    }

    #[test]
    fn stars_stand_for_the_same_texts_in_the_counterpart() {
        let texts = captures("* list * of 100000: p50 ms", "sqlite list not done of 100000: p50 ms").unwrap();
        assert_eq!(fill("* list * of 10000: p50 ms", &texts), "sqlite list not done of 10000: p50 ms");
        assert_eq!(captures("* list *", "sqlite get"), None);
    }

    #[test]
    fn a_goal_that_was_not_measured_keeps_its_line_without_median_and_result() {
        let figures = figures(&[("postgresql patch @32: /s", &[30.0]), ("pgbench update @32: /s", &[100.0])]);
        let whole = table(&figures, true);
        assert_eq!(whole.lines().count(), 2 + GOALS.len());
        assert!(whole.contains("| `pgbench update @32: /s` | ≥ 0.40 | 0.30 | MISS |"), "{whole}");
        assert!(whole.contains("| `* idle watcher: KiB` |  | ≤ 32.0 |  |  |"), "{whole}");
        assert_eq!(table(&figures, false).lines().count(), 2 + 1);
    }

    /// The cells of a line that do not depend on a run: what is measured, and the goal.
    fn goal_of(line: &str) -> Option<[&str; 3]> {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [figure, compared_with, goal, ..] = cells.as_slice() else { return None };
        Some([figure, compared_with, goal].map(|cell| cell.trim()))
    }

    #[test]
    fn the_page_about_performance_lists_every_goal() {
        let page = include_str!("../../docs/explanation/performance.md");
        let (_, rest) = page.split_once(BEGIN).unwrap();
        let (shown, _) = rest.split_once(END).unwrap();
        let whole = table(&Figures::new(), true);
        let goals = |text| -> Vec<[&str; 3]> { str::lines(text).filter_map(goal_of).collect() };
        assert_eq!(goals(shown), goals(&whole));
    }

    #[test]
    fn a_document_keeps_everything_but_the_table() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let filled = replace_table(&document, "new\n").unwrap();
        assert_eq!(filled, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert!(replace_table("nothing", "new").is_err());
    }
}
