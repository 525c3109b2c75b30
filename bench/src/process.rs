//! Memory and processor time as the kernel counts them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Ticks a second in `/proc/<pid>/stat`: the same on every Linux.
const TICKS: u64 = 100;

/// The memory that a process holds, in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kilobytes.context("no VmRSS in /proc")? * 1024)
}

/// The processor time that a process has used.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    Ok(duration(own_ticks(&stat).context("no times in /proc")?))
}

/// User and system time. The process's name stands in brackets and may hold anything, brackets included.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// A moment from which on the busy cores of the whole machine are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    at: Instant,
    idle: Duration,
    cores: usize,
}

impl Machine {
    pub(crate) fn now() -> Result<Self> {
        let (ticks, cores) =
            idle_ticks(&fs::read_to_string("/proc/stat")?).context("no times in /proc/stat")?;
        Ok(Self { at: Instant::now(), idle: duration(ticks), cores })
    }

    /// How many cores were busy since, on average.
    pub(crate) fn busy_cores(&self) -> Result<f64> {
        let now = Self::now()?;
        let idle = now.idle.saturating_sub(self.idle).as_secs_f64();
        Ok((self.cores as f64 - idle / (now.at - self.at).as_secs_f64()).max(0.0))
    }
}

/// The ticks in which cores were idle, waited for the disk, or were kept by the host; and the number of cores.
fn idle_ticks(stat: &str) -> Option<(u64, usize)> {
    let fields: Vec<&str> = stat.lines().next()?.split_whitespace().collect();
    let [idle, disk, host] = [4, 5, 8].map(|place| fields.get(place)?.parse::<u64>().ok());
    let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some((idle? + disk? + host?, cores)).filter(|(_, cores)| *cores > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_process_name() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 33 44 20 0 1 0 5 6 7";
        assert_eq!(own_ticks(line), Some(33));
        assert_eq!(own_ticks("7 (cut) S 3"), None);
    }

    #[test]
    fn a_core_that_waits_for_the_disk_or_the_host_is_not_busy() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1\ncpu1 1\nintr 5\ncpu2 1";
        assert_eq!(idle_ticks(stat), Some((80_054_000, 2)));
    }
}
