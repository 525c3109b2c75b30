//! Compiles source text to a checked program, with errors for the author of the expression.

use std::thread;

use cel::{Env, ParseErrors};

use crate::MAX_SOURCE_BYTES;
use crate::lower::{Lowering, MAX_DEPTH};
use crate::program::Node;

/// The parser takes some 20 kB of stack for each level of nesting in an unoptimised build, and its tree of
/// a long chain is as deep as the chain. This is room for the worst source of [`MAX_SOURCE_BYTES`]; pages
/// that are not touched cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// How the parser starts a message about the grammar.
const GRAMMAR: &str = "Syntax error: ";

/// Parses and checks a source.
pub(crate) fn parse(source: &str, variables: &[&str]) -> Result<Node, String> {
    if source.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    if source.len() > MAX_SOURCE_BYTES {
        return Err(format!("is {} bytes long; at most {MAX_SOURCE_BYTES} are allowed", source.len()));
    }
    // A thread of its own also contains a panic of the parser.
    thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || parse_here(source, variables))
            .map_err(|error| format!("cannot be checked: {error}"))?
            .join()
            .unwrap_or_else(|_| Err("cannot be read".to_owned()))
    })
}

fn parse_here(source: &str, variables: &[&str]) -> Result<Node, String> {
    // Without the standard macros: `exists` and its like stay calls, which are lowered by name.
    let parser = Env::default().parser().max_recursion_depth(MAX_DEPTH as u16);
    let (tree, positions) =
        parser.parse_with_source_info(source).map_err(|errors| syntax(&errors, source))?;
    Lowering::new(variables).lower(&tree).map_err(|fault| match positions.offset_for(fault.at) {
        Some((start, _)) => {
            let (line, column) = line_and_column(source, (start as usize).saturating_sub(fault.back));
            format!("line {line}, column {column}: {}", fault.message)
        }
        None => fault.message,
    })
}

/// Line and column of a byte.
fn line_and_column(source: &str, start: usize) -> (isize, isize) {
    let before = source.get(..start).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line as isize, column as isize)
}

/// The first of the parser's errors, if possible one of the grammar; the others mostly follow from it.
fn syntax(errors: &ParseErrors, source: &str) -> String {
    let of_grammar = errors.errors.iter().find(|error| error.msg.starts_with(GRAMMAR));
    let Some(error) = of_grammar.or(errors.errors.first()) else { return "cannot be read".to_owned() };
    let (line, column) = error.pos;
    let message = error.msg.strip_prefix(GRAMMAR).unwrap_or(&error.msg);
    let quoted =
        |prefix| message.strip_prefix(prefix).map(|rest| rest.split(" expecting").next().unwrap_or(rest));
    let message = if message.contains("Recursion limit") {
        format!("nested deeper than {MAX_DEPTH} levels")
    } else if error.pos >= line_and_column(source, source.trim_end().len()) {
        "the expression ends too early".to_owned()
    } else if let Some(text) = ["mismatched input ", "extraneous input ", "no viable alternative at input "]
        .into_iter()
        .chain(["token recognition error at: "])
        .find_map(quoted)
    {
        format!("unexpected {text}")
    } else {
        message.to_owned()
    };
    format!("line {line}, column {column}: {message}")
}
