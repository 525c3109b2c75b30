//! YAML with every number as it was written. The library rounds numbers beyond 64 bits to the nearest `f64`, but gives
//! their position in the text: a scalar that is also a JSON number is parsed again from there, to its last digit.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

/// A node of a document.
#[derive(Debug)]
pub(super) enum Node {
    /// As it is.
    Exact(Value),
    /// A number, rounded to a double.
    Near(f64),
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// The node, given the text that it was read from.
pub(super) fn value(node: Spanned<Node>, text: &str) -> Result<Value, String> {
    Ok(match node.value {
        Node::Exact(value) => value,
        Node::Near(near) => {
            let span = node.defined.span();
            let written = span.byte_offset().zip(span.byte_len()).and_then(|(start, length)| {
                let start = usize::try_from(start).ok()?;
                text.get(start..start.checked_add(usize::try_from(length).ok()?)?)
            });
            let exact = written.and_then(|written| serde_json::from_str(written.trim()).ok());
            match exact
                .filter(Value::is_number)
                .or_else(|| serde_json::Number::from_f64(near).map(Value::Number))
            {
                Some(number) => number,
                None => {
                    let line = node.referenced.line();
                    return Err(format!("JSON has no such number as {near} at line {line}"));
                }
            }
        }
        Node::List(items) => {
            Value::Array(items.into_iter().map(|item| value(item, text)).collect::<Result<_, _>>()?)
        }
        Node::Map(members) => {
            let members = members.into_iter().map(|(name, node)| Ok((name, value(node, text)?)));
            Value::Object(members.collect::<Result<Map<_, _>, String>>()?)
        }
    })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Exact(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Exact(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Exact(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Exact(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Near(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Exact(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Exact(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(member) = members.next_entry()? {
            map.push(member);
        }
        Ok(Node::Map(map))
    }
}
