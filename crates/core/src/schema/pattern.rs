//! Patterns of strings and member names. A pattern without look-around runs in the `regex` crate, which takes time in
//! proportion to the text and the size of the pattern; one with look-around in a [matcher](look) that counts its steps.
//! Both are paid for from the budget before they run.

mod look;
mod syntax;

use std::fmt::Write;

use regex::Regex;

use super::budget::{Budget, Spent};
use look::Program;
use syntax::{Class, Syntax};

/// The largest pattern, in characters to match at once when every repetition is written out.
const MAX_WEIGHT: u64 = 20_000;

/// What matching a character of any script weighs, because its bytes are matched one after the other.
const SEVERAL_BYTES: u64 = 4;

/// How much of the work of a pattern, in bytes of text times weight, one step of the budget pays for.
const WORK_PER_STEP: u64 = 16;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    source: Box<str>,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Regex { regex: Regex, weight: u64 },
    Look(Program),
}

impl Pattern {
    /// Compiles a pattern, or says why it cannot be used.
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        let syntax = syntax::parse(pattern)?;
        if syntax.has(|part| matches!(part, Syntax::BackReference)) {
            return Err("a back-reference cannot be matched in bounded time".to_owned());
        }
        let weight = syntax.weight();
        if weight > MAX_WEIGHT {
            return Err("its repetitions make it too large to be matched in bounded time".to_owned());
        }
        let engine = if syntax.has(|part| matches!(part, Syntax::Look { .. })) {
            Engine::Look(Program::compile(&syntax)?)
        } else {
            let regex = Regex::new(&syntax.to_regex())
                .map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())?;
            Engine::Regex { regex, weight }
        };
        Ok(Self { source: pattern.into(), engine })
    }

    /// The pattern as the schema has it.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether some part of `text` matches.
    pub(super) fn matches(&self, text: &str, budget: &mut Budget) -> Result<bool, Spent> {
        match &self.engine {
            Engine::Regex { regex, weight } => {
                budget.take(1 + text.len() as u64 * weight / WORK_PER_STEP)?;
                Ok(regex.is_match(text))
            }
            Engine::Look(program) => program.matches(text, budget),
        }
    }
}

/// Whether `text` is a pattern. Only its syntax is read, in time proportional to its length.
pub(super) fn is_pattern(text: &str) -> bool {
    syntax::parse(text).is_ok()
}

impl Syntax {
    /// Whether `is` holds for some part.
    fn has(&self, is: fn(&Self) -> bool) -> bool {
        let below = match self {
            Self::Concat(parts) | Self::Alternation(parts) => parts.iter().any(|part| part.has(is)),
            Self::Repeat { inner, .. } | Self::Look { inner, .. } | Self::Flagged { inner, .. } => {
                inner.has(is)
            }
            _ => false,
        };
        below || is(self)
    }

    /// How many characters are matched at once, at most.
    fn weight(&self) -> u64 {
        match self {
            Self::Char(c) if c.is_ascii() => 1,
            Self::Class(class) if class.is_ascii() => 1,
            Self::Char(_) | Self::Any | Self::Class(_) => SEVERAL_BYTES,
            Self::Start | Self::End | Self::WordBoundary { .. } | Self::BackReference => 1,
            Self::Concat(parts) | Self::Alternation(parts) => {
                parts.iter().fold(1, |sum, part| sum.saturating_add(part.weight()))
            }
            Self::Repeat { inner, min, max } => {
                inner.weight().saturating_mul(u64::from(max.unwrap_or(*min).max(1)))
            }
            Self::Look { inner, .. } | Self::Flagged { inner, .. } => inner.weight().saturating_add(1),
        }
    }

    /// The pattern in the syntax of the `regex` crate.
    fn to_regex(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Char(c) => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            Self::Any => out.push('.'),
            Self::Class(class) => class.write(out),
            Self::Start => out.push('^'),
            Self::End => out.push('$'),
            Self::WordBoundary { negated } => out.push_str(if *negated { r"(?-u:\B)" } else { r"(?-u:\b)" }),
            Self::Concat(parts) => parts.iter().for_each(|part| part.write(out)),
            Self::Alternation(branches) => {
                for (i, branch) in branches.iter().enumerate() {
                    out.push_str(if i == 0 { "(?:" } else { "|" });
                    branch.write(out);
                }
                out.push(')');
            }
            Self::Repeat { inner, min, max } => {
                out.push_str("(?:");
                inner.write(out);
                // Writing to a text cannot fail.
                let _ = match max {
                    Some(max) => write!(out, "){{{min},{max}}}"),
                    None => write!(out, "){{{min},}}"),
                };
            }
            Self::Flagged { flags, inner } => {
                let _ = write!(out, "(?{flags}:");
                inner.write(out);
                out.push(')');
            }
            // Patterns with look-around have another engine, and those with back-references none.
            Self::Look { .. } | Self::BackReference => {}
        }
    }
}

impl Class {
    fn is_ascii(&self) -> bool {
        !self.negated && self.properties.is_empty() && self.ranges.iter().all(|(_, to)| to.is_ascii())
    }

    fn write(&self, out: &mut String) {
        out.push_str(if self.negated { "[^" } else { "[" });
        if self.ranges.is_empty() && self.properties.is_empty() {
            // The empty class matches nothing.
            out.push_str(r"^\x{0}-\x{10FFFF}");
        }
        for &(from, to) in &self.ranges {
            let _ = write!(out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(from), u32::from(to));
        }
        out.push_str(&self.properties);
        out.push(']');
    }
}
