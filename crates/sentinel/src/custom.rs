//! The configurable decision, and configurable members of an event's data, in CEL. Both are compiled at load, and bounded
//! when they run.

use hyperfleet_core::Timestamp;
use hyperfleet_expr::{Expression, Scope, Script};
use serde_json::{Map, Value, json};

use crate::decide::Reason;

const RESOURCE: &str = "resource";
const NOW: &str = "now";
const CONDITION: &str = "condition()";
const REASON: &str = "reason";

/// `message_decision`: whether to publish, by the resource and the clock alone.
#[derive(Debug, Clone)]
pub struct MessageDecision {
    script: Script,
}

impl MessageDecision {
    /// Reads `{params, result}`. The error lists every fault.
    pub fn read(given: &Value) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let members = given.as_object().into_iter().flatten();
        for (name, _) in members.filter(|(name, _)| !["params", "result"].contains(&name.as_str())) {
            faults.push(format!("{name} is unknown; there are params and result"));
        }
        let mut params = Vec::new();
        match given.get("params") {
            None | Some(Value::Null) => {}
            Some(Value::Object(given)) => {
                for (name, source) in given {
                    match source {
                        Value::String(source) => params.push((name.clone(), source.clone())),
                        // YAML parses `true` and `5` to values, which are CEL expressions too.
                        Value::Bool(_) | Value::Number(_) => params.push((name.clone(), source.to_string())),
                        _ => faults.push(format!("params.{name} must be an expression")),
                    }
                }
            }
            Some(_) => faults.push("params must be a mapping of names to expressions".to_owned()),
        }
        let result = match given.get("result") {
            Some(Value::String(result)) => result.clone(),
            Some(Value::Bool(result)) => result.to_string(),
            _ => {
                faults.push("result must be an expression".to_owned());
                "false".to_owned()
            }
        };
        let script = Script::compile(&params, &result, &[RESOURCE, NOW, CONDITION]).map_err(|found| {
            let messages = found.into_iter().map(|fault| match fault.name {
                Some(name) => format!("params.{name}: {}", fault.message),
                None => format!("result: {}", fault.message),
            });
            messages.collect::<Vec<_>>()
        });
        match script {
            Ok(script) if faults.is_empty() => Ok(Self { script }),
            Ok(_) => Err(faults),
            Err(found) => Err(faults.into_iter().chain(found).collect()),
        }
    }

    /// Whether to publish for this resource now.
    pub fn holds(&self, resource: &Value, now: Timestamp) -> Result<bool, String> {
        let conditions = conditions(resource);
        let scope =
            Scope::new().with(RESOURCE, resource).with_time(NOW, now.micros()).with(CONDITION, &conditions);
        self.script.holds(&scope)
    }
}

/// The conditions of a resource, after an empty one that stands for missing ones.
fn conditions(resource: &Value) -> Value {
    let missing = json!({
        "type": "", "status": "", "reason": "", "message": "", "observed_generation": 0,
        "created_time": "", "last_updated_time": "", "last_transition_time": "",
    });
    let there = resource.pointer("/status/conditions").and_then(Value::as_array);
    Value::Array(std::iter::once(missing).chain(there.into_iter().flatten().cloned()).collect())
}

/// `message_data`: what an event says besides the default.
#[derive(Debug, Clone)]
pub struct MessageData(Vec<(String, Member)>);

#[derive(Debug, Clone)]
enum Member {
    Expression(Expression),
    Members(Vec<(String, Member)>),
}

impl MessageData {
    /// Reads a mapping of names to expressions or further mappings. The error lists every fault.
    pub fn read(given: &Value) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let members = read_members("", given, &mut faults);
        if faults.is_empty() { Ok(Self(members)) } else { Err(faults) }
    }

    /// Adds its members to `data`, over those that are there.
    pub fn merge(&self, data: &mut Value, resource: &Value, reason: Reason) -> Result<(), String> {
        let reason = Value::from(reason.as_str());
        let scope = Scope::new().with(RESOURCE, resource).with(REASON, &reason);
        let own = evaluate(&self.0, &scope)?;
        if let Value::Object(data) = data {
            data.extend(own);
        }
        Ok(())
    }
}

fn read_members(at: &str, given: &Value, faults: &mut Vec<String>) -> Vec<(String, Member)> {
    let Value::Object(given) = given else {
        let at = if at.is_empty() { String::new() } else { format!("{at} ") };
        faults.push(format!("{at}must be a mapping of names to expressions"));
        return Vec::new();
    };
    let mut members = Vec::new();
    for (name, value) in given {
        let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match value {
            Value::String(source) => match Expression::compile(source, &[RESOURCE, REASON]) {
                Ok(expression) => members.push((name.clone(), Member::Expression(expression))),
                Err(message) => faults.push(format!("{path}: {message}")),
            },
            Value::Object(_) => {
                members.push((name.clone(), Member::Members(read_members(&path, value, faults))));
            }
            _ => faults.push(format!("{path} must be an expression in quotes")),
        }
    }
    members
}

fn evaluate(members: &[(String, Member)], scope: &Scope<'_>) -> Result<Map<String, Value>, String> {
    let value = |(name, member): &(String, Member)| {
        let value = match member {
            Member::Expression(expression) => {
                expression.evaluate_json(scope).map_err(|message| format!("{name}: {message}"))?
            }
            Member::Members(members) => Value::Object(evaluate(members, scope)?),
        };
        Ok((name.clone(), value))
    };
    members.iter().map(value).collect()
}
