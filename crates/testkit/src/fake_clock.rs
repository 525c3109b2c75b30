//! A wall clock of its own for one process, by Debian's `faketime`. It can be set while the process runs. The monotonic clock is
//! that of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// How far the clock is ahead of the machine's, in a file that the process reads again and again.
#[derive(Debug)]
pub struct FakeClock {
    directory: TempDir,
    library: PathBuf,
}

impl FakeClock {
    /// A clock that is `seconds` ahead of the machine's.
    ///
    /// # Errors
    /// When `faketime` is not installed.
    pub fn ahead_by(seconds: i64) -> Result<Self> {
        let places = fs::read_dir("/usr/lib")?.flatten().map(|entry| entry.path());
        let mut libraries = places.map(|place| place.join("faketime/libfaketimeMT.so.1"));
        let library = libraries
            .find(|library| library.is_file())
            .context("libfaketime is not installed: run `make setup`")?;
        let clock = Self { directory: tempfile::Builder::new().prefix("hf-clock-").tempdir()?, library };
        clock.set_ahead(seconds)?;
        Ok(clock)
    }

    /// Sets it to `seconds` ahead of the machine's.
    pub fn set_ahead(&self, seconds: i64) -> Result<()> {
        // The process never reads a file that is half written.
        let new = self.directory.path().join("new");
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, self.file())?)
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }

    /// The environment of a process that has this clock.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file())),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}
