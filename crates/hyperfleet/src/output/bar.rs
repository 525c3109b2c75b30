//! A progress bar on the last line of a terminal on stderr. Other output clears the line first, and the end of the work
//! clears it for good. The line is never filled to its end: a terminal echoes Ctrl-C behind the bar as `^C`, and a full line
//! would move the echo, and what is cleared, to the next one.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::crossterm::terminal;

use super::paint::{Tone, paint};
use super::{age, talk_colours, talk_on_terminal, text};

/// Columns of the bar itself.
const LENGTH: usize = 30;
/// Between two draws, unless other output took the line.
const PAUSE: Duration = Duration::from_millis(100);
/// Used where the width of the terminal is unknown.
const USUAL_COLUMNS: u16 = 80;

/// Whether a bar is on the screen.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Progress of work in pieces. A drop clears the line.
#[derive(Debug)]
pub(crate) struct Bar {
    label: &'static str,
    total: usize,
    done: usize,
    begun: Instant,
    drawn: Option<Instant>,
    is_visible: bool,
}

impl Bar {
    /// A bar with a word in front of it. Without a terminal nothing is drawn.
    pub(crate) fn new(label: &'static str, total: usize) -> Self {
        Self { label, total, done: 0, begun: Instant::now(), drawn: None, is_visible: talk_on_terminal() }
    }

    /// A bar that counts and is never drawn.
    pub(crate) fn hidden(total: usize) -> Self {
        Self { is_visible: false, ..Self::new("", total) }
    }

    /// How many pieces are done.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// One more piece is done.
    pub(crate) fn advance(&mut self) {
        self.done += 1;
        let is_fresh = self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE);
        if self.is_visible && !(is_fresh && IS_DRAWN.load(Ordering::Relaxed)) {
            self.draw();
        }
    }

    /// Takes it off the screen for good; the pieces are still counted.
    pub(crate) fn hide(&mut self) {
        self.is_visible = false;
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

/// Clears the line for other output.
pub(super) fn clear() {
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K");
        let _ = stderr.flush();
    }
}

/// The line, shortened to the width of the terminal, because a wrapped line could not be cleared.
fn line(label: &str, done: usize, total: usize, elapsed: Duration, columns: usize) -> String {
    let left = elapsed.mul_f64(total.saturating_sub(done) as f64 / done.max(1) as f64);
    let progress = format!("{done}/{total} {} left", age::span(left));
    let filled = (done * LENGTH / total.max(1)).min(LENGTH);
    let bar = "━".repeat(filled) + &paint(&"─".repeat(LENGTH - filled), Tone::Faint, talk_colours());
    let (counted, labelled) = (text::width(&progress), text::width(label));
    match columns.saturating_sub(1) {
        width if labelled + 1 + LENGTH + 1 + counted <= width => format!("{label} {bar} {progress}"),
        width if LENGTH + 1 + counted <= width => format!("{bar} {progress}"),
        width if counted <= width => progress,
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
