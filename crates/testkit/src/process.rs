//! What temporary brokers and other helpers of a test share: free ports, and a process that is killed with this one.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::guard::Guard;

/// Ports that are free now.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    // All are held until all are known, or the kernel might give one twice.
    let listeners = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

/// The program `name`, or what to do without it.
pub(crate) fn program(name: &str, places: &[&str]) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = places.iter().map(PathBuf::from).chain(std::env::split_paths(&path));
    places
        .map(|place| place.join(name))
        .find(|program| program.is_file())
        .with_context(|| format!("{name} is not installed: run `make setup`"))
}

/// A program in a process group of its own, in a directory of its own; both go with this process.
#[derive(Debug)]
pub struct Process {
    directory: PathBuf,
    command: Mutex<Command>,
    running: Mutex<Option<(Child, Guard)>>,
    _cleaner: Guard,
}

impl Process {
    /// A directory for a program that is still to be started; `farewell` runs when all is over, with the directory
    /// as `$1`. Output goes to the file `output` there.
    pub fn prepare(
        prefix: &str,
        farewell: &str,
        command: impl FnOnce(&Path) -> Result<Command>,
    ) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in("/tmp")?.keep();
        let cleaner = Guard::set(&format!("{farewell}\nrm -rf \"$1\""), &[directory.as_os_str()], None)?;
        let mut command = command(&directory)?;
        let log = std::fs::File::create(directory.join("output"))?;
        command
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        Ok(Self { directory, command: Mutex::new(command), running: Mutex::new(None), _cleaner: cleaner })
    }

    /// Starts it, and waits until `ready`.
    pub fn start(&self, ready: impl Fn() -> bool) -> Result<()> {
        let child = self.command.lock().unwrap_or_else(PoisonError::into_inner).spawn()?;
        let group = child.id().to_string();
        let guard = Guard::set("kill -9 \"-$1\"", &[group.as_str()], None)?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((child, guard));
        let started = std::time::Instant::now();
        while !ready() {
            let ended = match &mut *self.running.lock().unwrap_or_else(PoisonError::into_inner) {
                Some((child, _)) => child.try_wait()?,
                None => bail!("the server was killed while it started"),
            };
            if ended.is_some() || started.elapsed() > crate::process::START_DEADLINE {
                let output = std::fs::read_to_string(self.directory.join("output")).unwrap_or_default();
                bail!("{:?} did not start ({ended:?}):\n{output}", self.directory);
            }
            #[allow(clippy::disallowed_methods, reason = "on a thread of its own, and for a state")]
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills it with everything that it started, as a crash would.
    pub fn kill(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((mut child, guard)) = running {
            drop(guard);
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// RabbitMQ takes its time, and the machine may be busy.
const START_DEADLINE: std::time::Duration = std::time::Duration::from_secs(180);
