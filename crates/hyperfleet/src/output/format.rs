//! The formats of `-o`, and a value in one that needs no columns.

use std::str::FromStr;

use serde_json::Value;

use super::jsonpath::Template;
use super::{json, message, red, text, yaml};

/// The format that `-o` selects.
#[derive(Debug, Clone)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// JSON over several lines.
    Json,
    /// YAML.
    Yaml,
    /// `kind/name` per line, as an argument of another command.
    Name,
    /// The parts that a template picks.
    JsonPath(Template),
}

/// Values that come one after the other, each as data of its own: a line of JSON, a document of YAML.
#[derive(Debug)]
pub(crate) struct Each<'a> {
    format: &'a Format,
    has_failed: bool,
}

impl<'a> Each<'a> {
    /// In a format that needs no columns.
    pub(crate) fn of(format: &'a Format) -> Self {
        Self { format, has_failed: false }
    }

    /// One value. The first failure of a template is reported, and later values go on.
    pub(crate) fn text(&mut self, value: &Value) -> String {
        match self.format {
            Format::Json => format!("{}\n", json::compact(value)),
            Format::Yaml => format!("---\n{}", yaml::write(value)),
            format => match format.value(value).transpose() {
                Ok(text) => text.unwrap_or_default(),
                Err(fault) => {
                    if !std::mem::replace(&mut self.has_failed, true) {
                        message(&format!("{} {fault}", red("error:")));
                    }
                    String::new()
                }
            },
        }
    }
}

/// Help of `-o`.
pub(crate) const HELP: &str = "table, wide, json, yaml, name or jsonpath=TEMPLATE";
/// Help of `-o` where there are neither names nor more columns.
pub(crate) const DATA_HELP: &str = "table, json, yaml or jsonpath=TEMPLATE";

/// The words of `-o`, for completion.
pub(crate) const FORMATS: [&str; 6] = ["table", "wide", "json", "yaml", "name", "jsonpath="];

impl FromStr for Format {
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

impl Format {
    /// Parses a format of a command that offers neither `wide` nor `name`.
    pub(crate) fn of_data(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(Self::Wide | Self::Name) => Err("one of table, json, yaml, jsonpath=TEMPLATE".to_owned()),
            format => format,
        }
    }

    /// Whether it needs neither columns nor names.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self, Self::Json | Self::Yaml | Self::JsonPath(_))
    }

    /// The value as data with a line feed at its end; `None` for formats that need columns or names.
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
