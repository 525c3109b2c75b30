//! The forms of settings, and the parsing of a value into one. The rule of a form is also its error message.

use std::fmt;
use std::time::Duration;

use serde_json::Value as Json;

use super::yaml;

/// Durations beyond this are refused: they would overflow a deadline.
const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 60 * 60);

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The form of the values of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text; empty means not set.
    Text,
    /// Text that cannot be left empty.
    NonEmpty,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds, both included.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A duration such as `5s`.
    Duration {
        /// Shortest value.
        min: Duration,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of text.
    List,
    /// A subtree that its owner checks.
    Structured,
}

/// A value that fits its form.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of `Text`, `NonEmpty` and `Choice`.
    Text(String),
    /// Of `Bool`.
    Bool(bool),
    /// Of `Integer`.
    Integer(i64),
    /// Of `Duration`.
    Duration(Duration),
    /// Of `List`.
    List(Vec<String>),
    /// Of `Structured`.
    Structured(Json),
}

impl Form {
    /// The port of a listener; 0 lets the system choose.
    pub const PORT: Self = Self::Integer { min: 0, max: 65_535 };
    /// Any duration, zero included.
    pub const ANY_DURATION: Self = Self::Duration { min: Duration::ZERO };
    /// A duration that is not zero.
    pub const SOME_TIME: Self = Self::Duration { min: Duration::from_millis(1) };

    /// The rule in words.
    pub fn rule(&self) -> String {
        match self {
            Self::Text => "must be text; put it in quotes".to_owned(),
            Self::NonEmpty => "must be text and not empty".to_owned(),
            Self::Bool => "must be true or false".to_owned(),
            Self::Integer { min, max } => format!("must be a whole number from {min} to {max}"),
            Self::Duration { min } => format!(
                "must be a duration such as 500ms, 5s, 10m, 2h or 7d, from {} to {}",
                Value::Duration(*min),
                Value::Duration(LONGEST)
            ),
            Self::Choice(choices) => format!("must be one of {}", choices.join(", ")),
            Self::List => "must be a list of text such as [a, b]".to_owned(),
            Self::Structured => "must be YAML".to_owned(),
        }
    }

    /// Reads what a flag, a variable or the table's default says.
    pub(super) fn read_text(&self, text: &str) -> Result<Value, String> {
        let value = match *self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::NonEmpty => Some(Value::Text(text.to_owned())).filter(|_| !text.trim().is_empty()),
            Self::Bool => text.parse().ok().map(Value::Bool),
            Self::Integer { min, max } => {
                text.parse().ok().filter(|number| (min..=max).contains(number)).map(Value::Integer)
            }
            Self::Duration { min } => {
                parse_duration(text).filter(|value| (min..=LONGEST).contains(value)).map(Value::Duration)
            }
            Self::Choice(choices) => choices.contains(&text).then(|| Value::Text(text.to_owned())),
            Self::List | Self::Structured => {
                let tree = yaml::read(text).map_err(|fault| format!("must be YAML: {fault}"))?;
                return self.read_json(tree);
            }
        };
        value.ok_or_else(|| self.rule())
    }

    /// Reads what a file says. Scalars in quotes are taken too, because templates quote freely;
    /// text without quotes that YAML takes for a number is refused, because it may have been
    /// changed on the way (`007`).
    pub(super) fn read_json(&self, json: Json) -> Result<Value, String> {
        match (self, json) {
            (Self::Structured, tree) => Ok(Value::Structured(tree)),
            (Self::List, Json::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    Json::String(text) => Ok(text),
                    _ => Err(self.rule()),
                })
                .collect::<Result<_, _>>()
                .map(Value::List),
            (Self::List, _) => Err(self.rule()),
            (_, Json::String(text)) => self.read_text(&text),
            (Self::Bool, Json::Bool(value)) => Ok(Value::Bool(value)),
            (Self::Integer { .. }, Json::Number(number)) => self.read_text(&number.to_string()),
            _ => Err(self.rule()),
        }
    }
}

/// A duration such as `500ms`, `5s`, `10m`, `2h` or `7d`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (_, millis) = UNITS.into_iter().find(|(unit, _)| *unit == &text[digits..])?;
    let count: u64 = text[..digits].parse().ok()?;
    Some(Duration::from_millis(count.checked_mul(millis)?))
}

impl fmt::Display for Value {
    /// The value as a flag or a variable would say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Bool(value) => value.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Duration(value) => {
                let millis = value.as_millis();
                let (unit, size) = UNITS
                    .into_iter()
                    .rev()
                    .find(|(_, size)| millis > 0 && millis.is_multiple_of(u128::from(*size)))
                    .unwrap_or(("s", 1_000));
                write!(f, "{}{unit}", millis / u128::from(size))
            }
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| yaml::scalar(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Structured(tree) => tree.fmt(f),
        }
    }
}
