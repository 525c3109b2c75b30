//! Expressions in CEL behind one small type: compiled and checked once, evaluated often.
//!
//! The language's parser is the `cel` crate's. Its interpreter is not used, because expressions run on
//! input that others wrote, inside a transaction: an evaluation here ends after a fixed number of steps, walks
//! maps in the order of their keys so that equal input gives equal output, shows no secret, and fails
//! with messages that repeat nothing of the input.
#![forbid(unsafe_code)]

mod evaluate;
mod functions;
mod lower;
mod names;
mod operators;
mod parse;
mod program;
mod scope;
mod script;
mod time;
mod value;

use std::fmt;
use std::sync::Arc;

pub use names::edits;
pub use scope::{REDACTED, Scope};
pub use script::{Script, ScriptFault};

use evaluate::Evaluation;
use program::Node;
use value::Value;

/// Longest source in bytes.
pub const MAX_SOURCE_BYTES: usize = 4096;

/// Longest message of a failure in characters.
const MAX_MESSAGE_CHARS: usize = 256;

/// A checked expression. Two are equal when their source and variables are.
#[derive(Clone)]
pub struct Expression {
    source: Box<str>,
    variables: Box<[Box<str>]>,
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
        let root = parse::parse(source, variables).map_err(|message| cut(&message))?;
        Ok(Self {
            source: source.into(),
            variables: variables.iter().map(|name| Box::from(*name)).collect(),
            root: Arc::new(root),
        })
    }

    /// Whether it reads no variable but these.
    pub fn needs_only(&self, variables: &[&str]) -> bool {
        parse::parse(&self.source, variables).is_ok()
    }

    /// Its source text.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates it to a JSON value; times and durations become text.
    pub fn evaluate_json(&self, scope: &Scope<'_>) -> Result<serde_json::Value, String> {
        let mut run = Evaluation::new(self.memory(scope)?);
        let mut json = String::new();
        run.run(&self.root)
            .and_then(|value| functions::write_json(&mut run, &value, &mut json, 0))
            .map_err(|stop| cut(&stop.to_string()))?;
        serde_json::from_str(&json).map_err(|_| "has no value in JSON".to_owned())
    }

    /// Evaluates it. The error is one short line without anything of the scope's values in it.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Outcome, String> {
        match Evaluation::new(self.memory(scope)?).run(&self.root) {
            Ok(Value::Bool(held)) => Ok(Outcome::Bool(held)),
            Ok(Value::Text(text)) => Ok(Outcome::Text(text.to_string())),
            Ok(other) => Ok(Outcome::Other(other.kind())),
            Err(stop) => Err(cut(&stop.to_string())),
        }
    }

    fn memory<'s>(&self, scope: &Scope<'s>) -> Result<Vec<Value<'s>>, String> {
        memory(&self.variables, scope)
    }
}

/// The variables of a scope in the order of their names.
fn memory<'s>(names: &[Box<str>], scope: &Scope<'s>) -> Result<Vec<Value<'s>>, String> {
    let get = |name: &str| scope.get(name).ok_or_else(|| cut(&format!("nothing is known as {name}")));
    names.iter().map(|name| get(name)).collect()
}

fn cut(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE_CHARS).collect()
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.variables == other.variables
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}
