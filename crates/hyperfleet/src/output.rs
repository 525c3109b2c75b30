//! The output of the binary: data to stdout, messages to stderr, colours only where a person reads. Everything that a
//! server said passes [`text::clean`] on its way to a terminal; nothing else in the binary writes to either stream.

pub(crate) mod age;
pub(crate) mod confirm;
pub(crate) mod format;
pub(crate) mod json;
pub(crate) mod jsonpath;
pub(crate) mod paint;
pub(crate) mod progress_bar;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod yaml;

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use clap::ValueEnum;
use hyperfleet_service::settings;

use paint::Tone;
use progress_bar::without_bar;

/// The choice of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Colours {
    #[default]
    Auto,
    Always,
    Never,
}

static COLOURS: OnceLock<Colours> = OnceLock::new();

/// Settles `--color` for the whole process; the first call counts.
pub(crate) fn choose_colours(choice: Colours) {
    let _ = COLOURS.set(choice);
}

/// Prints data. A closed pipe is no error.
pub(crate) fn data(text: &str) {
    let _ = data_is_read(text);
}

/// Prints data; false once the reader has closed the pipe, so that a watch ends with its reader.
pub(crate) fn data_is_read(text: &str) -> bool {
    without_bar(|| {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    })
}

/// Prints a message on stderr.
pub(crate) fn message(text: &str) {
    let _ = without_bar(|| writeln!(std::io::stderr().lock(), "{text}"));
}

/// Whether stdout is a terminal.
pub(crate) fn data_on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether stderr is a terminal.
pub(crate) fn messages_on_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether data may have colours.
pub(crate) fn data_colours() -> bool {
    colours(data_on_terminal())
}

/// Whether messages may have colours.
pub(crate) fn message_colours() -> bool {
    colours(messages_on_terminal())
}

/// `--color`, over `NO_COLOR`, over `CLICOLOR_FORCE`, over whether the stream is a terminal.
fn colours(terminal: bool) -> bool {
    let environment = settings::environment();
    let set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty() && value != "0");
    match COLOURS.get().copied().unwrap_or_default() {
        Colours::Always => true,
        Colours::Never => false,
        Colours::Auto if environment.get("NO_COLOR").is_some_and(|value| !value.is_empty()) => false,
        Colours::Auto if set("CLICOLOR_FORCE") => true,
        Colours::Auto => terminal && environment.get("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// A red message, for an error.
pub(crate) fn red(text: &str) -> String {
    paint::paint(text, Tone::Failure, message_colours())
}

/// A bold message, for emphasis.
pub(crate) fn bold(text: &str) -> String {
    paint::paint(text, Tone::Strong, message_colours())
}

/// A dim message, for explanations.
pub(crate) fn dim(text: &str) -> String {
    paint::paint(text, Tone::Faint, message_colours())
}
