//! Whether every block of a source ends. The parser takes the end of the source for the end of any block, stops at an
//! `{{end}}` too many, and goes one call deeper for each `{{else if}}`.

use super::MAX_DEPTH;
use crate::fault::{Fault, position};

/// A block that is open, how many levels it takes and whether it may have an `else`.
struct Block<'s> {
    keyword: &'s str,
    at: usize,
    levels: usize,
}

pub(super) fn check(source: &str) -> Result<(), Fault> {
    let mut open: Vec<Block<'_>> = Vec::new();
    let mut levels = 0;
    let mut at = 0;
    while let Some(found) = source[at..].find("{{") {
        let start = at + found;
        let Some(action) = Action::read(source, start + 2) else { break };
        at = action.end;
        let fault = |message: &str| Err(Fault::new(position(source, start), message));
        match action.keyword {
            "if" | "with" | "range" | "define" | "block" => {
                open.push(Block { keyword: action.keyword, at: start, levels: 1 });
                levels += 1;
            }
            "else" => match open.last_mut() {
                Some(block) if block.keyword != "define" && block.keyword != "block" => {
                    block.levels += 1;
                    levels += 1;
                }
                _ => return fault("this {{else}} belongs to no {{if}}, {{with}} or {{range}}"),
            },
            "end" => match open.pop() {
                Some(block) => levels -= block.levels,
                None => return fault("this {{end}} ends nothing"),
            },
            _ => {}
        }
        if levels > MAX_DEPTH {
            return fault(&format!("nested deeper than {MAX_DEPTH} levels"));
        }
    }
    match open.last() {
        Some(block) => {
            let fault = format!("this {{{{{}}}}} has no {{{{end}}}}", block.keyword);
            Err(Fault::new(position(source, block.at), &fault))
        }
        None => Ok(()),
    }
}

struct Action<'s> {
    /// Its first word, if it starts with one.
    keyword: &'s str,
    /// Where the text goes on.
    end: usize,
}

impl<'s> Action<'s> {
    /// Nothing when it does not end: the parser says so better.
    fn read(source: &'s str, start: usize) -> Option<Self> {
        let rest = &source[start..];
        let inner =
            rest.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace)).unwrap_or(rest);
        let inner = inner.trim_start();
        if inner.starts_with("/*") {
            let end = rest.find("*/")?;
            return Some(Self { keyword: "", end: start + end + rest[end..].find("}}")? + 2 });
        }
        let word = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let mut quote = None;
        let mut escaped = false;
        for (i, c) in rest.char_indices() {
            match quote {
                Some(_) if escaped => escaped = false,
                Some('"' | '\'') if c == '\\' => escaped = true,
                Some(mark) if c == mark => quote = None,
                None if rest[i..].starts_with("}}") => {
                    return Some(Self { keyword: &inner[..word], end: start + i + 2 });
                }
                None if matches!(c, '"' | '\'' | '`') => quote = Some(c),
                _ => {}
            }
        }
        None
    }
}
