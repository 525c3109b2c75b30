//! Writes log lines on a thread of its own, many lines in one call, so that a request pays for a copy and not for a
//! system call. Lines that a stalled reader does not take are dropped and counted, because requests must not wait for
//! the log.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long lines may gather before they are written.
const GATHER_TIME: Duration = Duration::from_millis(5);
/// Enough bytes for a write without further gathering.
const BATCH_BYTES: usize = 64 * 1024;
/// How many bytes are kept for a stalled reader.
const MAX_PENDING_BYTES: usize = 8 * 1024 * 1024;
/// How long a flush waits for a stalled reader.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The sender of lines. All clones share one thread.
#[derive(Clone, Default)]
pub(super) struct BackgroundWriter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    dropped: u64,
    writing: bool,
    flushing: bool,
}

impl BackgroundWriter {
    /// An writer whose lines go to `output`, in the style of `notice` when some had to be dropped.
    pub(super) fn start(
        mut output: impl Write + Send + 'static,
        notice: impl Fn(u64) -> String + Send + 'static,
    ) -> std::io::Result<Self> {
        let writer = Self::default();
        let shared = writer.0.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || {
            let mut batch = Vec::new();
            loop {
                let dropped = shared.take(&mut batch);
                if dropped > 0 {
                    batch.extend_from_slice(notice(dropped).as_bytes());
                }
                // A closed or full output must never stop the work that is logged.
                let _ = output.write_all(&batch).and_then(|()| output.flush());
                batch.clear();
                shared.written();
            }
        })?;
        Ok(writer)
    }

    /// Adds a whole line.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.0.lock();
        if state.lines.len() + line.len() > MAX_PENDING_BYTES {
            state.dropped += 1;
            return;
        }
        let before = state.lines.len();
        state.lines.extend_from_slice(line);
        if before == 0 || (before < BATCH_BYTES && state.lines.len() >= BATCH_BYTES) {
            self.0.filled.notify_one();
        }
    }

    /// Waits until every line so far is written, or until the timeout.
    pub(super) fn flush(&self) {
        let mut state = self.0.lock();
        state.flushing = true;
        self.0.filled.notify_one();
        let pending = |state: &mut State| state.writing || !state.lines.is_empty();
        let (mut state, _) = self
            .0
            .emptied
            .wait_timeout_while(state, FLUSH_TIMEOUT, pending)
            .unwrap_or_else(PoisonError::into_inner);
        state.flushing = false;
    }
}

impl Shared {
    /// Code under this lock does not panic half-way, so a poisoned state is still consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, gathers more for a moment, and takes them all.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        let state = self
            .filled
            .wait_while(self.lock(), |state| state.lines.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .filled
            .wait_timeout_while(state, GATHER_TIME, |state| {
                !state.flushing && state.lines.len() < BATCH_BYTES
            })
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.lines, batch);
        state.writing = true;
        std::mem::take(&mut state.dropped)
    }

    fn written(&self) {
        self.lock().writing = false;
        self.emptied.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// An output that takes a write only when it is told to.
    struct Gate(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (BackgroundWriter, mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (open, gate) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer =
            BackgroundWriter::start(Gate(gate, written.clone()), |n| format!("dropped {n}\n")).unwrap();
        (writer, open, written)
    }

    #[test]
    fn a_flush_returns_when_every_line_is_written_in_order() {
        let (writer, open, written) = gated();
        drop(open);
        for i in 0..1000 {
            writer.push(format!("{i}\n").as_bytes());
        }
        writer.flush();
        let expected: String = (0..1000).map(|i| format!("{i}\n")).collect();
        assert_eq!(String::from_utf8(written.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn a_reader_that_stands_still_costs_lines_and_not_time() {
        let (writer, open, written) = gated();
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..40 {
            writer.push(&line);
        }
        drop(open);
        writer.flush();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.len() < 40 * line.len());
        assert!(text.contains("dropped "), "the loss is told");
    }
}
