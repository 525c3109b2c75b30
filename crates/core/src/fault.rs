//! A fault of a request: field, rule and value. Faults are collected, so that a caller can correct all of them at once.

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::{Error, ErrorKind};

/// The most faults of one response, because a hostile body can hold very many.
const MAX_LISTED: usize = 1_000;

/// How many bytes of a list or an object are printed to be echoed.
const MAX_START: usize = 4096;

/// Which family of validation error a fault belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A required field is missing.
    Missing,
    /// A field's value breaks a rule.
    Value,
    /// The shape of a document is wrong, such as an unknown member.
    Shape,
    /// A parameter is wrong, such as a search.
    Parameter,
    /// An identifier that names what the request is about is wrong.
    Identifier,
}

/// One entry of a problem's `errors`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// The family, which decides the code when the fault stands alone.
    #[serde(skip)]
    pub kind: FaultKind,
    /// Path in the document such as `labels['a b']`, or the parameter's name.
    pub field: String,
    /// A sentence for the caller.
    pub message: String,
    /// The value given, cut to what is safe to echo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The rule's name, such as `required` or `max_length`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<&'static str>,
    /// What would have been accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_values: Vec<String>,
    /// The smallest value or length accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_value: Option<Value>,
    /// The largest value or length accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_value: Option<Value>,
    /// The pattern to fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The format to fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

impl Fault {
    /// A fault of some family, with its sentence.
    pub fn new(kind: FaultKind, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            field: field.into(),
            message: message.into(),
            value: None,
            constraint: None,
            allowed_values: Vec::new(),
            min_value: None,
            max_value: None,
            pattern: None,
            format: None,
        }
    }

    /// A required field that is not there.
    pub fn missing(field: impl Into<String>) -> Self {
        let field = field.into();
        let message = format!("{field} is required");
        Self::new(FaultKind::Missing, field, message).rule("required")
    }

    /// A value that breaks a rule.
    pub fn value(field: impl Into<String>, message: impl Into<String>, given: &Value) -> Self {
        Self::new(FaultKind::Value, field, message).given(given)
    }

    /// A value of the wrong JSON type.
    pub fn wrong_type(field: impl Into<String>, expected: &str, given: &Value) -> Self {
        let field = field.into();
        let message = format!("{field} must be {expected}, not {}", type_name(given));
        Self::value(field, message, given).rule("type")
    }

    /// An unknown member of the document.
    pub fn unknown_member(field: impl Into<String>) -> Self {
        let field = echo(&field.into());
        let message = format!("{field} is not a known member");
        Self::new(FaultKind::Shape, field, message).rule("unknown")
    }

    /// Names the rule.
    #[must_use]
    pub fn rule(mut self, constraint: &'static str) -> Self {
        self.constraint = Some(constraint);
        self
    }

    /// Adds the value given, cut to what is safe to echo.
    #[must_use]
    pub fn given(mut self, value: &Value) -> Self {
        self.value = Some(match value {
            Value::String(text) => Value::String(echo(text)),
            Value::Array(_) | Value::Object(_) => Value::String(echo(&start_of(value))),
            Value::Number(number) if number.as_str().len() > 256 => Value::String(echo(number.as_str())),
            plain => plain.clone(),
        });
        self
    }

    /// Adds the bounds of a value or length.
    #[must_use]
    pub fn bounds(mut self, min: impl Into<Option<u64>>, max: impl Into<Option<u64>>) -> Self {
        self.min_value = min.into().map(Value::from);
        self.max_value = max.into().map(Value::from);
        self
    }

    /// Adds what would have been accepted.
    #[must_use]
    pub fn allowed<T: Into<String>>(mut self, values: impl IntoIterator<Item = T>) -> Self {
        self.allowed_values = values.into_iter().map(Into::into).collect();
        self
    }

    /// Adds the pattern to fit.
    #[must_use]
    pub fn pattern(mut self, pattern: &str) -> Self {
        self.pattern = Some(pattern.to_owned());
        self.rule("pattern")
    }

    /// Adds the format to fit.
    #[must_use]
    pub fn format(mut self, format: &str) -> Self {
        self.format = Some(format.to_owned());
        self.rule("format")
    }
}

/// Faults gathered while a request is checked, in document order.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Just this one.
    pub fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// Adds one.
    pub fn push(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    /// Adds several.
    pub fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.0.extend(faults);
    }

    /// Puts them in the order of the fields that they are about.
    pub fn sort_by_field<K: Ord>(&mut self, mut key: impl FnMut(&str) -> K) {
        self.0.sort_by_cached_key(|fault| key(&fault.field));
    }

    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` when nothing was wrong, else the error that lists every fault.
    pub fn or<T>(self, value: T) -> Result<T, Error> {
        if self.0.is_empty() { Ok(value) } else { Err(self.into_error()) }
    }

    /// The error that lists every fault, up to a number that still helps. There must be one.
    pub fn into_error(mut self) -> Error {
        let count = self.0.len();
        let detail = match self.0.as_slice() {
            [only] => only.message.clone(),
            _ if count > MAX_LISTED => {
                format!(
                    "Request validation failed with {count} errors, of which the first {MAX_LISTED} are listed"
                )
            }
            _ => format!("Request validation failed with {count} errors"),
        };
        self.0.truncate(MAX_LISTED);
        Error::new(ErrorKind::Invalid, detail).with_faults(self.0)
    }
}

impl From<Vec<Fault>> for Faults {
    fn from(faults: Vec<Fault>) -> Self {
        Self(faults)
    }
}

impl IntoIterator for Faults {
    type Item = Fault;
    type IntoIter = std::vec::IntoIter<Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// User input made safe to repeat in a message: no control characters, at most 256 characters.
pub fn echo(text: &str) -> String {
    let mut safe: String = text.chars().filter(|c| !c.is_control()).take(256).collect();
    if text.chars().nth(256).is_some() {
        safe.pop();
        safe.push('…');
    }
    safe
}

/// The start of a value as JSON, more than is ever echoed: a hundred faults may be about the whole of a large document.
fn start_of(value: &Value) -> String {
    let mut start = Start(Vec::new());
    // The error is that there is enough.
    let _ = serde_json::to_writer(&mut start, value);
    String::from_utf8_lossy(&start.0).into_owned()
}

struct Start(Vec<u8>);

impl io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_START.saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() < room { Ok(bytes.len()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
