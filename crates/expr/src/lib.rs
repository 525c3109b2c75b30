//! Expressions in CEL behind one small type: compiled and checked once, evaluated often.
//!
//! The language's parser is the `cel` crate's. Its interpreter is not used, because expressions run on
//! input that others wrote, inside a transaction: an evaluation here ends after a fixed number of steps, walks
//! maps in the order of their keys so that equal input gives equal output, shows no secret, and fails
//! with messages that repeat nothing of the input.
#![forbid(unsafe_code)]

mod conditions;
mod dialect;
mod evaluate;
mod fault;
mod format;
mod functions;
mod lists;
mod lower;
mod names;
mod operators;
mod parse;
mod program;
mod reads;
mod scope;
mod script;
mod strings;
mod template;
mod time;
mod value;

use std::fmt;
use std::sync::Arc;

pub use fault::Fault;
pub use names::{Name, edits, hint, unknown};
pub use scope::{REDACTED, Scope};
pub use script::{Script, ScriptFault};
pub use template::Template;

use dialect::Dialect;
use evaluate::{Evaluation, Memory};
use parse::{Parsed, parse};
use program::Node;
use value::Value;

/// Longest source of a rule in bytes; one in a task file may be four times as long.
pub const MAX_SOURCE_BYTES: usize = 4096;

/// Longest message of a failure in characters.
const MAX_MESSAGE_CHARS: usize = 256;

/// A checked expression. Two are equal when their source and variables are.
#[derive(Clone)]
pub struct Expression {
    dialect: Dialect,
    source: Box<str>,
    variables: Box<[Box<str>]>,
    names: Arc<[Name]>,
    root: Arc<Node>,
}

/// The result of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// Another value, by the name of its type.
    Other(&'static str),
}

impl Expression {
    /// Compiles a source that may use `variables` and no other. A variable with parentheses behind its name, as in
    /// `condition()`, is a function: over a list of objects, it finds the one whose `type` is its argument, or else the
    /// first of the list. The error is one line that says what is
    /// wrong and where.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, String> {
        let parsed =
            parse(Dialect::Rule, source, Some(variables)).map_err(|fault| cut(&fault.to_string()))?;
        Ok(Self::of(Dialect::Rule, source, parsed))
    }

    /// Compiles an expression of a task file, which may read any variable: what an execution knows at a step depends on
    /// the steps before it. Reading one that the scope lacks is a failure of the evaluation; [`unknown`] tells before.
    /// Beside what rules have, it knows the time, patterns that are no literals and calculations of whole with real
    /// numbers, and may be longer, take longer and result in at most 1 MiB.
    pub fn task(source: &str) -> Result<Self, Fault> {
        Ok(Self::of(Dialect::Task, source, parse(Dialect::Task, source, None)?))
    }

    fn of(dialect: Dialect, source: &str, parsed: Parsed) -> Self {
        let Parsed { root, names, variables } = parsed;
        let (names, root) = (names.into(), Arc::new(root));
        Self { dialect, source: source.into(), variables: variables.into(), names, root }
    }

    /// What an expression of a task file reads from its scope, in the order of the source.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// Whether it reads no variable but these.
    pub fn needs_only(&self, variables: &[&str]) -> bool {
        parse(self.dialect, &self.source, Some(variables)).is_ok()
    }

    /// Its source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates it to a JSON value; times and durations become text.
    pub fn evaluate_json(&self, scope: &Scope<'_>) -> Result<serde_json::Value, String> {
        let mut run = self.run(scope);
        let mut json = String::new();
        run.run(&self.root)
            .and_then(|value| functions::write_json(&mut run, &value, &mut json, 0))
            .and_then(|()| run.bound_result(json.len()))
            .map_err(|stop| cut(&stop.to_string()))?;
        serde_json::from_str(&json).map_err(|_| "has no value in JSON".to_owned())
    }

    /// Evaluates it. The error is one short line without anything of the scope's values in it.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Outcome, String> {
        let mut run = self.run(scope);
        let value = run.run(&self.root).and_then(|value| {
            if let Value::Text(text) = &value {
                run.bound_result(text.len())?;
            }
            Ok(value)
        });
        match value {
            Ok(Value::Bool(held)) => Ok(Outcome::Bool(held)),
            Ok(Value::Text(text)) => Ok(Outcome::Text(text.to_string())),
            Ok(other) => Ok(Outcome::Other(other.kind())),
            Err(stop) => Err(cut(&stop.to_string())),
        }
    }

    fn run<'s>(&'s self, scope: &Scope<'s>) -> Evaluation<'s> {
        Evaluation::new(self.dialect, memory(&self.variables, scope), scope.now())
    }
}

/// The variables of a scope in the order of their names.
fn memory<'s>(names: &'s [Box<str>], scope: &Scope<'s>) -> Memory<'s> {
    names.iter().map(|name| scope.get(name).ok_or(&**name)).collect()
}

fn cut(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE_CHARS).collect()
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.dialect == other.dialect && self.source == other.source && self.variables == other.variables
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}
