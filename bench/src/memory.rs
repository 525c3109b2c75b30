//! What the kernel says about the memory of a process that is measured.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Memory of one process at the start and at the end of some load, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Held {
    /// By how many percent it grew.
    pub(crate) fn growth(&self) -> f64 {
        (self.end as f64 / self.start as f64 - 1.0) * 100.0
    }
}

/// What a process holds now, in bytes.
pub(crate) fn resident(process: u32) -> Result<u64> {
    account(process, "VmRSS:")
}

/// The most that a process has held so far, in bytes.
pub(crate) fn peak(process: u32) -> Result<u64> {
    account(process, "VmHWM:")
}

fn account(process: u32, line: &str) -> Result<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"))
        .context("the server has ended")?;
    let value = status
        .lines()
        .find_map(|text| text.strip_prefix(line)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(value.with_context(|| format!("no {line} in /proc"))? * 1024)
}
