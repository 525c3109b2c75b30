//! What is wrong with a value that does not fit. Each keyword that does not hold is one violation, at the value that it
//! was applied to; of schemas that are alternatives only the keyword is named, because there is no telling which one
//! was meant.

use serde_json::{Map, Value};

use super::budget::Spent;
use super::check::{Check, Demand, Step};
use super::node::{Additional, Keyword, Node, NodeId};
use super::violation::{Breach, Violation};

/// The most violations of one value.
pub(super) const MAX_VIOLATIONS: usize = 100;

impl<'s, 'i> Check<'s, 'i> {
    /// Adds the violations of a value by a schema, until there are enough.
    pub(super) fn explain(
        &mut self,
        id: NodeId,
        value: &'i Value,
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        if self.recall(id, value) == Some(true) {
            return Ok(());
        }
        self.enter()?;
        let (nodes, before) = (self.nodes, found.len());
        let node = &nodes[id as usize];
        for keyword in &node.keywords {
            if found.len() >= MAX_VIOLATIONS {
                break;
            }
            self.explain_keyword(node, keyword, value, found)?;
        }
        self.leave();
        self.remember(id, value, found.len() == before);
        Ok(())
    }

    fn explain_keyword(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        match (keyword, value) {
            (Keyword::AllOf(schemas), _) => {
                for schema in schemas {
                    self.explain(*schema, value, found)?;
                }
            }
            (Keyword::Ref(schema), _) => self.explain(*schema, value, found)?,
            (Keyword::If { condition, then, otherwise }, _) => {
                let branch = if self.fits(*condition, value)? { then } else { otherwise };
                if let Some(schema) = branch {
                    self.explain(*schema, value, found)?;
                }
            }
            (Keyword::OneOf(schemas), _) => match self.fitting(schemas, value, 2)? {
                0 => found.push(self.violation(value, Breach::Keyword(keyword))),
                1 => {}
                _ => found.push(self.violation(value, Breach::SeveralOfOne)),
            },
            (_, Value::Array(items)) => self.explain_list(node, keyword, value, items, found)?,
            (_, Value::Object(members)) => self.explain_object(node, keyword, value, members, found)?,
            _ => self.explain_failed(node, keyword, value, found)?,
        }
        Ok(())
    }

    fn explain_failed(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        if !self.holds(node, keyword, value)? {
            found.push(self.violation(value, Breach::Keyword(keyword)));
        }
        Ok(())
    }

    fn explain_list(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        items: &'i [Value],
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        match keyword {
            Keyword::Items(schemas) => {
                for (i, item) in items.iter().enumerate() {
                    let Some(schema) = schemas.at(i).filter(|_| found.len() < MAX_VIOLATIONS) else { break };
                    self.path.push(Step::Item(i));
                    self.explain(schema, item, found)?;
                    self.path.pop();
                }
                let more = items.len().saturating_sub(schemas.prefix.len());
                if schemas.rest == Additional::Refused && more > 0 {
                    found.push(self.violation(value, Breach::AdditionalItems(more)));
                }
            }
            Keyword::UnevaluatedItems(schema) => {
                let evaluated = self.evaluated_items(node, value, items)?;
                let mut failing = 0;
                for (i, item) in items.iter().enumerate().filter(|(i, _)| !evaluated[*i]) {
                    failing += usize::from(!self.item_fits(*schema, i, item)?);
                }
                if failing > 0 {
                    found.push(self.violation(value, Breach::UnevaluatedItems(failing)));
                }
            }
            _ => self.explain_failed(node, keyword, value, found)?,
        }
        Ok(())
    }

    fn explain_object(
        &mut self,
        node: &'s Node,
        keyword: &'s Keyword,
        value: &'i Value,
        members: &'i Map<String, Value>,
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        match keyword {
            Keyword::Required(names) => self.explain_missing(names, value, members, found)?,
            Keyword::DependentRequired(lists) => {
                for (name, names) in lists {
                    self.budget.take(1)?;
                    if members.contains_key(&**name) {
                        self.explain_missing(names, value, members, found)?;
                    }
                }
            }
            Keyword::Properties(properties) => {
                for (i, (name, member)) in members.iter().enumerate() {
                    if found.len() >= MAX_VIOLATIONS {
                        break;
                    }
                    self.path.push(Step::Member(i, name));
                    let demand = self.for_member(properties, name, |check, schema| {
                        check.explain(schema, member, found).map(|()| true)
                    })?;
                    if let Demand::Refused = demand {
                        found.push(self.violation(member, Breach::Unknown));
                    }
                    self.path.pop();
                }
            }
            Keyword::PropertyNames(schema) => {
                for name in members.keys() {
                    if found.len() >= MAX_VIOLATIONS {
                        break;
                    }
                    let wrong = self.with_name(name, |check, name| {
                        let mut found = Vec::new();
                        check.explain(*schema, name, &mut found)?;
                        Ok(found.iter().map(|violation| violation.sentence_of_name(name)).collect::<Vec<_>>())
                    })?;
                    found.extend(wrong.into_iter().map(|what| self.violation(value, Breach::Name(what))));
                }
            }
            Keyword::DependentSchemas(schemas) => {
                for (name, schema) in schemas {
                    self.budget.take(1)?;
                    if members.contains_key(&**name) {
                        self.explain(*schema, value, found)?;
                    }
                }
            }
            Keyword::UnevaluatedProperties(schema) => {
                let evaluated = self.evaluated_members(node, value, members)?;
                for (i, (name, member)) in members.iter().enumerate().filter(|(i, _)| !evaluated[*i]) {
                    if found.len() >= MAX_VIOLATIONS {
                        break;
                    }
                    self.path.push(Step::Member(i, name));
                    if !self.fits(*schema, member)? {
                        found.push(self.violation(member, Breach::Unknown));
                    }
                    self.path.pop();
                }
            }
            _ => self.explain_failed(node, keyword, value, found)?,
        }
        Ok(())
    }

    fn explain_missing(
        &mut self,
        names: &'s [Box<str>],
        value: &'i Value,
        members: &Map<String, Value>,
        found: &mut Vec<Violation<'s, 'i>>,
    ) -> Result<(), Spent> {
        self.budget.take(names.len() as u64)?;
        let missing = names.iter().filter(|name| !members.contains_key(&***name));
        found.extend(missing.take(MAX_VIOLATIONS).map(|name| self.violation(value, Breach::Missing(name))));
        Ok(())
    }

    fn violation(&self, value: &'i Value, breach: Breach<'s>) -> Violation<'s, 'i> {
        Violation { path: self.path.clone(), value, breach }
    }
}
