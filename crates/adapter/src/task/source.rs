//! Expressions and templates of a task, compiled at load. A name that nothing defines is no error there, because files
//! that name such a thing run today: it is told, and reading it fails.

use hyperfleet_core::Timestamp;
use hyperfleet_expr::{Expression, Fault, Scope, Template};
use serde_json::{Map, Value};

/// An expression.
#[derive(Debug, Clone)]
pub(crate) struct Expr(Expression);

/// A template.
#[derive(Debug, Clone)]
pub(crate) struct Text(Template);

/// What expressions may read.
pub(crate) trait Variables {
    /// The value of a name.
    fn get(&self, name: &str) -> Option<&Value>;
}

impl Variables for Map<String, Value> {
    fn get(&self, name: &str) -> Option<&Value> {
        Self::get(self, name)
    }
}

impl Expr {
    pub(crate) fn compile(source: &str) -> Result<Self, Fault> {
        Expression::task(source.trim_end()).map(Self)
    }

    /// Its names that are not among the known.
    pub(crate) fn unknown(&self, known: &[&str]) -> Vec<Fault> {
        hyperfleet_expr::unknown(self.0.names(), known)
    }

    /// Evaluates it over variables. The error holds nothing of their values.
    pub(crate) fn evaluate(&self, variables: &dyn Variables, now: Timestamp) -> Result<Value, String> {
        let mut scope = Scope::task(now.micros());
        for name in self.roots() {
            if let Some(value) = variables.get(name) {
                scope = scope.with(name, value);
            }
        }
        self.0.evaluate_json(&scope)
    }

    pub(crate) fn source(&self) -> &str {
        self.0.source()
    }

    pub(crate) fn reads(&self, name: &str) -> bool {
        self.roots().any(|read| read == name)
    }

    fn roots(&self) -> impl Iterator<Item = &str> {
        self.0.names().iter().filter_map(|name| name.path.first()).map(String::as_str)
    }
}

pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

impl Text {
    pub(crate) fn compile(source: &str) -> Result<Self, Fault> {
        Template::compile(source).map(Self)
    }

    pub(crate) fn reads(&self, name: &str) -> bool {
        self.0.names().iter().any(|read| read.path.first().is_some_and(|root| root == name))
    }

    /// Its names that are not among the known.
    pub(crate) fn unknown(&self, known: &[&str]) -> Vec<Fault> {
        hyperfleet_expr::unknown(self.0.names(), known)
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.0.is_plain()
    }

    pub(crate) fn render(&self, variables: &Map<String, Value>, now: Timestamp) -> Result<String, String> {
        self.0.render(variables, now.micros())
    }
}
