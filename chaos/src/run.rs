//! One run: start, faults under load, and the checks of what was recorded. A restore ends a history: it is checked
//! before, and another load follows.

use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep};

use crate::availability::{Measured, longest_gap};
use crate::checks::{self, Check};
use crate::evidence;
use crate::faults::{Fault, Injector, Kind, Planned, Schedule};
use crate::installation::Installation;
use crate::installation::disk::SmallDisk;
use crate::load::Load;
use crate::options::Options;
use crate::report::Report;
use crate::restored::{Lost, acknowledged};

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
    println!("seed {seed}, {} s, {}", options.duration().as_secs(), binary.display());

    let mut run = Run {
        injector: Injector::new(&kinds)?,
        parts: Installation::start(&binary, kinds.contains(&Kind::DiskFull)).await?,
        bar: bar(options.duration()),
        began: Instant::now(),
        rate: options.rate,
        lost: None,
        report: Report { seed, ..Report::default() },
    };
    let mut load = run.load(0).await?;
    sleep(WARM_UP).await;
    let end = Instant::now() + options.duration();
    for planned in Schedule::new(seed, &kinds) {
        let before = load.shared.now();
        sleep(planned.quiet).await;
        let at = load.shared.now();
        if Instant::now() > end {
            break;
        }
        run.report.quiet.push(longest_gap(&load.shared.history().acknowledged, before, at));
        load = match planned.fault.kind {
            Kind::Restore => run.restore(load, planned.fault).await?,
            _ => run.play(load, planned).await?,
        };
    }
    run.conclude(load).await?;
    run.bar.set_message("verifying the database");
    for finding in run.parts.verify()? {
        run.report.findings.add(Check::Database, || finding);
    }
    run.bar.finish_and_clear();
    Ok(run.report)
}

struct Run {
    injector: Injector,
    parts: Installation,
    bar: ProgressBar,
    began: Instant,
    rate: u32,
    /// The history that the last restore has ended.
    lost: Option<Lost>,
    report: Report,
}

impl Run {
    async fn load(&self, last_client: u16) -> Result<Load> {
        Load::start(self.parts.clients(), self.began, self.rate, self.report.seed, last_client).await
    }

    /// Carries out one fault under load.
    async fn play(&mut self, load: Load, planned: Planned) -> Result<Load> {
        let fault = planned.fault;
        self.show(&fault);
        let at = load.shared.now();
        let timing = self.injector.inject(&mut self.parts, &fault).await?;
        // What stands still after the end of a fault counts too.
        sleep(planned.quiet).await;
        let gap = longest_gap(&load.shared.history().acknowledged, at, load.shared.now());
        let limit = fault.kind.limit().map(|limit| limit + timing.restart.unwrap_or_default());
        let measured = Measured { fault, at, gap, limit, unready: timing.unready };
        let missed = if measured.is_missed() { ", MISSED" } else { "" };
        self.tell(at, &format!("{fault}: {:.3} s{missed}", gap.as_secs_f64()));
        self.report.measured.push(measured);
        Ok(load)
    }

    /// Restores a backup that was made under load, and lets another load follow.
    async fn restore(&mut self, load: Load, fault: Fault) -> Result<Load> {
        self.show(&fault);
        let (at, last_client) = (load.shared.now(), load.last_client);
        let backed_up = acknowledged(&load.shared.history());
        self.parts.back_up().await?;
        sleep(fault.hold).await;
        let feed = self.conclude(load).await?;
        self.lost = Some(Lost::keep(&self.parts.clients()[0], feed, backed_up).await?);
        self.injector.inject(&mut self.parts, &fault).await?;
        self.tell(at, &fault.to_string());
        self.load(last_client).await
    }

    /// Ends a load and checks what it has recorded; returns all changes.
    async fn conclude(&mut self, load: Load) -> Result<Vec<crate::feed::Change>> {
        self.bar.set_message("waiting until deletions have ended");
        let findings = &mut self.report.findings;
        let before = self.lost.as_ref().map_or(&[][..], |lost| &lost.feed);
        let evidence = evidence::collect(load, before, findings).await?;
        self.bar.set_message("comparing");
        checks::check(&evidence, findings);
        if let Some(lost) = &self.lost {
            lost.check(&self.parts.clients()[0], &evidence, findings).await?;
        }
        let changes = evidence.feed.iter().filter(|change| change.version > evidence.base).count();
        self.report.counts.add(&evidence.history, changes);
        Ok(evidence.feed)
    }

    fn show(&self, fault: &Fault) {
        self.bar.set_position(self.began.elapsed().as_secs());
        self.bar.set_message(fault.to_string());
    }

    fn tell(&self, at: u64, what: &str) {
        self.bar.suspend(|| println!("{:7.1} s  {what}", at as f64 / 1e6));
    }
}

/// Drawn on a terminal only.
fn bar(duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed} {bar:20} {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━─");
    let bar = ProgressBar::new(duration.as_secs()).with_style(style);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
