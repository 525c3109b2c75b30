//! A small disk for the tables of PostgreSQL, so that it can become full. It is a file system in memory that is made as
//! small as what it holds, which takes the rights of root.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use hyperfleet_testkit::{Guard, Postgres};

/// Enough for hours of load; memory is used only for what is written.
const SIZE: u64 = 16 << 30;
/// Attempts to make it as small as what it holds while that grows.
const ATTEMPTS: usize = 20;

/// A mounted file system, which goes with this value and with this process.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    directory: std::path::PathBuf,
    _guard: Guard,
}

impl SmallDisk {
    /// Whether this process may mount one.
    pub(crate) fn is_possible() -> bool {
        let Ok(directory) = tempfile::tempdir() else { return false };
        let mounted = mount("size=1m", directory.path()).is_ok();
        if mounted {
            // Nothing uses it, so it can only fail if it is gone already.
            let _ = Command::new("umount").arg(directory.path()).status();
        }
        mounted
    }

    /// A disk that belongs to the user of the server.
    pub(super) fn mount(postgres: &Postgres) -> Result<Self> {
        let user = std::fs::metadata(postgres.socket_directory())?;
        let directory = tempfile::Builder::new().prefix("hf-disk-").tempdir_in("/tmp")?.keep();
        let guard = Guard::set("umount -l \"$1\"; rmdir \"$1\"", &[directory.as_os_str()], None)?;
        mount(&format!("size={SIZE},mode=0700,uid={},gid={}", user.uid(), user.gid()), &directory)?;
        Ok(Self { directory, _guard: guard })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Leaves no free block.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..ATTEMPTS {
            let state = rustix::fs::statvfs(&self.directory)?;
            let used = (state.f_blocks - state.f_bfree) * state.f_frsize;
            last = self.resize(used);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Gives the space back.
    pub(crate) fn free(&self) -> Result<()> {
        self.resize(SIZE)
    }

    fn resize(&self, size: u64) -> Result<()> {
        mount(&format!("remount,size={size}"), &self.directory)
    }
}

fn mount(options: &str, directory: &Path) -> Result<()> {
    let output = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "hyperfleet-chaos"])
        .arg(directory)
        .output()
        .context("mount")?;
    ensure!(
        output.status.success(),
        "mount -o {options}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
