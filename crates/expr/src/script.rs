//! Named expressions that may use each other, and one that uses them all. They are put in an order at load, and share
//! the steps of one evaluation.

use std::fmt;
use std::sync::Arc;

use crate::dialect::Dialect;
use crate::evaluate::Evaluation;
use crate::parse::parse;
use crate::program::Node;
use crate::scope::Scope;
use crate::value::Value;
use crate::{cut, memory};

/// A checked script whose result is a truth value.
#[derive(Clone)]
pub struct Script {
    variables: Box<[Box<str>]>,
    /// In an order in which each needs only those before it, the result last.
    nodes: Arc<[Node]>,
}

/// A fault of one of the expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFault {
    /// Of this name; nothing for the result.
    pub name: Option<String>,
    /// One line with the fault and its position.
    pub message: String,
}

impl Script {
    /// Compiles parameters and a result that may use `variables` and the parameters. Every fault is reported.
    pub fn compile(
        params: &[(String, String)],
        result: &str,
        variables: &[&str],
    ) -> Result<Self, Vec<ScriptFault>> {
        let fault =
            |name: &str, message: &str| ScriptFault { name: Some(name.to_owned()), message: cut(message) };
        let mut known: Vec<&str> = variables.to_vec();
        let mut faults = Vec::new();
        for (i, (name, _)) in params.iter().enumerate() {
            let taken = variables.iter().any(|it| it.trim_end_matches("()") == name);
            if taken || params[..i].iter().any(|(before, _)| before == name) {
                faults.push(fault(name, "is the name of something else"));
            }
        }
        let mut nodes = Vec::new();
        let mut waiting: Vec<_> = params.iter().collect();
        loop {
            let before = waiting.len();
            waiting.retain(|(name, source)| match read(source, &known) {
                Ok(node) => {
                    nodes.push(node);
                    known.push(name);
                    false
                }
                Err(_) => true,
            });
            if waiting.len() == before {
                break;
            }
        }
        // With every name known, what is left is a fault of its own, or a circle.
        let own = params.iter().map(|(name, _)| name.as_str());
        let all: Vec<_> = variables.iter().copied().chain(own).collect();
        let faulty = |(name, source): &&(String, String)| Some(fault(name, &read(source, &all).err()?));
        let own: Vec<_> = waiting.iter().filter_map(faulty).collect();
        if own.is_empty() {
            faults.extend(
                waiting.iter().map(|(name, _)| fault(name, "needs itself, directly or through others")),
            );
        }
        faults.extend(own);
        match read(result, if waiting.is_empty() { &known } else { &all }) {
            Ok(node) => nodes.push(node),
            Err(message) => faults.push(ScriptFault { name: None, message: cut(&message) }),
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { variables: variables.iter().map(|name| Box::from(*name)).collect(), nodes: nodes.into() })
    }

    /// Whether the result holds. The error is one short line without anything of the scope's values in it.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, String> {
        let Some((result, params)) = self.nodes.split_last() else { return Err("is empty".to_owned()) };
        let mut run = Evaluation::new(Dialect::Rule, memory(&self.variables, scope), scope.now());
        for param in params {
            run.keep(param).map_err(|stop| cut(&stop.to_string()))?;
        }
        match run.run(result) {
            Ok(Value::Bool(held)) => Ok(held),
            Ok(other) => Err(format!("came to {} instead of bool", other.kind())),
            Err(stop) => Err(cut(&stop.to_string())),
        }
    }
}

fn read(source: &str, variables: &[&str]) -> Result<Node, String> {
    match parse(Dialect::Rule, source, Some(variables)) {
        Ok(parsed) => Ok(parsed.root),
        Err(fault) => Err(cut(&fault.to_string())),
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("expressions", &self.nodes.len()).finish_non_exhaustive()
    }
}
