//! CPU time as the kernel counts it: of the load generator, so that everybody can see that it is not what is measured;
//! of a server; of PostgreSQL with all its processes; and of the whole machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Ticks a second in `/proc/<pid>/stat`: the same on every Linux.
const TICKS: u64 = 100;

/// What the processes of one window used, in cores: 1 is one core all the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cores {
    pub(crate) generator: f64,
    /// How many the generator may use: it has as many threads.
    pub(crate) threads: usize,
    /// The process that was loaded, where it is known.
    pub(crate) target: Option<f64>,
    /// All of the machine's that did something, whoever for.
    pub(crate) busy: f64,
}

impl Cores {
    /// The part of what the generator may use that it used. Near 1, it is the generator that was measured.
    pub(crate) fn share(&self) -> f64 {
        self.generator / self.threads as f64
    }
}

/// One line of `/proc/<pid>/stat`, as far as it matters here.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
    own: u64,
    /// Of children that have ended.
    ended: u64,
}

impl Stat {
    fn read(process: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// The name stands in brackets and may hold anything, brackets included.
    fn parse(line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        let parent = u32::try_from(number(1)?).ok()?;
        Some(Self { parent, own: number(11)? + number(12)?, ended: number(13)? + number(14)? })
    }
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// What a process has used so far.
pub(crate) fn used(process: u32) -> Result<Duration> {
    let stat = Stat::read(process).with_context(|| format!("process {process} has ended"))?;
    Ok(time(stat.own))
}

/// What this process has used so far, threads that have ended included.
pub(crate) fn used_here() -> Result<Duration> {
    used(std::process::id())
}

/// A moment from which on the work of the whole machine is counted, whoever it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    at: Instant,
    idle: Duration,
    cores: usize,
}

impl Mark {
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let (idle, cores) = idle(&text).context("/proc/stat has no times")?;
        Ok(Self { at: Instant::now(), idle: time(idle), cores })
    }

    /// How many cores were busy since, on average. It is what is left of them: that a core did nothing is counted as it
    /// is, and what one did is sampled by most kernels, a few of a hundred too low.
    pub(crate) fn busy(&self) -> Result<f64> {
        let now = Self::now()?;
        let idle = now.idle.saturating_sub(self.idle).as_secs_f64();
        Ok((self.cores as f64 - idle / (now.at - self.at).as_secs_f64()).max(0.0))
    }
}

/// The ticks that all cores together have waited, for the disk too, or the host kept for others; and how many there are.
fn idle(stat: &str) -> Option<(u64, usize)> {
    let fields: Vec<&str> = stat.lines().next()?.split_whitespace().collect();
    let [idle, disk, host] = [4, 5, 8].map(|place| fields.get(place)?.parse::<u64>().ok());
    let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some((idle? + disk? + host?, cores)).filter(|(_, cores)| *cores > 0)
}

/// What the PostgreSQL with this directory has used so far, in all its processes.
pub(crate) fn used_by_postgres(directory: &Path) -> Result<Duration> {
    let file = directory.join("data/postmaster.pid");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let first = text.lines().next().and_then(|line| line.trim().parse().ok()).context("no process id")?;
    let stat = Stat::read(first).context("PostgreSQL has ended")?;
    let processes = fs::read_dir("/proc")?.flatten();
    let children = processes
        .filter_map(|entry| Stat::read(entry.file_name().to_str()?.parse().ok()?))
        .filter(|child| child.parent == first);
    Ok(time(stat.own + stat.ended + children.map(|child| child.own).sum::<u64>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 33 44 20 0 1 0 5 6 7";
        assert_eq!(Stat::parse(line), Some(Stat { parent: 3, own: 33, ended: 77 }));
        assert_eq!(Stat::parse("7 (cut) S 3"), None);
    }

    #[test]
    fn waiting_is_no_work() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1\ncpu1 1\nintr 5\ncpu2 1";
        assert_eq!(idle(stat), Some((80_054_000, 2)));
        assert_eq!(idle("cpu  1 20 300 4000 50000 600000 7000000 80000000"), None, "no cores");
        assert_eq!(idle("cpu  1 2\ncpu0 1"), None);
        let since = Mark { cores: 3, ..Mark::now().unwrap() };
        assert!((0.0..=3.0).contains(&since.busy().unwrap()));
    }

    #[test]
    fn a_process_has_used_some_time() {
        assert!(used_here().is_ok() && used(u32::MAX).is_err());
    }

    #[test]
    fn the_share_is_of_what_the_generator_may_use() {
        let cores = Cores { generator: 1.5, threads: 2, target: None, busy: 1.9 };
        assert!((cores.share() - 0.75).abs() < f64::EPSILON);
    }
}
