//! Compiles source text to a checked program, with errors for the author of the expression.

use std::thread;

use cel::{Env, ParseErrors};

use crate::dialect::Dialect;
use crate::fault::{Fault, position};
use crate::lower::{Lowering, MAX_DEPTH};
use crate::names::Name;
use crate::program::Node;
use crate::reads::reads;

/// The parser takes some 20 kB of stack for each level of nesting in an unoptimised build, and its tree of
/// a long chain is as deep as the chain. This is room for the worst source of 4 KiB; longer ones get more. Pages
/// that are not touched cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// How the parser starts a message about the grammar.
const GRAMMAR: &str = "Syntax error: ";

/// A program, and what it reads.
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) names: Vec<Name>,
    pub(crate) variables: Vec<Box<str>>,
}

/// Parses and checks a source that may read these variables, or any if there are none given.
pub(crate) fn parse(dialect: Dialect, source: &str, variables: Option<&[&str]>) -> Result<Parsed, Fault> {
    if source.trim().is_empty() {
        return Err(Fault::of_all("is empty"));
    }
    let most = dialect.source_bytes();
    if source.len() > most {
        return Err(Fault::of_all(&format!("is {} bytes long; at most {most} are allowed", source.len())));
    }
    let stack = STACK_BYTES * most.div_ceil(crate::MAX_SOURCE_BYTES);
    // A thread of its own also contains a panic of the parser.
    thread::scope(|scope| {
        thread::Builder::new()
            .stack_size(stack)
            .spawn_scoped(scope, || parse_here(dialect, source, variables))
            .map_err(|error| Fault::of_all(&format!("cannot be checked: {error}")))?
            .join()
            .unwrap_or_else(|_| Err(Fault::of_all("cannot be read")))
    })
}

fn parse_here(dialect: Dialect, source: &str, variables: Option<&[&str]>) -> Result<Parsed, Fault> {
    // Without the standard macros: `exists` and its like stay calls, which are lowered by name.
    let parser = Env::default().parser().max_recursion_depth(MAX_DEPTH as u16);
    let (tree, positions) =
        parser.parse_with_source_info(source).map_err(|errors| syntax(&errors, source))?;
    let at = |id: u64, back: usize| {
        positions.offset_for(id).map(|(start, _)| position(source, (start as usize).saturating_sub(back)))
    };
    let mut names = Vec::new();
    let mut known: Vec<Box<str>> =
        variables.unwrap_or_default().iter().map(|name| Box::from(*name)).collect();
    if variables.is_none() {
        for (id, path) in reads(&tree) {
            if !known.iter().any(|known| **known == *path[0]) {
                known.push(path[0].as_str().into());
            }
            let (line, column) = at(id, 0).unwrap_or((1, 1));
            names.push(Name { path, line, column });
        }
    }
    let lowered = Lowering::new(dialect, &known).lower(&tree);
    let root = lowered.map_err(|wrong| match at(wrong.at, wrong.back) {
        Some(position) => Fault::new(position, &wrong.message),
        None => Fault::of_all(&wrong.message),
    })?;
    Ok(Parsed { root, names, variables: known })
}

/// The first of the parser's errors, if possible one of the grammar; the others mostly follow from it.
fn syntax(errors: &ParseErrors, source: &str) -> Fault {
    let of_grammar = errors.errors.iter().find(|error| error.msg.starts_with(GRAMMAR));
    let Some(error) = of_grammar.or(errors.errors.first()) else { return Fault::of_all("cannot be read") };
    let at = (usize::try_from(error.pos.0).unwrap_or(1), usize::try_from(error.pos.1).unwrap_or(1));
    let message = error.msg.strip_prefix(GRAMMAR).unwrap_or(&error.msg);
    let quoted =
        |prefix| message.strip_prefix(prefix).map(|rest| rest.split(" expecting").next().unwrap_or(rest));
    let message = if message.contains("Recursion limit") {
        format!("nested deeper than {MAX_DEPTH} levels")
    } else if at >= position(source, source.trim_end().len()) {
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
    Fault::new(at, &message)
}
