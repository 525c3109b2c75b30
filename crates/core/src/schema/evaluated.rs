//! Which members and items of a value the other keywords of a schema have looked at, for `unevaluatedProperties` and
//! `unevaluatedItems`. Of alternatives only those count that the value fits.

use serde_json::{Map, Value};

use super::budget::Spent;
use super::check::{Check, Demand};
use super::node::{Additional, Keyword, Node, NodeId};

impl<'s, 'i> Check<'s, 'i> {
    /// For each member, whether a keyword of `node` besides `unevaluatedProperties` looked at it.
    pub(super) fn evaluated_members(
        &mut self,
        node: &'s Node,
        value: &'i Value,
        members: &'i Map<String, Value>,
    ) -> Result<Vec<bool>, Spent> {
        let mut evaluated = vec![false; members.len()];
        let others = |keyword: &&Keyword| !matches!(keyword, Keyword::UnevaluatedProperties(_));
        for keyword in node.keywords.iter().filter(others) {
            self.mark_members(keyword, value, members, &mut evaluated)?;
        }
        Ok(evaluated)
    }

    fn mark_members(
        &mut self,
        keyword: &'s Keyword,
        value: &'i Value,
        members: &'i Map<String, Value>,
        evaluated: &mut [bool],
    ) -> Result<(), Spent> {
        match keyword {
            Keyword::Properties(properties) => {
                for (name, evaluated) in members.keys().zip(evaluated) {
                    let demand = self.for_member(properties, name, |_, _| Ok(true))?;
                    *evaluated |= matches!(demand, Demand::Schemas(_));
                }
            }
            Keyword::UnevaluatedProperties(_) => evaluated.fill(true),
            _ => {
                for schema in self.counting_in_place(keyword, value, |name| members.contains_key(name))? {
                    self.enter()?;
                    let nodes = self.nodes;
                    for keyword in &nodes[schema as usize].keywords {
                        self.mark_members(keyword, value, members, evaluated)?;
                    }
                    self.leave();
                }
            }
        }
        Ok(())
    }

    /// For each item, whether a keyword of `node` besides `unevaluatedItems` looked at it.
    pub(super) fn evaluated_items(
        &mut self,
        node: &'s Node,
        value: &'i Value,
        items: &'i [Value],
    ) -> Result<Vec<bool>, Spent> {
        let mut evaluated = vec![false; items.len()];
        let others = |keyword: &&Keyword| !matches!(keyword, Keyword::UnevaluatedItems(_));
        for keyword in node.keywords.iter().filter(others) {
            self.mark_items(keyword, value, items, &mut evaluated)?;
        }
        Ok(evaluated)
    }

    fn mark_items(
        &mut self,
        keyword: &'s Keyword,
        value: &'i Value,
        items: &'i [Value],
        evaluated: &mut [bool],
    ) -> Result<(), Spent> {
        match keyword {
            Keyword::Items(schemas) => {
                let all = schemas.rest != Additional::Unchecked;
                let count = if all { items.len() } else { schemas.prefix.len().min(items.len()) };
                evaluated[..count].fill(true);
            }
            Keyword::Contains(contains) => {
                for (i, item) in items.iter().enumerate() {
                    evaluated[i] |= self.item_fits(contains.schema, i, item)?;
                }
            }
            Keyword::UnevaluatedItems(_) => evaluated.fill(true),
            _ => {
                for schema in self.counting_in_place(keyword, value, |_| false)? {
                    self.enter()?;
                    let nodes = self.nodes;
                    for keyword in &nodes[schema as usize].keywords {
                        self.mark_items(keyword, value, items, evaluated)?;
                    }
                    self.leave();
                }
            }
        }
        Ok(())
    }

    /// The schemas of a keyword that count for the same value. `has` says whether the value has a member.
    fn counting_in_place(
        &mut self,
        keyword: &'s Keyword,
        value: &'i Value,
        has: impl Fn(&str) -> bool,
    ) -> Result<Vec<NodeId>, Spent> {
        match keyword {
            Keyword::AnyOf(schemas) | Keyword::OneOf(schemas) => {
                let mut fitting = Vec::new();
                for schema in schemas {
                    if self.fits(*schema, value)? {
                        fitting.push(*schema);
                    }
                }
                Ok(fitting)
            }
            Keyword::If { condition, then, otherwise } => {
                let fits = self.fits(*condition, value)?;
                let branch = if fits { then } else { otherwise };
                Ok(fits.then_some(*condition).into_iter().chain(*branch).collect())
            }
            Keyword::DependentSchemas(schemas) => {
                Ok(schemas.iter().filter(|(name, _)| has(name)).map(|(_, schema)| *schema).collect())
            }
            Keyword::Not { .. } => Ok(Vec::new()),
            // These must fit in any case.
            other => Ok(other.in_place()),
        }
    }
}
