//! How far long work is, on stderr where a person looks, and nowhere else. It is drawn by hand on the line of the cursor:
//! whatever else is printed takes that line, and the end of the work, however it comes, leaves nothing of it.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::crossterm::terminal;

use super::paint::{Tone, paint};
use super::{age, talk_colours, talk_on_terminal, text};

/// Columns of the bar itself.
const LENGTH: usize = 30;
/// Between two pictures, unless something else took the line.
const PAUSE: Duration = Duration::from_millis(100);
/// Where nobody knows how wide the terminal is.
const USUAL_COLUMNS: u16 = 80;

/// Whether one stands on the screen.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Work of so many pieces. Gone from the screen when this value is.
#[derive(Debug)]
pub(crate) struct Bar {
    label: &'static str,
    total: usize,
    done: usize,
    begun: Instant,
    drawn: Option<Instant>,
    is_seen: bool,
}

impl Bar {
    /// A bar with a word in front of it. Without a terminal nothing is drawn.
    pub(crate) fn new(label: &'static str, total: usize) -> Self {
        Self { label, total, done: 0, begun: Instant::now(), drawn: None, is_seen: talk_on_terminal() }
    }

    /// One that only counts.
    pub(crate) fn unseen(total: usize) -> Self {
        Self { is_seen: false, ..Self::new("", total) }
    }

    /// How many pieces are done.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// One more piece is done.
    pub(crate) fn advance(&mut self) {
        self.done += 1;
        let is_fresh = self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE);
        if self.is_seen && !(is_fresh && IS_DRAWN.load(Ordering::Relaxed)) {
            self.draw();
        }
    }

    /// Takes it off the screen for good; the pieces are still counted.
    pub(crate) fn hide(&mut self) {
        self.is_seen = false;
        clear();
    }

    fn draw(&mut self) {
        self.drawn = Some(Instant::now());
        let columns = terminal::size().map_or(USUAL_COLUMNS, |(columns, _)| columns);
        let line = line(self.label, self.done, self.total, self.begun.elapsed(), usize::from(columns));
        IS_DRAWN.store(true, Ordering::Relaxed);
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r{line}\x1b[K");
        let _ = stderr.flush();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        clear();
    }
}

/// Gives the line back to whatever comes next.
pub(super) fn clear() {
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K");
        let _ = stderr.flush();
    }
}

/// The line, of which as much is there as fits: what wraps could not be taken back.
fn line(label: &str, done: usize, total: usize, elapsed: Duration, columns: usize) -> String {
    let left = elapsed.mul_f64(total.saturating_sub(done) as f64 / done.max(1) as f64);
    let told = format!("{done}/{total} {} left", age::span(left));
    let filled = (done * LENGTH / total.max(1)).min(LENGTH);
    let bar = "━".repeat(filled) + &paint(&"─".repeat(LENGTH - filled), Tone::Faint, talk_colours());
    let (counted, labelled) = (text::width(&told), text::width(label));
    match columns.saturating_sub(1) {
        room if labelled + 1 + LENGTH + 1 + counted <= room => format!("{label} {bar} {told}"),
        room if LENGTH + 1 + counted <= room => format!("{bar} {told}"),
        room if counted <= room => told,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_wraps_and_the_count_is_there_longest() {
        let at = |columns| line("Making the fleet", 100, 400, Duration::from_secs(3), columns);
        assert_eq!(at(80), "Making the fleet ━━━━━━━─────────────────────── 100/400 9s left");
        assert_eq!(at(60), "━━━━━━━─────────────────────── 100/400 9s left");
        assert_eq!(at(40), "100/400 9s left");
        for columns in 0..90 {
            assert!(text::width(&at(columns)) < columns.max(1), "{columns}");
        }
        assert!(line("", 0, 0, Duration::ZERO, 80).ends_with("0/0 0s left"));
    }
}
