//! Formats one value and one line, in JSON and in text. Both escape everything that could break out of a line. Masking
//! happens elsewhere.

use std::io::Write;

use hyperfleet_core::write_string;
use tracing::Level;

use super::Format;

/// The looks of a line: its format, and whether it may use colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) format: Format,
    pub(super) colour: bool,
}

const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

impl Style {
    /// A string value.
    pub(super) fn string(self, out: &mut Vec<u8>, text: &str) {
        match self.format {
            Format::Json => write_string(text, out),
            Format::Text if text.is_empty() || text.contains([' ', '"', '=']) => {
                out.push(b'"');
                for (i, part) in text.split('"').enumerate() {
                    if i > 0 {
                        out.extend_from_slice(b"\\\"");
                    }
                    escaped(out, part);
                }
                out.push(b'"');
            }
            Format::Text => escaped(out, text),
        }
    }

    /// A message: a string that text shows without quotes.
    pub(super) fn message(self, out: &mut Vec<u8>, text: &str) {
        match self.format {
            Format::Json => write_string(text, out),
            Format::Text => escaped(out, text),
        }
    }

    /// A nested JSON value.
    pub(super) fn json(self, out: &mut Vec<u8>, value: &serde_json::Value) {
        match self.format {
            Format::Json => drop(serde_json::to_writer(out, value)),
            Format::Text => escaped(out, &value.to_string()),
        }
    }

    /// The text before the value of a field.
    pub(super) fn opening(self, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        match self.format {
            Format::Json => {
                out.push(b',');
                write_string(name, &mut out);
                out.push(b':');
            }
            Format::Text => {
                out.push(b' ');
                escaped(&mut out, name);
                out.push(b'=');
            }
        }
        out
    }

    /// The start of a line; `message` is already in this style.
    pub(super) fn start(self, out: &mut Vec<u8>, timestamp: &str, level: Level, message: &[u8]) {
        match self.format {
            Format::Json => {
                let level = level_name(level);
                for part in [r#"{"timestamp":""#, timestamp, r#"","level":""#, level, r#"","message":"#] {
                    out.extend_from_slice(part.as_bytes());
                }
                out.extend_from_slice(if message.is_empty() { b"\"\"" } else { message });
            }
            Format::Text => {
                // The time of day suffices for text that a person follows.
                let time = timestamp.get(11..23).unwrap_or(timestamp);
                let name = level.as_str();
                let _ = if self.colour {
                    let hue = level_colour(level);
                    write!(out, "{DIM}{time}{RESET} {hue}{name:<5}{RESET} ")
                } else {
                    write!(out, "{time} {name:<5} ")
                };
                out.extend_from_slice(message);
            }
        }
    }

    /// All fields behind the start of a line, and its end.
    pub(super) fn finish(self, out: &mut Vec<u8>, fields: &[u8]) {
        let dim = self.colour && !fields.is_empty();
        if dim {
            out.extend_from_slice(DIM.as_bytes());
        }
        out.extend_from_slice(fields);
        if dim {
            out.extend_from_slice(RESET.as_bytes());
        }
        out.extend_from_slice(match self.format {
            Format::Json => b"}\n",
            Format::Text => b"\n",
        });
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn level_colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// Text with everything escaped that a terminal might obey: control characters, and the marks
/// that end a line or turn the direction of writing.
fn escaped(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        let unsafe_mark = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let _ = if c.is_control() || unsafe_mark {
            write!(out, "{}", c.escape_default())
        } else {
            out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())
        };
    }
}
