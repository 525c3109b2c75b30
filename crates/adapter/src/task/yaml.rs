//! YAML with positions: every value knows its line and column, through block texts too, so that a fault inside an
//! expression names the line of the file. Aliases are bounded, because each may repeat a whole subtree.

use std::borrow::Cow;
use std::collections::HashMap;
use std::str::FromStr as _;

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

/// Values of one document, those that aliases repeat included.
const MAX_NODES: usize = 200_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 100;

/// A place in a file; lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Name, Node)>),
}

/// A text. In a literal block, lines of the text are lines of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) value: String,
    /// Columns before each line of a literal block.
    block: Option<usize>,
    /// Characters before the text on its first line: a quote.
    before: usize,
}

/// The key of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) at: Position,
    pub(crate) text: String,
}

/// Why a text is no YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", at.line, at.column)]
pub(crate) struct YamlError {
    pub(crate) at: Position,
    pub(crate) message: String,
}

impl Node {
    /// The value without its positions.
    pub(crate) fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(held) => Value::Bool(*held),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.value.clone()),
            Content::List(items) => items.iter().map(Self::to_json).collect(),
            Content::Map(members) => {
                members.iter().map(|(name, value)| (name.text.clone(), value.to_json())).collect()
            }
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(&text.value),
            _ => None,
        }
    }

    pub(crate) fn members(&self) -> Option<&[(Name, Self)]> {
        match &self.content {
            Content::Map(members) => Some(members),
            _ => None,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.members()?.iter().find(|(key, _)| key.text == name).map(|(_, value)| value)
    }

    /// The word for its type in messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.content {
            Content::Null => "nothing",
            Content::Bool(_) => "true or false",
            Content::Number(_) => "a number",
            Content::Text(_) => "text",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }

    /// The place in the file of a line and column in this text, both from 1.
    pub(crate) fn inside(&self, line: usize, column: usize) -> Position {
        let Content::Text(Text { block, before, .. }) = &self.content else { return self.at };
        match block {
            Some(indent) => Position { line: self.at.line + line - 1, column: indent + column },
            None if line == 1 => {
                Position { line: self.at.line, column: self.at.column + before + column - 1 }
            }
            None => self.at,
        }
    }
}

/// Reads one document; an empty one is null.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let mut loader = Loader { lines: text.lines().collect(), anchors: HashMap::new(), nodes: 0 };
    let mut parser = Parser::new_from_str(text);
    let mut root = None;
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| YamlError {
            at: Position { line: error.marker().line(), column: error.marker().col() + 1 },
            message: plain(&error.to_string()),
        })?;
        match event {
            Event::StreamEnd => break,
            // Marks of the document, and comments where the parser tells of them.
            event if !event.is_node() => {}
            _ if root.is_some() => return Err(fault(&span, "only one document is allowed")),
            event => root = Some(loader.node(&mut parser, event, &span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node { at: Position { line: 1, column: 1 }, content: Content::Null }))
}

/// The parser's message without its own idea of the position.
fn plain(message: &str) -> String {
    let cut = message.find(" at char ").or_else(|| message.find(" at byte "));
    message[..cut.unwrap_or(message.len())].to_owned()
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

fn fault(span: &Span, message: impl Into<String>) -> YamlError {
    YamlError { at: position(span), message: message.into() }
}

fn is_end(event: &Event<'_>) -> bool {
    matches!(event, Event::SequenceEnd | Event::MappingEnd)
}

struct Loader<'t> {
    lines: Vec<&'t str>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

impl<'t> Loader<'t> {
    fn next(
        parser: &mut Parser<'t, granit_parser::StrInput<'t>>,
        span: &Span,
    ) -> Result<(Event<'t>, Span), YamlError> {
        loop {
            match parser.next_event() {
                Some(Ok(next)) if next.0.is_node() || is_end(&next.0) => return Ok(next),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    return Err(YamlError {
                        at: Position { line: error.marker().line(), column: error.marker().col() + 1 },
                        message: plain(&error.to_string()),
                    });
                }
                None => return Err(fault(span, "the document ends too early")),
            }
        }
    }

    fn node(
        &mut self,
        parser: &mut Parser<'t, granit_parser::StrInput<'t>>,
        event: Event<'t>,
        span: &Span,
        depth: usize,
    ) -> Result<Node, YamlError> {
        let before = self.nodes;
        self.count(span, 1)?;
        if depth > MAX_DEPTH {
            return Err(fault(span, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let at = position(span);
        let (anchor, content) = match event {
            Event::Scalar(value, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
                (anchor, self.scalar(value, style, is_text, span))
            }
            Event::Alias(id) => {
                let Some((node, size)) = self.anchors.get(&id).cloned() else {
                    return Err(fault(span, "the alias names nothing before it"));
                };
                self.count(span, size)?;
                return Ok(Node { at, ..node });
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match Self::next(parser, span)? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(parser, event, &span, depth + 1)?),
                    }
                }
                (anchor, Content::List(items))
            }
            Event::MappingStart(_, anchor, _) => (anchor, self.mapping(parser, span, depth)?),
            _ => return Err(fault(span, "a value is expected")),
        };
        // A literal block begins on the line after its indicator.
        let node = Node { at: self.start(at, &content), content };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before));
        }
        Ok(node)
    }

    fn mapping(
        &mut self,
        parser: &mut Parser<'t, granit_parser::StrInput<'t>>,
        span: &Span,
        depth: usize,
    ) -> Result<Content, YamlError> {
        let mut members: Vec<(Name, Node)> = Vec::new();
        let mut known: HashMap<String, ()> = HashMap::new();
        loop {
            let (event, key_span) = Self::next(parser, span)?;
            let text = match event {
                Event::MappingEnd => return Ok(Content::Map(members)),
                Event::Scalar(text, ..) => text.into_owned(),
                _ => return Err(fault(&key_span, "a key must be text")),
            };
            let (event, value_span) = Self::next(parser, &key_span)?;
            let value = self.node(parser, event, &value_span, depth + 1)?;
            if text == "<<" {
                self.merge(&mut members, &mut known, value, &key_span)?;
            } else if known.insert(text.clone(), ()).is_some() {
                // A merged member is overridden, one written twice is a mistake.
                let before = members.iter_mut().find(|(name, _)| name.text == text);
                match before {
                    Some((name, held)) if name.at.line == 0 => {
                        name.at = position(&key_span);
                        *held = value;
                    }
                    _ => return Err(fault(&key_span, format!("the key {text:?} is there twice"))),
                }
            } else {
                members.push((Name { at: position(&key_span), text }, value));
            }
        }
    }

    /// `<<: *alias`: members that the mapping may override.
    fn merge(
        &mut self,
        members: &mut Vec<(Name, Node)>,
        known: &mut HashMap<String, ()>,
        value: Node,
        span: &Span,
    ) -> Result<(), YamlError> {
        let sources = match value.content {
            Content::List(items) => items,
            content => vec![Node { content, ..value }],
        };
        for source in sources {
            let Content::Map(merged) = source.content else {
                return Err(fault(span, "only mappings can be merged"));
            };
            for (name, value) in merged {
                if known.insert(name.text.clone(), ()).is_none() {
                    members.push((Name { at: Position::default(), text: name.text }, value));
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, span: &Span, more: usize) -> Result<(), YamlError> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(fault(span, format!("more than {MAX_NODES} values")));
        }
        Ok(())
    }

    fn scalar(&self, value: Cow<'_, str>, style: ScalarStyle, is_text: bool, span: &Span) -> Content {
        if style == ScalarStyle::Plain && !is_text {
            return resolve(value);
        }
        let block = (style == ScalarStyle::Literal).then(|| self.indent_of(span, &value)).flatten();
        let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
        Content::Text(Text { value: value.into_owned(), block, before: usize::from(quoted) })
    }

    /// The indentation of a literal block: that of the first line of the file that holds its first line of text.
    fn indent_of(&self, span: &Span, value: &str) -> Option<usize> {
        let first = value.lines().find(|line| !line.trim().is_empty())?;
        let from = span.start.line().saturating_sub(1);
        let line = self
            .lines
            .iter()
            .skip(from)
            .find(|line| line.ends_with(first) && line.trim_start() == first.trim_start())?;
        Some(line.chars().count() - first.chars().count())
    }

    /// Where the text of a node begins.
    fn start(&self, at: Position, content: &Content) -> Position {
        let Content::Text(Text { block: Some(indent), value, .. }) = content else { return at };
        let blank = value.lines().take_while(|line| line.trim().is_empty()).count();
        let Some(first) = value.lines().nth(blank) else { return at };
        let is_first = |line: &str| line.trim_start() == first.trim_start() && !line.trim().is_empty();
        let found = self.lines.iter().skip(at.line - 1).position(|line| is_first(line));
        match found {
            Some(lines) => Position { line: (at.line + lines).saturating_sub(blank), column: indent + 1 },
            None => at,
        }
    }
}

/// A plain scalar by YAML's core schema: `yes` and `no` are text.
fn resolve(value: Cow<'_, str>) -> Content {
    match &*value {
        "" | "~" | "null" | "Null" | "NULL" => return Content::Null,
        "true" | "True" | "TRUE" => return Content::Bool(true),
        "false" | "False" | "FALSE" => return Content::Bool(false),
        _ => {}
    }
    match number(&value) {
        Some(number) => Content::Number(number),
        None => Content::Text(Text { value: value.into_owned(), block: None, before: 0 }),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return i64::from_str_radix(rest, radix).ok().map(Number::from);
        }
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(whole.into());
    }
    if digits.bytes().all(|c| c.is_ascii_digit()) {
        return Number::from_str(plain.trim_start_matches('0')).ok();
    }
    let real: f64 = plain.parse().ok()?;
    Number::from_str(plain).ok().or_else(|| Number::from_f64(real))
}

/// A rendered manifest as JSON.
pub(crate) fn to_value(text: &str) -> Result<Value, YamlError> {
    parse(text).map(|node| node.to_json())
}

/// The members of a rendered document.
pub(crate) fn to_object(text: &str) -> Result<Map<String, Value>, String> {
    match to_value(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err("is no mapping".to_owned()),
        Err(error) => Err(format!("is no YAML: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(line: usize, column: usize) -> Position {
        Position { line, column }
    }

    #[test]
    fn values_are_those_of_the_core_schema_and_integers_stay_integers() {
        let text = "a: 1000000\nb: yes\nc: 'true'\nd: 1.50\ne: 0x10\nf:\ng: [1, ~, false]\nh: +5\ni: 012\nj: 1e3\nk: 1.2.3\nl:\n  -\n";
        assert_eq!(
            to_value(text).unwrap(),
            json!({"a": 1_000_000, "b": "yes", "c": "true", "d": serde_json::from_str::<Value>("1.50").unwrap(), "e": 16, "f": null, "g": [1, null, false],
                   "h": 5, "i": 12, "j": serde_json::from_str::<Value>("1e3").unwrap(), "k": "1.2.3", "l": [null]})
        );
    }

    #[test]
    fn positions_reach_into_quoted_and_block_texts() {
        let text = "a: \"xy\"\nb:\n  c: |\n    one\n      two\n    three\n  d: plain\n";
        let node = parse(text).unwrap();
        assert_eq!(node.get("a").unwrap().inside(1, 2), at(1, 6));
        let block = node.get("b").unwrap().get("c").unwrap();
        assert_eq!(block.text(), Some("one\n  two\nthree\n"));
        assert_eq!(block.inside(1, 1), at(4, 5));
        assert_eq!(block.inside(2, 3), at(5, 7));
        let plain = node.get("b").unwrap().get("d").unwrap();
        assert_eq!(plain.inside(1, 1), at(7, 6));
    }

    #[test]
    fn anchors_and_merges_work_within_a_bound() {
        let text = "base: &b {x: 1, y: 2}\none:\n  <<: *b\n  y: 3\ntwo: *b\n";
        assert_eq!(to_value(text).unwrap()["one"], json!({"x": 1, "y": 3}));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..9 {
            let items = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb += &format!("a{i}: &a{i} [{items}]\n");
        }
        assert!(parse(&bomb).unwrap_err().message.contains("more than"));
    }

    #[test]
    fn faults_name_their_place() {
        for (text, line, message) in [
            ("a: 1\na: 2\n", 2, "is there twice"),
            ("a: [1\n", 1, "unclosed bracket"),
            ("a: 1\n---\nb: 2\n", 3, "only one document"),
            ("? [1]\n: 2\n", 1, "a key must be text"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message.contains(message), "{error}");
            assert_eq!(error.at.line, line, "{error}");
        }
        assert_eq!(to_value("").unwrap(), Value::Null);
    }

    #[test]
    fn comments_are_no_values() {
        let text = "# head\na: # of a\n  # below\n  b: 1 # behind\nc:\n  # first\n  - x # item\n  # last\n";
        assert_eq!(to_value(text).unwrap(), json!({"a": {"b": 1}, "c": ["x"]}));
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(parse(&"[".repeat(5_000)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics(text in "[a-c:|> \\n\\-\\[\\]{}&*'\"<#~0-9.]{0,120}") {
            let _ = parse(&text);
        }
    }
}
