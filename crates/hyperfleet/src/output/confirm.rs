//! Confirmation before an operation that cannot be undone. Without a terminal the operation is refused.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::commands::Failure;

/// Asks on stderr; anything but `y` or `yes` is a no.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} stdin is not a terminal; pass -y to confirm")));
    }
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Failure::new)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
