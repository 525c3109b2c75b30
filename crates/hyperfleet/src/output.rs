//! How the binary speaks: data to stdout, talk to stderr, colours only where a person reads.

use std::io::{IsTerminal, Write};

use hyperfleet_service::settings;

/// Prints data. A closed pipe is the reader's choice and no error of ours.
pub(crate) fn data(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Prints a line of talk.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Red, for what went wrong.
pub(crate) fn red(text: &str) -> String {
    styled(text, "1;31")
}

/// Bold, for what matters.
pub(crate) fn bold(text: &str) -> String {
    styled(text, "1")
}

/// Dim, for what explains.
pub(crate) fn dim(text: &str) -> String {
    styled(text, "2")
}

fn styled(text: &str, style: &str) -> String {
    let plain = settings::environment().get("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stderr().is_terminal() && !plain {
        format!("\x1b[{style}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
