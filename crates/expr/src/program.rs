//! A program: what an expression does, with every name resolved to a slot and every function known, so
//! that evaluating it looks nothing up.

use cel::common::ast::operators;
use regex::{Regex, RegexBuilder};

use crate::functions::Function;

/// One step of a program.
pub(crate) enum Node {
    Literal(Literal),
    Variable(usize),
    Select {
        of: Box<Node>,
        field: Box<str>,
        optional: bool,
    },
    Has {
        of: Box<Node>,
        field: Box<str>,
    },
    Index {
        of: Box<Node>,
        at: Box<Node>,
        optional: bool,
    },
    /// Items; an optional one is left out when it is empty.
    List(Vec<(Node, bool)>),
    /// Keys and values; an optional entry is left out when its value is empty.
    Map(Vec<(Node, Node, bool)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    If(Box<[Node; 3]>),
    Binary(Operator, Box<[Node; 2]>),
    Call(Function, Vec<Node>),
    Matches(Box<Node>, Box<Pattern>),
    /// With a pattern that is no literal.
    MatchesAny(Box<[Node; 2]>),
    /// `or` and `orValue`: the second is looked at only when the first is empty.
    Else {
        of: Box<Node>,
        other: Box<Node>,
        unwrap: bool,
    },
    /// `optMap` and `optFlatMap`.
    With {
        of: Box<Node>,
        body: Box<Node>,
        flat: bool,
    },
    Loop(Loop, Box<[Node; 2]>),
    /// A list in the order of a key of each item.
    SortBy(Box<[Node; 2]>),
    /// `map` with a filter.
    Collect(Box<[Node; 3]>),
}

pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    Text(Box<str>),
    Type(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// A compiled regular expression, with the steps that 16 bytes of text cost.
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    pub(crate) cost: u64,
}

impl Pattern {
    /// Matching takes time in proportion to the text and, at worst, to the size of the compiled pattern;
    /// the smallest limit it fits tells that size.
    pub(crate) fn compile(source: &str) -> Option<Self> {
        [1, 4, 16, 64, 256].into_iter().find_map(|kilobytes: usize| {
            let regex = RegexBuilder::new(source).size_limit(kilobytes << 10).build().ok()?;
            Some(Self { regex, cost: 8 * kilobytes as u64 })
        })
    }
}

impl Operator {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }

    /// The operator that the parser calls so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            operators::ADD => Self::Add,
            operators::SUBSTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Remainder,
            operators::EQUALS => Self::Equal,
            operators::NOT_EQUALS => Self::NotEqual,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessOrEqual,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterOrEqual,
            operators::IN => Self::In,
            _ => return None,
        })
    }
}
