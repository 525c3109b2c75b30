//! The error of loading settings: every fault with its path, source, rule and value. Values are cut and escaped here;
//! secrets are removed before.

use std::fmt;

use super::Source;

/// Longest part of a given value that is repeated in a fault.
const SHOWN_CHARS: usize = 100;

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the key, such as `entities[1].kind`; empty when a whole source is at fault.
    pub path: String,
    /// Where the value came from.
    pub source: Source,
    /// The rule that the value breaks.
    pub rule: String,
    /// The value, as far as it may be shown.
    pub given: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "{}: {}", self.source, self.rule)?;
        } else {
            write!(f, "{} ({}): {}", escape(&self.path), self.source, self.rule)?;
        }
        match &self.given {
            Some(given) => write!(f, ", got {given}"),
            None => Ok(()),
        }
    }
}

/// Every fault found in one reading of the settings, in the order of the sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults, in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has a fault:")?,
            n => write!(f, "the configuration has {n} faults:")?,
        }
        self.iter().try_for_each(|fault| write!(f, "\n  - {fault}"))
    }
}

impl std::error::Error for Faults {}

/// Text from outside in quotes, cut to a readable length, with control characters escaped.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", cut(text))
}

/// Text from outside, cut to a readable length, with control characters escaped.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => escape(&text[..end]) + "…",
        None => escape(text),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}
