//! Go's text templates behind one small type: compiled and checked once, rendered often.
//!
//! The language's parser is the `gotmpl` crate's. Its interpreter is not used: it would copy a whole scope for each
//! render, does not bound what its functions make, and does not say where a failure happened. Here values are read
//! where they stand, every node and every made byte costs steps, and a failure names its line. Numbers are written as
//! JSON writes them: a million is `1000000`, where Go writes `1e+06`.

mod blocks;
mod check;
mod date;
mod functions;
mod print;
mod render;

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use gotmpl::TemplateError;
use gotmpl::parse::{ListNode, Parser};
use serde_json::{Map, Value as Json};

use crate::fault::{Fault, position};
use crate::names::Name;

/// Longest source in bytes.
const MAX_SOURCE_BYTES: usize = 256 << 10;

/// Deepest nesting of blocks in a source, and of blocks and called templates in a render.
const MAX_DEPTH: usize = 100;

/// A checked template. Two are equal when their sources are.
#[derive(Clone)]
pub struct Template {
    source: Arc<str>,
    /// Nothing for text without actions.
    program: Option<Arc<Program>>,
    names: Arc<[Name]>,
}

struct Program {
    body: ListNode,
    /// What `define` and `block` name.
    defined: HashMap<String, ListNode>,
}

impl Template {
    /// Compiles a source; functions, variables and templates that it names must be there.
    pub fn compile(source: &str) -> Result<Self, Fault> {
        if !source.contains("{{") {
            return Ok(Self { source: source.into(), program: None, names: [].into() });
        }
        if source.len() > MAX_SOURCE_BYTES {
            let length = source.len();
            let fault =
                format!("is {length} bytes long; at most {MAX_SOURCE_BYTES} are allowed in a template");
            return Err(Fault::of_all(&fault));
        }
        blocks::check(source)?;
        let parsed = catch_unwind(AssertUnwindSafe(|| Parser::new(source, "{{", "}}")?.parse()));
        let (body, defines) = match parsed {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(error)) => return Err(syntax(source, &error)),
            Err(_) => return Err(Fault::of_all("cannot be read")),
        };
        let mut defined = HashMap::with_capacity(defines.len());
        for define in defines {
            let name = define.name.to_string();
            if let Some(known) =
                defined.insert(name, define.body).filter(|known: &ListNode| !known.is_empty_tree())
            {
                let at = position(source, known.pos.offset.max(define.pos.offset));
                return Err(Fault::new(at, &format!("template '{}' is defined twice", define.name)));
            }
        }
        let program = Program { body, defined };
        let names = check::check(source, &program)?;
        Ok(Self { source: source.into(), program: Some(Arc::new(program)), names: names.into() })
    }

    /// Its source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it renders to its source, whatever the scope is.
    pub fn is_plain(&self) -> bool {
        self.program.is_none()
    }

    /// What it reads from its scope, in the order of the source. A scope that lacks one makes the render fail where it
    /// comes to read it.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// Renders it at a time in microseconds since 1970, to at most 1 MiB. Values are not masked. The error is one line
    /// with the position, without anything of the scope's values in it.
    pub fn render(&self, scope: &Map<String, Json>, now: i64) -> Result<String, String> {
        match &self.program {
            None => Ok(self.source.to_string()),
            Some(program) => {
                render::render(program, scope, now).map_err(|stop| stop.fault(&self.source).to_string())
            }
        }
    }
}

fn syntax(source: &str, error: &TemplateError) -> Fault {
    match error {
        TemplateError::Parse { line, col, message, .. } | TemplateError::Lex { line, col, message, .. } => {
            Fault::new((*line.max(&1), *col.max(&1)), message)
        }
        _ => Fault::new(position(source, 0), "cannot be read"),
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Template {}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}
