//! Two builds of the server, or one build with two settings. What a machine gives changes from minute to minute by more
//! than two builds differ. So both run side by side, each with databases of its own, and take turns.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::Postgres;

use crate::load::Outcome;
use crate::options::Options;
use crate::requests::{Deployment, Row, Shape};
use crate::results::Results;

/// Measures this build against another one.
pub(crate) async fn measure(
    options: &Options,
    path: &Path,
    postgres: &Postgres,
    results: &mut Results,
) -> Result<()> {
    // A bare name would be looked up in PATH.
    let path = fs::canonicalize(path)
        .with_context(|| format!("--against {} is missing: build it first", path.display()))?;
    let (this, other) = (options.launch()?, options.launch_other(&path)?);
    let shapes = Shape::wanted(options);
    ensure!(!shapes.is_empty(), "--only {}: builds are compared in single requests", options.only);
    for shape in shapes {
        let other =
            Deployment::start(options, shape.clone(), &other, postgres).await.context("the other build")?;
        let this = Deployment::start(options, shape, &this, postgres).await.context("this build")?;
        for round in 1..=options.rounds {
            eprintln!("{}: round {round} of {}", this.shape.name, options.rounds);
            for &row in &this.rows {
                compare(options, &other, &this, row, results).await?;
            }
        }
    }
    Ok(())
}

/// One round: the other build, this one twice, the other. A machine that gets steadily slower favours neither.
async fn compare(
    options: &Options,
    other: &Deployment<'_>,
    this: &Deployment<'_>,
    row: Row,
    results: &mut Results,
) -> Result<()> {
    let name = this.shape.row_name(row);
    let mut windows = Vec::new();
    for (build, deployment) in
        [("the other build", other), ("this build", this), ("this build", this), ("the other build", other)]
    {
        let Some(outcome) = deployment.measure(options, row).await.context(build)? else { return Ok(()) };
        if outcome.errors > 0 {
            results.fail(
                &name,
                outcome.errors,
                &format!("{build}: {}", outcome.first_error.clone().unwrap_or_default()),
            );
        }
        windows.push(outcome);
    }
    let rates: Vec<f64> = windows.iter().map(Outcome::rate).collect();
    let tails: Vec<f64> = windows.iter().map(|window| window.quantile(0.99)).collect();
    results.add(&name, "this / other", ratio(&rates));
    results.add(&name, "p99 this / other", ratio(&tails));
    for (build, [one, two]) in [("other", [0, 3]), ("this", [1, 2])] {
        results.add(&name, &format!("{build} /s"), f64::midpoint(rates[one], rates[two]));
        results.add(&name, &format!("{build} p99 ms"), f64::midpoint(tails[one], tails[two]));
    }
    let generator = windows.iter().filter_map(|window| window.cores).map(|cores| cores.generator);
    results.add(&name, "generator", generator.fold(0.0, f64::max));
    Ok(())
}

/// The two windows of this build against those of the other.
fn ratio(windows: &[f64]) -> f64 {
    match windows {
        [other, this, same, again] => (this + same) / (other + again),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_gets_steadily_slower_favours_neither_build() {
        assert!((ratio(&[100.0, 90.0, 80.0, 70.0]) - 1.0).abs() < f64::EPSILON);
        assert!((ratio(&[100.0, 200.0, 200.0, 100.0]) - 2.0).abs() < f64::EPSILON);
    }
}
