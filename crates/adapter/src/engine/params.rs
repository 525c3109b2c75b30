//! The first phase: values out of the event, the environment, the configuration, files, calls and expressions.

use serde_json::Value;

use super::effect::{Answer, Effect};
use super::run::{Failure, FailureClass, Run};
use crate::task::{ParamKind, Source, dotted_value};
use crate::values::{to_bool, to_integer, to_real, to_text};

/// The name of the phase, as expressions and metrics know it.
pub(super) const PHASE: &str = "param_extraction";

impl Run {
    pub(super) async fn extract_params(&mut self) -> Result<(), Failure> {
        let program = self.program.clone();
        for param in &program.task.params {
            let value = match self.extract(&param.name, &param.source, param.required).await {
                Ok(value) => convert(value, param.kind, param.default.as_ref(), &param.source)
                    .map_err(|why| Failure::of_author(PHASE, &param.name, why)),
                Err(failure) => Err(failure),
            };
            match value {
                Ok(Value::Null) => {}
                Ok(value) => self.define(&param.name, value),
                // What may pass is no reason to go on with a default.
                Err(failure) if param.required || failure.may_pass() => return Err(failure),
                Err(failure) => {
                    self.journal.warnings.push(format!("params.{}: {}", param.name, failure.message));
                    if let Some(default) = &param.default {
                        self.define(&param.name, default.clone());
                    }
                }
            }
        }
        Ok(())
    }

    async fn extract(&mut self, name: &str, source: &Source, required: bool) -> Result<Value, Failure> {
        let missing = |what: String| Failure {
            class: FailureClass::Terminal,
            ..Failure::of_author(PHASE, name, format!("{what} is not there"))
        };
        let found = match source {
            Source::Environment(variable) => self
                .program
                .environment
                .get(variable)
                .cloned()
                .ok_or_else(|| missing(format!("the environment variable {variable}"))),
            Source::Event(path) => dotted_value(&self.params["event"], path)
                .cloned()
                .ok_or_else(|| missing(format!("event.{path}"))),
            Source::Config(path) => dotted_value(&self.program.config, path)
                .cloned()
                .ok_or_else(|| missing(format!("config.{path}"))),
            Source::Path(path) => {
                let root = path.split('.').next().unwrap_or_default();
                let held = match self.params.get(root) {
                    Some(value) => match path.split_once('.') {
                        Some((_, rest)) => dotted_value(value, rest),
                        None => Some(value),
                    },
                    None => dotted_value(&self.params["event"], path),
                };
                held.cloned().ok_or_else(|| missing(path.clone()))
            }
            Source::Call(call) => {
                let answer = self.call(call, PHASE, name).await?;
                match answer {
                    Value::Object(_) => Ok(answer),
                    _ => Err(Failure::of_author(PHASE, name, "the answer is no JSON object".to_owned())),
                }
            }
            Source::Expression(expression) => {
                self.evaluate(expression).map_err(|why| Failure::of_author(PHASE, name, why))
            }
            Source::File { path, trim } => {
                let text = match self.ask(Effect::File { path: path.clone() }).await {
                    Answer::File(Ok(text)) => text,
                    Answer::File(Err(why)) => return Err(Failure::of_author(PHASE, name, why)),
                    _ => return Err(missing(format!("the file {path}"))),
                };
                Ok(Value::String(if *trim { text.trim().to_owned() } else { text }))
            }
        }?;
        let empty = found.is_null() || found.as_str().is_some_and(|text| text.trim().is_empty());
        if empty && required && matches!(source, Source::File { .. }) {
            return Err(missing("a value".to_owned()));
        }
        Ok(found)
    }
}

/// The value with its default and type.
fn convert(
    value: Value,
    kind: Option<ParamKind>,
    default: Option<&Value>,
    source: &Source,
) -> Result<Value, String> {
    let is_empty = value.is_null() || value.as_str() == Some("");
    let value = if is_empty { default.cloned().unwrap_or(value) } else { value };
    let typed = !matches!(source, Source::Call(_) | Source::Expression(_));
    let Some(kind) = kind.filter(|_| typed && !value.is_null()) else { return Ok(value) };
    let (converted, name) = match kind {
        ParamKind::Text => (Some(to_text(&value)), "text"),
        ParamKind::Integer => (to_integer(&value), "a whole number"),
        ParamKind::Real => (to_real(&value), "a number"),
        ParamKind::Bool => (to_bool(&value), "true or false"),
    };
    converted.ok_or_else(|| format!("the value is not {name}"))
}
