//! Whether a value fits a schema. Nothing is collected on the way, the first failure decides, and what a shared schema
//! found about a value is remembered, so that recursive alternatives take polynomial time.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::budget::{Budget, Spent};
use super::equality::{equal, has_duplicates};
use super::node::{Additional, Bound, Contains, Enum, Items, Keyword, Node, NodeId, Properties, Side};
use crate::Decimal;

/// How many schemas may be entered within each other. A spec nests 64 levels; the rest is for schemas that refer to
/// others for the same value. The stack of a thread bounds it.
const MAX_DEPTH: usize = 400;

/// The most results that are remembered. Past it a check only takes more steps.
const MAX_REMEMBERED: usize = 200_000;

/// One step from a value to a value in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'i> {
    /// The position of a member, and its name.
    Member(usize, &'i str),
    Item(usize),
}

/// What a schema demands of a member.
pub(super) enum Demand {
    None,
    Refused,
    /// That it fits other schemas, and whether it does.
    Schemas(bool),
}

/// One check of one value.
pub(super) struct Check<'s, 'i> {
    pub(super) nodes: &'s [Node],
    pub(super) budget: Budget,
    /// The way to the value that is being checked. It stays where it is when the budget is spent.
    pub(super) path: Vec<Step<'i>>,
    depth: usize,
    remembered: HashMap<(NodeId, *const Value), bool, foldhash::fast::RandomState>,
}

impl<'s, 'i> Check<'s, 'i> {
    pub(super) fn new(nodes: &'s [Node], budget: Budget) -> Self {
        Self { nodes, budget, path: Vec::new(), depth: 0, remembered: HashMap::default() }
    }

    /// Whether a value fits a schema.
    pub(super) fn fits(&mut self, id: NodeId, value: &'i Value) -> Result<bool, Spent> {
        let nodes = self.nodes;
        let node = &nodes[id as usize];
        if let Some(known) = self.recall(id, value) {
            return Ok(known);
        }
        self.enter()?;
        let mut fits = true;
        for keyword in &node.keywords {
            if !self.holds(node, keyword, value)? {
                fits = false;
                break;
            }
        }
        self.leave();
        self.remember(id, value, fits);
        Ok(fits)
    }

    pub(super) fn enter(&mut self) -> Result<(), Spent> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Spent);
        }
        self.budget.take(1)
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn recall(&self, id: NodeId, value: &'i Value) -> Option<bool> {
        let known = || self.remembered.get(&(id, std::ptr::from_ref(value))).copied();
        self.nodes[id as usize].shared.then(known).flatten()
    }

    pub(super) fn remember(&mut self, id: NodeId, value: &'i Value, fits: bool) {
        if self.nodes[id as usize].shared && self.remembered.len() < MAX_REMEMBERED {
            self.remembered.insert((id, std::ptr::from_ref(value)), fits);
        }
    }

    /// Whether a value does what one keyword demands.
    pub(super) fn holds(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
    ) -> Result<bool, Spent> {
        match (keyword, value) {
            (Keyword::Never, _) => Ok(false),
            (Keyword::Type(types), Value::Number(number)) => {
                self.budget.take_text(number.as_str())?;
                Ok(types.has(value))
            }
            (Keyword::Type(types), _) => Ok(types.has(value)),
            (Keyword::Const(expected), _) => equal(expected, value, &mut self.budget),
            (Keyword::Enum(options), _) => self.is_option(options, value),
            (Keyword::Bound(bound), Value::Number(number)) => {
                self.budget.take_text(number.as_str())?;
                Ok(is_within(bound, number))
            }
            (Keyword::MultipleOf(divisor), Value::Number(number)) => {
                self.budget.take_text(number.as_str())?;
                Ok(Decimal::parse_any(number.as_str()).is_some_and(|n| n.is_multiple_of(divisor.parts)))
            }
            (Keyword::MinLength(limit), Value::String(text)) => Ok(self.length(text)? >= *limit),
            (Keyword::MaxLength(limit), Value::String(text)) => Ok(self.length(text)? <= *limit),
            (Keyword::Pattern(pattern), Value::String(text)) => pattern.matches(text, &mut self.budget),
            (Keyword::Format(format), Value::String(text)) => {
                self.budget.take_text(text)?;
                Ok((format.fits)(text))
            }
            (_, Value::Array(items)) => self.holds_for_list(node, keyword, value, items),
            (_, Value::Object(members)) => self.holds_for_object(node, keyword, value, members),
            _ => self.holds_in_place(keyword, value),
        }
    }

    fn holds_for_list(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        items: &'i [Value],
    ) -> Result<bool, Spent> {
        match keyword {
            Keyword::MinItems(limit) => Ok(items.len() as u64 >= *limit),
            Keyword::MaxItems(limit) => Ok(items.len() as u64 <= *limit),
            Keyword::UniqueItems => Ok(!has_duplicates(items, &mut self.budget)?),
            Keyword::Items(schemas) => self.items_fit(schemas, items),
            Keyword::Contains(contains) => self.contains_enough(contains, items),
            Keyword::UnevaluatedItems(schema) => {
                let evaluated = self.evaluated_items(node, value, items)?;
                for (i, item) in items.iter().enumerate().filter(|(i, _)| !evaluated[*i]) {
                    if !self.item_fits(*schema, i, item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => self.holds_in_place(keyword, value),
        }
    }

    fn holds_for_object(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        members: &'i Map<String, Value>,
    ) -> Result<bool, Spent> {
        match keyword {
            Keyword::MinProperties(limit) => Ok(members.len() as u64 >= *limit),
            Keyword::MaxProperties(limit) => Ok(members.len() as u64 <= *limit),
            Keyword::Required(names) => self.has_all(names, members),
            Keyword::DependentRequired(lists) => {
                for (name, names) in lists {
                    self.budget.take(1)?;
                    if members.contains_key(&**name) && !self.has_all(names, members)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Keyword::Properties(properties) => self.properties_fit(properties, members),
            Keyword::PropertyNames(schema) => {
                for name in members.keys() {
                    if !self.with_name(name, |check, name| check.fits(*schema, name))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, schema) in schemas {
                    self.budget.take(1)?;
                    if members.contains_key(&**name) && !self.fits(*schema, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Keyword::UnevaluatedProperties(schema) => {
                let evaluated = self.evaluated_members(node, value, members)?;
                for (i, (name, member)) in members.iter().enumerate().filter(|(i, _)| !evaluated[*i]) {
                    if !self.member_fits(*schema, i, name, member)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => self.holds_in_place(keyword, value),
        }
    }

    /// The keywords that apply other schemas to the same value. What is left holds for every value of this type.
    fn holds_in_place(&mut self, keyword: &'s Keyword, value: &'i Value) -> Result<bool, Spent> {
        match keyword {
            Keyword::AllOf(schemas) => {
                for schema in schemas {
                    if !self.fits(*schema, value)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Keyword::AnyOf(schemas) => Ok(self.fitting(schemas, value, 1)? == 1),
            Keyword::OneOf(schemas) => Ok(self.fitting(schemas, value, 2)? == 1),
            Keyword::Not { schema, .. } => Ok(!self.fits(*schema, value)?),
            Keyword::If { condition, then, otherwise } => {
                let branch = if self.fits(*condition, value)? { then } else { otherwise };
                branch.map_or(Ok(true), |schema| self.fits(schema, value))
            }
            Keyword::Ref(schema) => self.fits(*schema, value),
            _ => Ok(true),
        }
    }

    /// How many of these schemas a value fits, counted up to a number that is enough.
    pub(super) fn fitting(
        &mut self,
        schemas: &[NodeId],
        value: &'i Value,
        enough: usize,
    ) -> Result<usize, Spent> {
        let mut fitting = 0;
        for schema in schemas {
            fitting += usize::from(self.fits(*schema, value)?);
            if fitting == enough {
                break;
            }
        }
        Ok(fitting)
    }

    fn is_option(&mut self, options: &Enum, value: &'i Value) -> Result<bool, Spent> {
        if options.by_hash.is_empty() {
            for option in &options.options {
                if equal(option, value, &mut self.budget)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let hash = options.hasher.hash(value, &mut self.budget)?;
        for place in options.by_hash.get(&hash).into_iter().flatten() {
            if equal(&options.options[*place as usize], value, &mut self.budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The length in characters.
    fn length(&mut self, text: &str) -> Result<u64, Spent> {
        self.budget.take_text(text)?;
        Ok(text.chars().count() as u64)
    }

    fn has_all(&mut self, names: &[Box<str>], members: &Map<String, Value>) -> Result<bool, Spent> {
        self.budget.take(names.len() as u64)?;
        Ok(names.iter().all(|name| members.contains_key(&**name)))
    }

    fn properties_fit(
        &mut self,
        properties: &'s Properties,
        members: &'i Map<String, Value>,
    ) -> Result<bool, Spent> {
        let only_named = properties.patterns.is_empty()
            && matches!(properties.additional, Additional::Unchecked | Additional::Accepted);
        if only_named && properties.named.len() < members.len() {
            for (name, schema) in &properties.named {
                self.budget.take(1)?;
                if let Some((name, member)) = members.get_key_value(&**name)
                    && !self.member_fits(*schema, usize::MAX, name, member)?
                {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for (i, (name, member)) in members.iter().enumerate() {
            let fits = |check: &mut Self, schema| check.member_fits(schema, i, name, member);
            if let Demand::Refused | Demand::Schemas(false) = self.for_member(properties, name, fits)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies the schemas of a member, until one of them does not fit.
    pub(super) fn for_member(
        &mut self,
        properties: &'s Properties,
        name: &str,
        mut fits: impl FnMut(&mut Self, NodeId) -> Result<bool, Spent>,
    ) -> Result<Demand, Spent> {
        self.budget.take_text(name)?;
        let named = properties.named.get(name);
        if let Some(schema) = named
            && !fits(self, *schema)?
        {
            return Ok(Demand::Schemas(false));
        }
        let mut known = named.is_some();
        for (pattern, schema) in &properties.patterns {
            if pattern.matches(name, &mut self.budget)? {
                known = true;
                if !fits(self, *schema)? {
                    return Ok(Demand::Schemas(false));
                }
            }
        }
        Ok(match properties.additional {
            _ if known => Demand::Schemas(true),
            Additional::Unchecked => Demand::None,
            Additional::Accepted => Demand::Schemas(true),
            Additional::Refused => Demand::Refused,
            Additional::Schema(schema) => Demand::Schemas(fits(self, schema)?),
        })
    }

    fn items_fit(&mut self, schemas: &'s Items, items: &'i [Value]) -> Result<bool, Spent> {
        if schemas.rest == Additional::Refused && items.len() > schemas.prefix.len() {
            return Ok(false);
        }
        for (i, item) in items.iter().enumerate() {
            let Some(schema) = schemas.at(i) else { break };
            if !self.item_fits(schema, i, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn contains_enough(&mut self, contains: &Contains, items: &'i [Value]) -> Result<bool, Spent> {
        let mut found = 0;
        for (i, item) in items.iter().enumerate() {
            if contains.max.is_none() && found >= contains.min {
                break;
            }
            found += u64::from(self.item_fits(contains.schema, i, item)?);
            if contains.max.is_some_and(|max| found > max) {
                break;
            }
        }
        Ok(found >= contains.min && contains.max.is_none_or(|max| found <= max))
    }

    pub(super) fn member_fits(
        &mut self,
        schema: NodeId,
        i: usize,
        name: &'i str,
        member: &'i Value,
    ) -> Result<bool, Spent> {
        self.path.push(Step::Member(i, name));
        let fits = self.fits(schema, member)?;
        self.path.pop();
        Ok(fits)
    }

    pub(super) fn item_fits(&mut self, schema: NodeId, i: usize, item: &'i Value) -> Result<bool, Spent> {
        self.path.push(Step::Item(i));
        let fits = self.fits(schema, item)?;
        self.path.pop();
        Ok(fits)
    }

    /// Checks a member's name as a value. It has a check of its own, because nothing may be remembered of a value that
    /// is gone.
    pub(super) fn with_name<T>(
        &mut self,
        name: &str,
        check: impl for<'n> FnOnce(&mut Check<'s, 'n>, &'n Value) -> Result<T, Spent>,
    ) -> Result<T, Spent> {
        self.budget.take_text(name)?;
        let mut inner = Check::new(self.nodes, Budget::new(self.budget.left()));
        inner.depth = self.depth;
        let value = Value::from(name);
        let result = check(&mut inner, &value)?;
        self.budget = inner.budget;
        Ok(result)
    }
}

fn is_within(bound: &Bound, number: &Number) -> bool {
    let order = match (number.as_i64(), bound.whole) {
        (Some(number), Some(limit)) => number.cmp(&limit),
        _ => match Decimal::parse_any(number.as_str()) {
            Some(number) => number.cmp(&bound.exact),
            None => return false,
        },
    };
    match bound.side {
        _ if order.is_eq() => !bound.exclusive,
        Side::Min => order.is_gt(),
        Side::Max => order.is_lt(),
    }
}
