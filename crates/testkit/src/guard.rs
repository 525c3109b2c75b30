//! Cleanup that survives `kill -9` of the test process. A destructor does not run then, but the kernel always closes
//! our end of a pipe; a small shell waits at the other end and runs a script.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// Runs a shell script when it is dropped, or when this process ends, however it ends.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Sets `script` (with `arguments` as `$1`…) on watch, run by `user` (user and group id) when given.
    pub fn set<S: AsRef<OsStr>>(
        script: &str,
        arguments: &[S],
        user: Option<(u32, u32)>,
    ) -> std::io::Result<Self> {
        // Ctrl-C reaches the whole foreground process group: the watcher leaves it, or it would die before its work.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("read answer && [ \"$answer\" = safe ] && exit\n{script}"), "guard"])
            .args(arguments)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        run_as(&mut command, user);
        command.spawn().map(Self)
    }

    /// Sends the watcher home without running its script.
    pub fn dismiss(mut self) {
        if let Some(stdin) = self.0.stdin.as_mut() {
            // A watcher that is gone already needs no word.
            let _ = stdin.write_all(b"safe\n");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Makes `command` run as another user when one is given.
pub(crate) fn run_as(command: &mut Command, user: Option<(u32, u32)>) {
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
}
