//! One run: start, faults under load, and the checks of what was recorded.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::availability::{Measured, longest_gap};
use crate::checks::{self, Check, Findings};
use crate::evidence;
use crate::faults::{Fault, Injector, Kind, Schedule, Timing};
use crate::installation::Installation;
use crate::installation::disk::SmallDisk;
use crate::load::Load;
use crate::options::Options;
use crate::report::{Counts, Report};

/// Before the first fault.
const WARM_UP: Duration = Duration::from_secs(2);

pub(crate) async fn run(options: &Options) -> Result<Report> {
    let binary = options.server()?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let mut kinds = options.kinds();
    if kinds.contains(&Kind::DiskFull) && !SmallDisk::is_possible() {
        println!("disk-full is left out: only root may mount a small disk");
        kinds.retain(|kind| *kind != Kind::DiskFull);
    }
    ensure!(!kinds.is_empty(), "no fault is left");
    let injector = Injector::new(&kinds)?;
    println!("seed {seed}, {} s, {}", options.duration().as_secs(), binary.display());

    let mut parts = Installation::start(&binary, kinds.contains(&Kind::DiskFull)).await?;
    let load = Load::start(parts.clients(), options.rate, seed).await?;
    tokio::time::sleep(WARM_UP).await;
    let bar = bar(options.duration());
    let (mut measured, mut quiet) = (Vec::new(), Vec::new());
    let end = Instant::now() + options.duration();
    for planned in Schedule::new(seed, &kinds) {
        let before = load.shared.now();
        tokio::time::sleep(planned.quiet).await;
        if Instant::now() > end {
            break;
        }
        let at = load.shared.now();
        quiet.push(longest_gap(&load.shared.history().acknowledged, before, at));
        bar.set_position(at / 1_000_000);
        bar.set_message(planned.fault.to_string());
        let timing = injector.inject(&mut parts, &planned.fault).await?;
        // What stands still after the end of a fault counts too.
        tokio::time::sleep(planned.quiet).await;
        let one = measure(&load, planned.fault, at, timing);
        let missed = if one.is_missed() { ", MISSED" } else { "" };
        bar.suspend(|| {
            println!("{:7.1} s  {}: {:.3} s{missed}", at as f64 / 1e6, one.fault, one.gap.as_secs_f64());
        });
        measured.push(one);
    }

    bar.set_message("waiting until deletions have ended");
    let mut findings = Findings::default();
    let evidence = evidence::collect(load, 0, &mut findings).await?;
    checks::check(&evidence, &mut findings);
    bar.set_message("verifying the database");
    for finding in parts.verify(&binary)? {
        findings.add(Check::Database, || finding);
    }
    bar.finish_and_clear();
    let counts = Counts::of(&evidence.history, evidence.feed.len());
    Ok(Report { seed, measured, quiet, findings, counts })
}

/// Drawn on a terminal only.
fn bar(duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed} {bar:20} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━─");
    let bar = ProgressBar::new(duration.as_secs()).with_style(style);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn measure(load: &Load, fault: Fault, at: u64, timing: Timing) -> Measured {
    let now = load.shared.now();
    let gap = longest_gap(&load.shared.history().acknowledged, at, now);
    let limit = fault.kind.limit().map(|limit| limit + timing.restart.unwrap_or_default());
    Measured { fault, at, gap, limit, unready: timing.unready }
}
