//! Reads mappings of a file: every key is asked for by name, and what nobody asked for is a finding with a suggestion.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hyperfleet_core::nearest;
use hyperfleet_expr::Fault;
use serde_json::Value;

use super::finding::{Finding, Severity};
use super::source::{Expr, Text};
use super::yaml::{Content, Name, Node, Position};

/// Where findings of one file are collected.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) file: Arc<str>,
    found: RefCell<Vec<Finding>>,
}

impl Findings {
    pub(crate) fn of(file: &str) -> Self {
        Self { file: file.into(), found: RefCell::default() }
    }

    pub(crate) fn push(
        &self,
        at: Position,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
    ) {
        let message = message.into();
        self.found.borrow_mut().push(Finding { file: self.file.clone(), at, severity, code, message });
    }

    pub(crate) fn error(&self, at: Position, code: &'static str, message: impl Into<String>) {
        self.push(at, Severity::Error, code, message);
    }

    pub(crate) fn warning(&self, at: Position, code: &'static str, message: impl Into<String>) {
        self.push(at, Severity::Warning, code, message);
    }

    pub(crate) fn extend(&self, more: Vec<Finding>) {
        self.found.borrow_mut().extend(more);
    }

    pub(crate) fn into_sorted(self) -> Vec<Finding> {
        let mut found = self.found.into_inner();
        found.sort_by(|a, b| (a.severity, &a.file, a.at).cmp(&(b.severity, &b.file, b.at)));
        found.dedup();
        found
    }
}

/// A mapping that is being read.
#[derive(Debug)]
pub(crate) struct Mapping<'n> {
    node: &'n Node,
    path: String,
    members: &'n [(Name, Node)],
    keys: Vec<&'static str>,
    findings: &'n Findings,
}

impl<'n> Mapping<'n> {
    /// The node as a mapping; nothing, with a finding, when it is something else.
    pub(crate) fn of(node: &'n Node, path: impl Into<String>, findings: &'n Findings) -> Option<Self> {
        let path = path.into();
        let Some(members) = node.members() else {
            findings.error(node.at, "A103", format!("{path} must be a mapping, not {}", node.type_name()));
            return None;
        };
        Some(Self { node, path, members, keys: Vec::new(), findings })
    }

    pub(crate) fn at(&self) -> Position {
        self.node.at
    }

    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A member that is not null.
    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.keys.push(key);
        let (_, node) = self.members.iter().find(|(name, _)| name.text == key)?;
        (node.content != Content::Null).then_some(node)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.members.iter().any(|(name, node)| name.text == key && node.content != Content::Null)
    }

    fn wrong<T>(&self, key: &str, node: &Node, expected: &str) -> Option<T> {
        let path = self.path_of(key);
        self.findings.error(node.at, "A103", format!("{path} must be {expected}, not {}", node.type_name()));
        None
    }

    pub(crate) fn missing(&self, key: &str) {
        let path = self.path_of(key);
        self.findings.error(self.at(), "A102", format!("{path} is required"));
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<&'n str> {
        let node = self.get(key)?;
        node.text().or_else(|| self.wrong(key, node, "text"))
    }

    pub(crate) fn required_text(&mut self, key: &'static str) -> Option<&'n str> {
        match self.text(key) {
            Some(text) if !text.trim().is_empty() => Some(text),
            Some(_) => {
                self.missing(key);
                None
            }
            None => {
                if !self.has(key) {
                    self.missing(key);
                }
                None
            }
        }
    }

    pub(crate) fn bool(&mut self, key: &'static str) -> bool {
        match self.get(key) {
            None => false,
            Some(Node { content: Content::Bool(held), .. }) => *held,
            Some(node) => self.wrong(key, node, "true or false").unwrap_or(false),
        }
    }

    pub(crate) fn integer(&mut self, key: &'static str, min: i64, max: i64) -> Option<i64> {
        let node = self.get(key)?;
        let number = match &node.content {
            Content::Number(number) => number.as_i64(),
            _ => None,
        };
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => Some(number),
            None => self.wrong(key, node, &format!("a whole number from {min} to {max}")),
        }
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let node = self.get(key)?;
        let text = match &node.content {
            Content::Text(text) => text.value.clone(),
            Content::Number(number) => number.to_string(),
            _ => return self.wrong(key, node, "a duration such as 10s"),
        };
        match go_duration(&text) {
            Some(duration) => Some(duration),
            None => {
                let path = self.path_of(key);
                let message = format!("{path} must be a duration such as 500ms, 10s or 1m30s, not {text:?}");
                self.findings.error(node.at, "A105", message);
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let node = self.get(key)?;
        let Some(text) = node.text() else { return self.wrong(key, node, "text") };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        if chosen.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let path = self.path_of(key);
            let hint = nearest(text, names.iter().copied())
                .map(|n| format!("; did you mean {n}?"))
                .unwrap_or_default();
            let message = format!("{path} must be one of {}, not {text:?}{hint}", names.join(", "));
            self.findings.error(node.at, "A105", message);
        }
        chosen.map(|(_, value)| *value)
    }

    pub(crate) fn list(&mut self, key: &'static str) -> &'n [Node] {
        match self.get(key) {
            None => &[],
            Some(Node { content: Content::List(items), .. }) => items,
            Some(node) => self.wrong(key, node, "a list").unwrap_or(&[]),
        }
    }

    pub(crate) fn mapping(&mut self, key: &'static str) -> Option<Self> {
        let node = self.get(key)?;
        Mapping::of(node, self.path_of(key), self.findings)
    }

    /// Each item of a list, as a mapping.
    pub(crate) fn mappings(&mut self, key: &'static str) -> Vec<Self> {
        let path = self.path_of(key);
        let findings = self.findings;
        let each = self.list(key).iter().enumerate();
        each.filter_map(|(i, node)| Mapping::of(node, format!("{path}[{i}]"), findings)).collect()
    }

    pub(crate) fn value(&mut self, key: &'static str) -> Option<Value> {
        self.get(key).map(Node::to_json)
    }

    /// The last word: whatever was not asked for is unknown.
    pub(crate) fn finish(self) {
        for (name, _) in self.members {
            if self.keys.contains(&name.text.as_str()) {
                continue;
            }
            let near = nearest(&name.text, self.keys.iter().copied());
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let path = self.path_of(&name.text);
            self.findings.error(name.at, "A101", format!("unknown key {path}{hint}"));
        }
    }

    pub(crate) fn template(&mut self, key: &'static str) -> Option<(Text, &'n Node)> {
        let node = self.get(key)?;
        match &node.content {
            Content::Text(_) | Content::Number(_) | Content::Bool(_) => {
                Some((template(node, self.findings)?, node))
            }
            _ => self.wrong(key, node, "text"),
        }
    }

    pub(crate) fn expression(&mut self, key: &'static str, known: Known<'_>) -> Option<Expr> {
        let node = self.get(key)?;
        match &node.content {
            Content::Text(_) | Content::Number(_) | Content::Bool(_) => {
                expression(node, known, self.findings)
            }
            _ => self.wrong(key, node, "an expression"),
        }
    }
}

/// Compiles a node as a template.
pub(crate) fn template(node: &Node, findings: &Findings) -> Option<Text> {
    let source = crate::values::plain(&node.to_json());
    match Text::compile(&source) {
        Ok(text) => Some(text),
        Err(fault) => {
            findings.error(node.inside(fault.line, fault.column), "A202", fault.message);
            None
        }
    }
}

/// The names that are defined where a source stands; `None` where anything may be.
pub(crate) type Known<'k> = Option<&'k BTreeSet<String>>;

/// Compiles a node as an expression.
pub(crate) fn expression(node: &Node, known: Known<'_>, findings: &Findings) -> Option<Expr> {
    let source = crate::values::plain(&node.to_json());
    match Expr::compile(&source) {
        Ok(expr) => {
            if let Some(known) = known {
                tell(&expr.unknown(&names(known)), node, findings);
            }
            Some(expr)
        }
        Err(fault) => {
            findings.error(node.inside(fault.line, fault.column), "A201", fault.message);
            None
        }
    }
}

/// Tells the names of a template that nothing defines.
pub(crate) fn check_names(text: &Text, node: &Node, known: &BTreeSet<String>, findings: &Findings) {
    tell(&text.unknown(&names(known)), node, findings);
}

pub(crate) fn names(known: &BTreeSet<String>) -> Vec<&str> {
    known.iter().map(String::as_str).collect()
}

fn tell(faults: &[Fault], node: &Node, findings: &Findings) {
    for fault in faults {
        findings.warning(node.inside(fault.line, fault.column), "A207", fault.message.clone());
    }
}

/// Durations as Go writes them: `1m30s`, `500ms`, `1.5h`.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * unit).ok()?)?;
        rest = &rest[end..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in
            [("10s", 10_000), ("1m30s", 90_000), ("500ms", 500), ("1.5h", 5_400_000), ("0", 0)]
        {
            assert_eq!(go_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1x", "1 s"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }
}
