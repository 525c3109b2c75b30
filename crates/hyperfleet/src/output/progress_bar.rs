//! A progress bar on the last line of a terminal on stderr. In a pipe nothing is drawn. A drop clears the line.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle, WeakProgressBar};

/// A terminal echoes Ctrl-C as `^C` at the cursor. indicatif fills the line, so the cursor returns to its first column:
/// at its end the echo would wrap, and the bar would be cleared on the wrong line.
const TEMPLATE: &str = "{msg} {wide_bar} {pos}/{len} {eta} left\r";

/// The bar that is on the screen.
static CURRENT: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// A bar with a word in front of it, for work in so many pieces.
pub(crate) fn progress_bar(label: &'static str, total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(total as u64).with_message(label).with_style(style.progress_chars("━─"));
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
    bar
}

/// Writes other output while the bar is off the screen.
pub(super) fn without_bar<T>(write: impl FnOnce() -> T) -> T {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match current.and_then(|bar| bar.upgrade()) {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
