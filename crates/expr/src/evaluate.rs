//! Running a program within a fixed number of steps.
//!
//! The language has no loops but those over a list, and these can be nested: `l.all(a, l.all(b, …))` takes
//! as many steps as the length of `l` to the power of the nesting, and `l.map(x, x + x)` in a chain
//! doubles a text with each link. So every node that is evaluated costs a step, and everything that takes
//! time or memory in proportion to a value costs steps in proportion, taken before it is done: comparing,
//! concatenating, searching, printing. Copying a value costs nothing extra because it is constant. What an
//! evaluation takes is therefore at most the [steps of its dialect](Dialect::steps) times a constant, whatever the
//! input is.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use crate::dialect::Dialect;
use crate::functions::MAX_ARGS;
use crate::lists::sorted;
use crate::operators::{binary, has, index, negate, select};
use crate::program::{Literal, Loop, Node, Pattern};
use crate::value::{Key, List, Map, Text, Value};

/// Bytes of text that one step reads or writes.
const BYTES_PER_STEP: usize = 16;

/// What compiling a pattern costs for each of its bytes: a repetition of a class may become a program of many kilobytes.
const PATTERN_STEPS: u64 = 1_000;

/// Deepest value that is compared or printed. Input is not nested that deep, but expressions can make it so.
const MAX_VALUE_DEPTH: usize = 256;

/// Why an evaluation has no value.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The evaluation failed here; `||`, `&&`, `exists` and `all` may still have an answer.
    Failed(Cow<'static, str>),
    /// The evaluation ends: it may not take more than so many steps.
    Exhausted(u64),
}

impl Stop {
    pub(crate) fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Failed(message.into())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) => f.write_str(message),
            Self::Exhausted(steps) => write!(f, "takes more than {steps} steps"),
        }
    }
}

/// One run: the variables, what loops bind above them, and the steps that are left.
pub(crate) struct Evaluation<'s> {
    memory: Memory<'s>,
    steps: u64,
    dialect: Dialect,
    now: Option<i64>,
    /// The last that was no literal: in a loop it is mostly the same.
    pattern: Option<(Text<'s>, Rc<Pattern>)>,
}

/// Variables; the name of one that the scope lacks.
pub(crate) type Memory<'s> = Vec<Result<Value<'s>, &'s str>>;

impl<'s> Evaluation<'s> {
    pub(crate) fn new(dialect: Dialect, variables: Memory<'s>, now: Option<i64>) -> Self {
        Self { memory: variables, steps: dialect.steps(), dialect, now, pattern: None }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The time, the same during one evaluation.
    pub(crate) fn now(&self) -> Result<i64, Stop> {
        self.now.ok_or(Stop::Failed(Cow::Borrowed("the time is not known here")))
    }

    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), Stop> {
        // Nothing is left after a step too many, so that a failure that was passed over ends the run.
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(|_| ()).ok_or(Stop::Exhausted(self.dialect.steps()))
    }

    pub(crate) fn spend_text(&mut self, bytes: usize) -> Result<(), Stop> {
        self.spend((bytes / BYTES_PER_STEP) as u64)
    }

    /// A result may be as long as this.
    pub(crate) fn bound_result(&self, bytes: usize) -> Result<(), Stop> {
        let most = self.dialect.result_bytes();
        if bytes > most {
            return Err(Stop::failed(format!("the result is longer than {most} bytes")));
        }
        Ok(())
    }

    /// A step into a value.
    pub(crate) fn spend_level(&mut self, depth: usize) -> Result<(), Stop> {
        self.spend(1)?;
        if depth > MAX_VALUE_DEPTH { Err(Stop::failed("a value is nested too deeply")) } else { Ok(()) }
    }

    /// Looking keys up takes longer than reading them: the words of secrets are searched in them.
    pub(crate) fn spend_keys(&mut self, bytes: usize) -> Result<(), Stop> {
        self.spend_text(bytes.saturating_mul(4))
    }

    pub(crate) fn spend_key(&mut self, key: &Key<'_>) -> Result<(), Stop> {
        if let Key::Text(text) = key { self.spend_keys(text.len()) } else { Ok(()) }
    }

    /// The keys of a map in order, paid for including one look at the value of each.
    pub(crate) fn keys(&mut self, map: &Map<'s>) -> Result<Vec<Key<'s>>, Stop> {
        self.spend(map.len() as u64)?;
        self.spend_keys(map.key_bytes())?;
        Ok(map.keys())
    }

    pub(crate) fn run(&mut self, node: &'s Node) -> Result<Value<'s>, Stop> {
        self.spend(1)?;
        match node {
            Node::Literal(literal) => Ok(literal.value()),
            Node::Variable(slot) => match self.memory.get(*slot) {
                Some(Ok(value)) => Ok(value.clone()),
                Some(Err(name)) => Err(Stop::failed(format!("nothing is known as {name}"))),
                None => Err(Stop::failed("a variable is missing")),
            },
            Node::Select { of, field, optional } => {
                let of = self.run(of)?;
                self.spend_keys(field.len())?;
                select(of, field, *optional)
            }
            Node::Has { of, field } => {
                let of = self.run(of)?;
                self.spend_keys(field.len())?;
                has(&of, field).map(Value::Bool)
            }
            Node::Index { of, at, optional } => {
                let (of, at) = (self.run(of)?, self.run(at)?);
                let key = at.key();
                if let Some(key) = &key {
                    self.spend_key(key)?;
                }
                index(of, key.as_ref(), *optional)
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Not(of) => self.bool(of).map(|held| Value::Bool(!held)),
            Node::Negate(of) => {
                let of = self.run(of)?;
                negate(&of)
            }
            Node::And(sides) => self.either(sides, false),
            Node::Or(sides) => self.either(sides, true),
            Node::If(parts) => {
                let [condition, held, otherwise] = &**parts;
                if self.bool(condition)? { self.run(held) } else { self.run(otherwise) }
            }
            Node::Binary(operator, sides) => {
                let [a, b] = &**sides;
                let (a, b) = (self.run(a)?, self.run(b)?);
                binary(self, *operator, &a, &b)
            }
            Node::Call(function, args) => {
                let mut values = [const { Value::Null }; MAX_ARGS];
                for (value, arg) in values.iter_mut().zip(args) {
                    *value = self.run(arg)?;
                }
                function.call(self, values, args.len())
            }
            Node::Matches(of, pattern) => {
                let of = self.run(of)?;
                self.matches(&of, pattern).map(Value::Bool)
            }
            Node::MatchesAny(sides) => {
                let [of, pattern] = &**sides;
                let (of, pattern) = (self.run(of)?, self.run(pattern)?);
                let Value::Text(pattern) = pattern else {
                    return Err(Stop::failed(format!("a pattern is text, not {}", pattern.kind())));
                };
                let compiled = self.pattern(&pattern)?;
                self.matches(&of, &compiled).map(Value::Bool)
            }
            Node::Else { of, other, unwrap } => match self.run(of)? {
                Value::Optional(Some(held)) if *unwrap => Ok((*held).clone()),
                held @ Value::Optional(Some(_)) => Ok(held),
                Value::Optional(None) => self.run(other),
                // As cel-go has it for a value of a document.
                of if *unwrap && self.dialect == Dialect::Task => Ok(of),
                of => Err(Stop::failed(format!("{} is not optional", of.kind()))),
            },
            Node::With { of, body, flat } => match self.run(of)? {
                Value::Optional(Some(held)) => {
                    let mapped = self.bind((*held).clone(), body)?;
                    Ok(if *flat { mapped } else { Value::some(mapped) })
                }
                Value::Optional(None) => Ok(Value::Optional(None)),
                of => Err(Stop::failed(format!("{} is not optional", of.kind()))),
            },
            Node::Loop(kind, parts) => {
                let [range, body] = &**parts;
                let range = self.run(range)?;
                self.repeat(*kind, range, body)
            }
            Node::SortBy(parts) => {
                let [range, key] = &**parts;
                let range = self.run(range)?;
                let mut keyed = Vec::new();
                for item in self.items(range)? {
                    keyed.push((self.bind(item.clone(), key)?, item));
                }
                sorted(self, "sortBy", keyed)
            }
            Node::Collect(parts) => {
                let [range, guard, body] = &**parts;
                let range = self.run(range)?;
                let mut made = Vec::new();
                for item in self.items(range)? {
                    if self.bound_bool(item.clone(), guard)? {
                        made.push(self.bind(item, body)?);
                    }
                }
                Ok(Value::List(List::Made(made.into())))
            }
        }
    }

    /// Evaluates a node and keeps its value as the next variable.
    pub(crate) fn keep(&mut self, node: &'s Node) -> Result<(), Stop> {
        let value = self.run(node)?;
        self.memory.push(Ok(value));
        Ok(())
    }

    fn bind(&mut self, value: Value<'s>, body: &'s Node) -> Result<Value<'s>, Stop> {
        self.memory.push(Ok(value));
        let result = self.run(body);
        self.memory.pop();
        result
    }

    fn bool(&mut self, node: &'s Node) -> Result<bool, Stop> {
        let value = self.run(node)?;
        truth(&value)
    }

    fn bound_bool(&mut self, value: Value<'s>, body: &'s Node) -> Result<bool, Stop> {
        let value = self.bind(value, body)?;
        truth(&value)
    }

    /// `&&` and `||`: a side that is `decisive` decides, even beside one that failed.
    fn either(&mut self, sides: &'s [Node; 2], decisive: bool) -> Result<Value<'s>, Stop> {
        let mut failure = None;
        for side in sides {
            match self.bool(side) {
                Ok(held) if held == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(stop @ Stop::Exhausted(_)) => return Err(stop),
                Err(stop) => failure = failure.or(Some(stop)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    /// What a loop goes over: the items of a list, the keys of a map.
    fn items(&mut self, range: Value<'s>) -> Result<Vec<Value<'s>>, Stop> {
        match range {
            Value::List(list) => {
                self.spend(list.len() as u64)?;
                Ok(list.iter().collect())
            }
            Value::Map(map) => Ok(self.keys(&map)?.into_iter().map(Value::from).collect()),
            other => Err(Stop::failed(format!("{} is neither a list nor a map", other.kind()))),
        }
    }

    fn repeat(&mut self, kind: Loop, range: Value<'s>, body: &'s Node) -> Result<Value<'s>, Stop> {
        let items = self.items(range)?;
        match kind {
            Loop::All | Loop::Exists => {
                let decisive = kind == Loop::Exists;
                let mut failure = None;
                for item in items {
                    match self.bound_bool(item, body) {
                        Ok(held) if held == decisive => return Ok(Value::Bool(decisive)),
                        Ok(_) => {}
                        Err(stop @ Stop::Exhausted(_)) => return Err(stop),
                        Err(stop) => failure = Some(stop),
                    }
                }
                failure.map_or(Ok(Value::Bool(!decisive)), Err)
            }
            Loop::ExistsOne => {
                let mut found = 0;
                for item in items {
                    found += u64::from(self.bound_bool(item, body)?);
                }
                Ok(Value::Bool(found == 1))
            }
            Loop::Filter => {
                let mut kept = Vec::new();
                for item in items {
                    if self.bound_bool(item.clone(), body)? {
                        kept.push(item);
                    }
                }
                Ok(Value::List(List::Made(kept.into())))
            }
            Loop::Map => {
                let made: Result<Rc<[_]>, _> = items.into_iter().map(|item| self.bind(item, body)).collect();
                made.map(|made| Value::List(List::Made(made)))
            }
        }
    }

    fn list(&mut self, items: &'s [(Node, bool)]) -> Result<Value<'s>, Stop> {
        let mut made = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let item = self.run(item)?;
            made.extend(if *optional { present(item)? } else { Some(item) });
        }
        Ok(Value::List(List::Made(made.into())))
    }

    fn map(&mut self, entries: &'s [(Node, Node, bool)]) -> Result<Value<'s>, Stop> {
        let mut made = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.run(key)?;
            // A double may look a key up, but not be one.
            let Some(key) = key.key().filter(|_| !matches!(key, Value::Double(_))) else {
                return Err(Stop::failed(format!("{} is no key of a map", key.kind())));
            };
            self.spend_key(&key)?;
            let value = self.run(value)?;
            made.extend(if *optional { present(value)? } else { Some(value) }.map(|value| (key, value)));
        }
        made.sort_by(|(a, _), (b, _)| a.cmp(b));
        if made.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Stop::failed("a key of a map is repeated"));
        }
        Ok(Value::Map(Map::Made(made.into())))
    }

    fn pattern(&mut self, source: &Text<'s>) -> Result<Rc<Pattern>, Stop> {
        self.spend_text(source.len())?;
        if let Some((last, compiled)) = &self.pattern
            && last == source
        {
            return Ok(compiled.clone());
        }
        self.spend((1 + source.len() as u64) * PATTERN_STEPS)?;
        let refused = "the pattern of matches() is not a regular expression, or too large a one";
        let compiled = Rc::new(Pattern::compile(source).ok_or(Stop::Failed(Cow::Borrowed(refused)))?);
        self.pattern = Some((source.clone(), compiled.clone()));
        Ok(compiled)
    }

    fn matches(&mut self, of: &Value<'s>, pattern: &Pattern) -> Result<bool, Stop> {
        let Value::Text(text) = of else {
            return Err(Stop::failed(format!("matches() does not take {}", of.kind())));
        };
        self.spend((1 + text.len() / BYTES_PER_STEP) as u64 * pattern.cost)?;
        Ok(pattern.regex.is_match(text))
    }
}

impl Literal {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(held) => Value::Bool(*held),
            Self::Int(whole) => Value::Int(*whole),
            Self::UInt(whole) => Value::UInt(*whole),
            Self::Double(real) => Value::Double(*real),
            Self::Text(text) => Value::Text(Text::Given(text)),
            Self::Type(name) => Value::Type(name),
        }
    }
}

fn truth(value: &Value<'_>) -> Result<bool, Stop> {
    match value {
        Value::Bool(held) => Ok(*held),
        other => Err(Stop::failed(format!("{} is not a bool", other.kind()))),
    }
}

fn present<'s>(value: Value<'s>) -> Result<Option<Value<'s>>, Stop> {
    match value {
        Value::Optional(held) => Ok(held.map(|held| (*held).clone())),
        other => Err(Stop::failed(format!("{} is not optional", other.kind()))),
    }
}
