//! The forms that `-o` offers, and a value in one of those that need no columns.

use std::str::FromStr;

use serde_json::Value;

use super::jsonpath::Template;
use super::{json, text, yaml};

/// What `-o` asked for.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// JSON over several lines.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name` per line, to hand on to another command.
    Name,
    /// The parts that a template picks.
    JsonPath(Template),
}

/// The words of `-o`, for help and completion.
pub(crate) const FORMS: [&str; 6] = ["table", "wide", "json", "yaml", "name", "jsonpath="];

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "name" => Ok(Self::Name),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => {
                    Template::parse(template).map(Self::JsonPath).map_err(|fault| fault.to_string())
                }
                None => Err("one of table, wide, json, yaml, name, jsonpath=TEMPLATE".to_owned()),
            },
        }
    }
}

impl Form {
    /// The value as data with a line feed at its end; `None` for the forms that need columns or names.
    pub(crate) fn value(&self, value: &Value) -> Option<Result<String, String>> {
        match self {
            Self::Json => Some(Ok(json::pretty(value))),
            Self::Yaml => Some(Ok(yaml::write(value))),
            Self::JsonPath(template) => Some(
                template
                    .apply(value)
                    .map(|mut found| {
                        if super::data_on_terminal() {
                            found = text::clean_lines(&found).into_owned();
                        }
                        if !found.ends_with('\n') {
                            found.push('\n');
                        }
                        found
                    })
                    .map_err(|fault| fault.to_string()),
            ),
            Self::Table | Self::Wide | Self::Name => None,
        }
    }
}
