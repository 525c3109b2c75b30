//! Compiled schemas: nodes in one list, which refer to each other by their places in it. References are resolved, so
//! schemas may be recursive.

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::equality::ValueHasher;
use super::format::Format;
use super::pattern::Pattern;
use crate::Decimal;

/// A node's place in the list.
pub(super) type NodeId = u32;

/// A map by names that the schema gives.
pub(super) type ByName<T> = HashMap<Box<str>, T, foldhash::fast::RandomState>;

/// One schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// What it demands, in the order in which violations are reported: cheap keywords first.
    pub(super) keywords: Vec<Keyword>,
    /// Whether several schemas refer to it and it has schemas below it. Such a node can meet the same value along many
    /// ways, so what it finds is remembered.
    pub(super) shared: bool,
}

/// One demand of a schema. A keyword for one type of value accepts every value of another.
#[derive(Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Type(Types),
    Const(Value),
    Enum(Enum),
    Bound(Bound),
    MultipleOf(Divisor),
    MinLength(u64),
    MaxLength(u64),
    MinItems(u64),
    MaxItems(u64),
    MinProperties(u64),
    MaxProperties(u64),
    Required(Vec<Box<str>>),
    /// Members that demand other members.
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    Pattern(Pattern),
    Format(Format),
    UniqueItems,
    Properties(Properties),
    PropertyNames(NodeId),
    Items(Items),
    Contains(Contains),
    /// Members that demand that the whole object fits another schema.
    DependentSchemas(Vec<(Box<str>, NodeId)>),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not {
        schema: NodeId,
        /// The schema as messages show it.
        shown: Box<str>,
    },
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    UnevaluatedProperties(NodeId),
    UnevaluatedItems(NodeId),
    Ref(NodeId),
}

/// A set of JSON types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Types {
    bits: u8,
    /// OpenAPI 3.0 takes `1.0` for no integer.
    integers_as_written: bool,
}

/// In the order in which messages name them.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

impl Types {
    /// No type yet.
    pub(super) fn new(integers_as_written: bool) -> Self {
        Self { bits: 0, integers_as_written }
    }

    /// Adds a type by its name. Whether there is one with this name.
    pub(super) fn add(&mut self, name: &str) -> bool {
        let at = TYPES.iter().position(|known| *known == name);
        self.bits |= at.map_or(0, |at| 1 << at);
        at.is_some()
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        (0..TYPES.len()).filter(move |at| self.bits >> at & 1 == 1).map(|at| TYPES[at])
    }

    pub(super) fn has(self, value: &Value) -> bool {
        let bit = |name: usize| self.bits >> name & 1 == 1;
        match value {
            Value::Null => bit(0),
            Value::Bool(_) => bit(1),
            Value::Number(number) => bit(3) || (bit(2) && self.is_integer(number)),
            Value::String(_) => bit(4),
            Value::Array(_) => bit(5),
            Value::Object(_) => bit(6),
        }
    }

    fn is_integer(self, number: &Number) -> bool {
        let written = number.as_str();
        !written.contains(['.', 'e', 'E'])
            || (!self.integers_as_written && Decimal::parse_any(written).is_some_and(|n| n.is_whole()))
    }
}

/// The values of `enum`.
#[derive(Debug)]
pub(super) struct Enum {
    pub(super) options: Vec<Value>,
    pub(super) hasher: ValueHasher,
    /// The places of options by their hashes, once there are many.
    pub(super) by_hash: HashMap<u64, Vec<u32>>,
}

/// A limit of numbers.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) side: Side,
    pub(super) exclusive: bool,
    /// As the schema writes it.
    pub(super) limit: Value,
    pub(super) exact: Decimal,
    /// The same for a quick comparison.
    pub(super) whole: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Min,
    Max,
}

/// The value of `multipleOf`.
#[derive(Debug)]
pub(super) struct Divisor {
    /// As the schema writes it.
    pub(super) number: Number,
    /// Its digits as a number, and the power of ten of the last one.
    pub(super) parts: (u64, i128),
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) named: ByName<NodeId>,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) additional: Additional,
}

/// What holds for members that are not named.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum Additional {
    /// The schema says nothing about them.
    #[default]
    Unchecked,
    Accepted,
    Refused,
    Schema(NodeId),
}

/// The schemas of items by their place, and of those that follow.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) prefix: Vec<NodeId>,
    pub(super) rest: Additional,
}

impl Items {
    /// The schema of the item at a position.
    pub(super) fn at(&self, position: usize) -> Option<NodeId> {
        match (self.prefix.get(position), self.rest) {
            (Some(&schema), _) | (None, Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Contains {
    pub(super) schema: NodeId,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

impl Keyword {
    /// The schemas that are applied to the same value.
    pub(super) fn in_place(&self) -> Vec<NodeId> {
        match self {
            Self::AllOf(schemas) | Self::AnyOf(schemas) | Self::OneOf(schemas) => schemas.clone(),
            Self::Ref(schema) | Self::Not { schema, .. } => vec![*schema],
            Self::If { condition, then, otherwise } => {
                [Some(*condition), *then, *otherwise].into_iter().flatten().collect()
            }
            Self::DependentSchemas(schemas) => schemas.iter().map(|(_, schema)| *schema).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether other schemas decide on this keyword.
    pub(super) fn has_schemas(&self) -> bool {
        match self {
            Self::Properties(properties) => {
                !properties.named.is_empty()
                    || !properties.patterns.is_empty()
                    || matches!(properties.additional, Additional::Schema(_))
            }
            Self::Items(_)
            | Self::Contains(_)
            | Self::PropertyNames(_)
            | Self::UnevaluatedProperties(_)
            | Self::UnevaluatedItems(_) => true,
            other => !other.in_place().is_empty(),
        }
    }
}
