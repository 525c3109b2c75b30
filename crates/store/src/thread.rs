//! Threads with a runtime of their own, for the few tasks that everything waits for. A task and the
//! connection it drives then wake each other without crossing to another thread, which costs more
//! than the work in between; and a blocking commit holds up nobody else.

use crate::migrations::OpenError;

/// Runs `task`, and whatever it spawns, on a thread of this name until it ends.
pub(crate) fn run_on_own_thread(
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) -> Result<(), OpenError> {
    let fail = |error: std::io::Error| OpenError::new(format!("cannot start the thread {name}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    std::thread::Builder::new().name(name.into()).spawn(move || runtime.block_on(task)).map_err(fail)?;
    Ok(())
}
