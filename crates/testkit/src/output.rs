//! The output of a server process, read by threads of its own so that the process never blocks on a full pipe.

use std::io::{self, BufRead as _, BufReader, Read};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::Value;

/// All lines of one server's standard output and error, over its restarts.
#[derive(Debug, Default)]
pub(crate) struct Output {
    lines: Arc<Mutex<Vec<Value>>>,
    discards: Arc<AtomicBool>,
    readers: Vec<JoinHandle<()>>,
}

impl Output {
    /// Reads `pipe` to its end, in the background. A line that is not JSON is kept as a string.
    pub(crate) fn collect(&mut self, pipe: Option<impl Read + Send + 'static>) {
        let (lines, discards) = (Arc::clone(&self.lines), Arc::clone(&self.discards));
        self.readers.extend(pipe.map(|pipe| {
            thread::spawn(move || {
                let mut pipe = BufReader::with_capacity(1 << 16, pipe);
                let mut line = Vec::new();
                while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                    if discards.load(Ordering::Relaxed) {
                        // Only the end of the process ends this, and then there is nothing left to tell.
                        let _ = io::copy(&mut pipe, &mut io::sink());
                        return;
                    }
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push(value);
                    line.clear();
                }
            })
        }));
    }

    /// From now on reads and drops, or keeps again what later processes write.
    pub(crate) fn discard(&self, yes: bool) {
        self.discards.store(yes, Ordering::Relaxed);
    }

    /// Waits until all that an ended process wrote is here.
    pub(crate) fn drain(&mut self) {
        for reader in mem::take(&mut self.readers) {
            let _ = reader.join();
        }
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> MutexGuard<'_, Vec<Value>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lines so far as text, for an error message.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines();
        let text = |line: &Value| line.as_str().map_or_else(|| line.to_string(), str::to_owned);
        lines.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}
