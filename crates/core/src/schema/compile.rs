//! Turns the schemas of a document into [nodes](super::node). What is malformed, cannot be bounded or never ends is
//! refused here, with its place in the document.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::budget::Budget;
use super::equality::ValueHasher;
use super::format;
use super::node::{
    Additional, Bound, Contains, Divisor, Enum, Items, Keyword, Node, NodeId, Properties, Side, Types,
};
use super::pattern::Pattern;
use super::reference::SchemaLocation;
use crate::{Decimal, echo};

/// The keywords of OpenAPI 3.0 and 3.1, in the order in which violations of one value are reported: cheap ones first.
const KEYWORDS: [(&str, Since); 37] = [
    ("type", Since::OpenApi30),
    ("const", Since::OpenApi31),
    ("enum", Since::OpenApi30),
    ("minimum", Since::OpenApi30),
    ("maximum", Since::OpenApi30),
    ("exclusiveMinimum", Since::OpenApi31),
    ("exclusiveMaximum", Since::OpenApi31),
    ("multipleOf", Since::OpenApi30),
    ("minLength", Since::OpenApi30),
    ("maxLength", Since::OpenApi30),
    ("minItems", Since::OpenApi30),
    ("maxItems", Since::OpenApi30),
    ("minProperties", Since::OpenApi30),
    ("maxProperties", Since::OpenApi30),
    ("required", Since::OpenApi30),
    ("dependentRequired", Since::OpenApi31),
    ("pattern", Since::OpenApi30),
    ("format", Since::OpenApi30),
    ("uniqueItems", Since::OpenApi30),
    ("properties", Since::OpenApi30),
    ("patternProperties", Since::OpenApi30),
    ("additionalProperties", Since::OpenApi30),
    ("propertyNames", Since::OpenApi31),
    ("items", Since::OpenApi30),
    ("prefixItems", Since::OpenApi31),
    ("contains", Since::OpenApi31),
    ("dependencies", Since::OpenApi30),
    ("dependentSchemas", Since::OpenApi31),
    ("allOf", Since::OpenApi30),
    ("anyOf", Since::OpenApi30),
    ("oneOf", Since::OpenApi30),
    ("not", Since::OpenApi30),
    ("if", Since::OpenApi31),
    ("unevaluatedProperties", Since::OpenApi31),
    ("unevaluatedItems", Since::OpenApi31),
    ("$ref", Since::OpenApi30),
    ("$dynamicRef", Since::OpenApi31),
];

/// The version of OpenAPI that knows a keyword. Keywords that a version does not know are annotations.
#[derive(Clone, Copy, PartialEq)]
enum Since {
    OpenApi30,
    OpenApi31,
}

/// How many references in a row have the node of the last one.
const MAX_ALIASES: usize = 100;

/// From how many options on `enum` looks them up by hash.
const MANY_OPTIONS: usize = 8;

/// Compiles schemas of one document into one list.
#[derive(Debug)]
pub(super) struct Compiler<'d> {
    document: &'d Value,
    openapi_3_0: bool,
    nodes: Vec<Node>,
    /// The places of the nodes, and how many schemas refer to each.
    places: Vec<(SchemaLocation<'d>, usize)>,
    /// The nodes by the addresses of their values in the document.
    by_address: HashMap<*const Value, NodeId>,
    faults: Vec<String>,
}

impl<'d> Compiler<'d> {
    pub(super) fn new(document: &'d Value) -> Self {
        let version = document["openapi"].as_str().unwrap_or_default();
        Self {
            document,
            openapi_3_0: version.starts_with("3.0"),
            nodes: Vec::new(),
            places: Vec::new(),
            by_address: HashMap::new(),
            faults: Vec::new(),
        }
    }

    /// Compiles the schema at this place and all that it refers to. The error lists every fault that is new.
    pub(super) fn compile(&mut self, root: SchemaLocation<'d>) -> Result<NodeId, Vec<String>> {
        let first = self.nodes.len();
        let root = self.node(root);
        let mut next = first;
        while next < self.places.len() {
            let place = self.places[next].0.clone();
            self.nodes[next].keywords = self.keywords(&place);
            next += 1;
        }
        self.refuse_endless(first);
        if self.faults.is_empty() { Ok(root) } else { Err(std::mem::take(&mut self.faults)) }
    }

    /// The nodes, once all schemas are compiled.
    pub(super) fn finish(mut self) -> Vec<Node> {
        for (node, (_, references)) in self.nodes.iter_mut().zip(&self.places) {
            node.shared = *references > 1 && node.keywords.iter().any(Keyword::has_schemas);
        }
        self.nodes
    }

    fn fault(&mut self, place: &SchemaLocation<'_>, what: &str) {
        self.faults.push(format!("{}: {what}", place.pointer));
    }

    /// The node of a schema; it is compiled later. A schema that is only a reference has the node that it leads to.
    fn node(&mut self, mut place: SchemaLocation<'d>) -> NodeId {
        for _ in 0..MAX_ALIASES {
            let Value::Object(members) = place.value else { break };
            let Some(Value::String(reference)) = members.get("$ref") else { break };
            // OpenAPI 3.0 ignores what stands beside a reference.
            if !self.openapi_3_0 && members.len() > 1 {
                break;
            }
            // What leads nowhere, or in a circle, is found when this node is compiled.
            let Ok(target) = place.follow(self.document, reference) else { break };
            place = target;
        }
        self.node_at(place)
    }

    fn node_at(&mut self, place: SchemaLocation<'d>) -> NodeId {
        let next = self.nodes.len() as NodeId;
        let id = *self.by_address.entry(std::ptr::from_ref(place.value)).or_insert(next);
        if id == next {
            self.nodes.push(Node::default());
            self.places.push((place, 0));
        }
        self.places[id as usize].1 += 1;
        id
    }

    fn keywords(&mut self, place: &SchemaLocation<'d>) -> Vec<Keyword> {
        match place.value {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![Keyword::Never],
            Value::Object(members) => {
                let mut found = Vec::new();
                for (name, since) in KEYWORDS {
                    if since == Since::OpenApi31 && self.openapi_3_0 {
                        continue;
                    }
                    let Some(at) = place.child(name) else { continue };
                    match self.keyword(name, members, place, &at) {
                        Ok(keywords) => found.extend(keywords),
                        Err(what) => self.fault(&at, &what),
                    }
                }
                found
            }
            _ => {
                self.fault(place, "a schema must be an object or a boolean");
                Vec::new()
            }
        }
    }

    /// The keyword at a place. Those that depend on each other are compiled with the first of them.
    fn keyword(
        &mut self,
        name: &str,
        members: &Map<String, Value>,
        schema: &SchemaLocation<'d>,
        at: &SchemaLocation<'d>,
    ) -> Result<Vec<Keyword>, String> {
        let value = at.value;
        let present = |names: &[&str]| names.iter().any(|name| members.contains_key(*name));
        let one = match name {
            "type" => Keyword::Type(self.types(value, members)?),
            "const" => Keyword::Const(value.clone()),
            "enum" => Keyword::Enum(self.options(value, members)?),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                Keyword::Bound(self.bound(name, value, members)?)
            }
            "multipleOf" => Keyword::MultipleOf(divisor(value)?),
            "minLength" => Keyword::MinLength(count(value)?),
            "maxLength" => Keyword::MaxLength(count(value)?),
            "minItems" => Keyword::MinItems(count(value)?),
            "maxItems" => Keyword::MaxItems(count(value)?),
            "minProperties" => Keyword::MinProperties(count(value)?),
            "maxProperties" => Keyword::MaxProperties(count(value)?),
            "required" => Keyword::Required(names(value)?),
            "dependentRequired" => {
                let members = value.as_object().ok_or("must be an object")?;
                let lists = members.iter().map(|(name, list)| Ok((name.as_str().into(), names(list)?)));
                Keyword::DependentRequired(lists.collect::<Result<_, String>>()?)
            }
            "pattern" => Keyword::Pattern(Pattern::compile(text(value)?)?),
            "format" => match format::find(text(value)?, self.openapi_3_0) {
                Some(format) => Keyword::Format(format),
                None => return Ok(Vec::new()),
            },
            "uniqueItems" => match value.as_bool().ok_or("must be a boolean")? {
                true => Keyword::UniqueItems,
                false => return Ok(Vec::new()),
            },
            "patternProperties" if present(&["properties"]) => return Ok(Vec::new()),
            "additionalProperties" if present(&["properties", "patternProperties"]) => return Ok(Vec::new()),
            "properties" | "patternProperties" | "additionalProperties" => {
                Keyword::Properties(self.properties(schema)?)
            }
            "propertyNames" => Keyword::PropertyNames(self.node(at.clone())),
            "items" if !self.openapi_3_0 && present(&["prefixItems"]) => return Ok(Vec::new()),
            "items" | "prefixItems" => Keyword::Items(self.items(schema)?),
            "contains" => Keyword::Contains(self.contains(at, members)?),
            "dependencies" => return self.dependencies(at),
            "dependentSchemas" => Keyword::DependentSchemas(self.named(at)?),
            "allOf" => Keyword::AllOf(self.list(at)?),
            "anyOf" => Keyword::AnyOf(self.list(at)?),
            "oneOf" => Keyword::OneOf(self.list(at)?),
            "not" => Keyword::Not { schema: self.node(at.clone()), shown: echo(&value.to_string()).into() },
            "if" => Keyword::If {
                condition: self.node(at.clone()),
                then: schema.child("then").map(|place| self.node(place)),
                otherwise: schema.child("else").map(|place| self.node(place)),
            },
            "unevaluatedProperties" => Keyword::UnevaluatedProperties(self.node(at.clone())),
            "unevaluatedItems" => Keyword::UnevaluatedItems(self.node(at.clone())),
            "$ref" => Keyword::Ref(self.node(schema.follow(self.document, text(value)?)?)),
            _ => {
                return Err(
                    "the meaning depends on the way to the schema, which cannot be bounded".to_owned()
                );
            }
        };
        Ok(vec![one])
    }

    fn types(&self, value: &Value, members: &Map<String, Value>) -> Result<Types, String> {
        let mut types = Types::new(self.openapi_3_0);
        let listed = match value {
            Value::Array(listed) => listed.as_slice(),
            one => std::slice::from_ref(one),
        };
        for name in listed {
            if !types.add(text(name)?) {
                return Err(format!("'{}' is no type", echo(text(name)?)));
            }
        }
        if value.is_string() && self.is_nullable(members) {
            types.add("null");
        }
        Ok(types)
    }

    /// OpenAPI 3.0 writes `nullable: true` where JSON Schema has a list of types.
    fn is_nullable(&self, members: &Map<String, Value>) -> bool {
        self.openapi_3_0 && members.get("nullable") == Some(&Value::Bool(true))
    }

    fn options(&self, value: &Value, members: &Map<String, Value>) -> Result<Enum, String> {
        let mut options = value.as_array().ok_or("must be a list")?.clone();
        if self.is_nullable(members) {
            options.push(Value::Null);
        }
        let hasher = ValueHasher::default();
        let mut by_hash: HashMap<u64, Vec<u32>> = HashMap::new();
        if options.len() > MANY_OPTIONS {
            let mut budget = Budget::new(u64::MAX);
            for (i, option) in (0..).zip(&options) {
                // There are as many steps as it takes.
                by_hash.entry(hasher.hash(option, &mut budget).unwrap_or_default()).or_default().push(i);
            }
        }
        Ok(Enum { options, hasher, by_hash })
    }

    fn bound(&self, name: &str, value: &Value, members: &Map<String, Value>) -> Result<Bound, String> {
        let Value::Number(limit) = value else { return Err("must be a number".to_owned()) };
        let side = if name.ends_with("inimum") { Side::Min } else { Side::Max };
        let flag = if side == Side::Min { "exclusiveMinimum" } else { "exclusiveMaximum" };
        let exclusive = if self.openapi_3_0 {
            members.get(flag) == Some(&Value::Bool(true))
        } else {
            name.starts_with("exclusive")
        };
        let exact = Decimal::parse_any(limit.as_str()).ok_or("must be a number")?;
        Ok(Bound { side, exclusive, limit: value.clone(), exact, whole: limit.as_i64() })
    }

    fn properties(&mut self, schema: &SchemaLocation<'d>) -> Result<Properties, String> {
        let named = match schema.child("properties") {
            Some(at) => self.named(&at)?.into_iter().collect(),
            None => HashMap::default(),
        };
        let mut patterns = Vec::new();
        if let Some(at) = schema.child("patternProperties") {
            for (pattern, node) in self.named(&at)? {
                let compiled = Pattern::compile(&pattern)
                    .map_err(|what| format!("the pattern '{}': {what}", echo(&pattern)))?;
                patterns.push((compiled, node));
            }
        }
        let additional = self.additional(schema.child("additionalProperties"));
        Ok(Properties { named, patterns, additional })
    }

    fn additional(&mut self, at: Option<SchemaLocation<'d>>) -> Additional {
        match at {
            None => Additional::Unchecked,
            Some(at) => match at.value {
                Value::Bool(true) => Additional::Accepted,
                Value::Bool(false) => Additional::Refused,
                _ => Additional::Schema(self.node(at)),
            },
        }
    }

    fn items(&mut self, schema: &SchemaLocation<'d>) -> Result<Items, String> {
        let (items, prefix) = (schema.child("items"), schema.child("prefixItems"));
        let by_place = if self.openapi_3_0 { items.clone().filter(|at| at.value.is_array()) } else { prefix };
        let (prefix, rest) = match by_place {
            Some(list) if self.openapi_3_0 => {
                (self.list(&list)?, self.additional(schema.child("additionalItems")))
            }
            Some(list) => (self.list(&list)?, self.rest(items)),
            None => (Vec::new(), self.rest(items)),
        };
        Ok(Items { prefix, rest })
    }

    fn rest(&mut self, at: Option<SchemaLocation<'d>>) -> Additional {
        at.map_or(Additional::Unchecked, |at| Additional::Schema(self.node(at)))
    }

    fn contains(
        &mut self,
        at: &SchemaLocation<'d>,
        members: &Map<String, Value>,
    ) -> Result<Contains, String> {
        let bound = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(value) => count(value).map(Some).map_err(|what| format!("{name} {what}")),
        };
        let (min, max) = (bound("minContains")?.unwrap_or(1), bound("maxContains")?);
        Ok(Contains { schema: self.node(at.clone()), min, max })
    }

    /// `dependencies` names members or a schema.
    fn dependencies(&mut self, at: &SchemaLocation<'d>) -> Result<Vec<Keyword>, String> {
        let members = at.value.as_object().ok_or("must be an object")?;
        let (mut required, mut schemas) = (Vec::new(), Vec::new());
        for (name, dependency) in members {
            if dependency.is_array() {
                required.push((name.as_str().into(), names(dependency)?));
            } else {
                schemas.extend(at.child(name).map(|at| (name.as_str().into(), self.node(at))));
            }
        }
        Ok(vec![Keyword::DependentRequired(required), Keyword::DependentSchemas(schemas)])
    }

    /// The schemas of a list.
    fn list(&mut self, at: &SchemaLocation<'d>) -> Result<Vec<NodeId>, String> {
        if !at.value.is_array() {
            return Err("must be a list of schemas".to_owned());
        }
        Ok(at.children().into_iter().map(|place| self.node(place)).collect())
    }

    /// The schemas of an object by name.
    fn named(&mut self, at: &SchemaLocation<'d>) -> Result<Vec<(Box<str>, NodeId)>, String> {
        let members = at.value.as_object().ok_or("must be an object of schemas")?;
        let nodes = at.children().into_iter().map(|place| self.node(place));
        Ok(members.keys().map(|name| name.as_str().into()).zip(nodes).collect())
    }

    /// Refuses schemas that refer to themselves for the same value, from this node on.
    fn refuse_endless(&mut self, first: usize) {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Not,
            Open,
            Done,
        }
        let next = |id: usize| -> Vec<NodeId> {
            self.nodes[id].keywords.iter().flat_map(Keyword::in_place).collect()
        };
        let mut seen = vec![Seen::Not; self.nodes.len()];
        let mut endless = Vec::new();
        for start in first..self.nodes.len() {
            if seen[start] != Seen::Not {
                continue;
            }
            seen[start] = Seen::Open;
            let mut open = vec![(start, next(start))];
            while let Some((id, todo)) = open.last_mut() {
                let Some(child) = todo.pop().map(|child| child as usize) else {
                    seen[*id] = Seen::Done;
                    open.pop();
                    continue;
                };
                match seen[child] {
                    Seen::Not => {
                        seen[child] = Seen::Open;
                        open.push((child, next(child)));
                    }
                    Seen::Open => endless.push(child),
                    Seen::Done => {}
                }
            }
        }
        for id in endless {
            let place = self.places[id].0.clone();
            self.fault(
                &place,
                "the schema refers to itself without entering a member or an item, which never ends",
            );
        }
    }
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "must be a string".to_owned())
}

fn names(value: &Value) -> Result<Vec<Box<str>>, String> {
    let list = value.as_array().ok_or("must be a list of names")?;
    list.iter().map(|name| text(name).map(Into::into)).collect()
}

/// A whole number that is not negative; `2.0` is one.
fn count(value: &Value) -> Result<u64, String> {
    let number = value.as_number().and_then(|number| Decimal::parse(number.as_str()));
    match number.map(|number| number.floor()) {
        Some((whole, true)) if whole >= 0 => Ok(whole.unsigned_abs()),
        _ => Err("must be a whole number that is not negative".to_owned()),
    }
}

fn divisor(value: &Value) -> Result<Divisor, String> {
    let number = value.as_number().ok_or("must be a number")?;
    let parts = Decimal::parse(number.as_str()).and_then(|number| number.positive_parts());
    let parts = parts.ok_or("must be a positive number of at most 18 digits")?;
    Ok(Divisor { number: number.clone(), parts })
}
