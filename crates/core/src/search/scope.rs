//! What a route lists, whatever the caller searches for. It is joined to the search as a tree and not as text, so a
//! caller cannot escape it with a parenthesis.

use std::sync::Arc;

use super::tree::{Comparison, Field, Filter, Literal, Predicate, Test, TextColumn, TimeColumn};
use crate::ResourceId;

/// The resources that a list is about.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Of these kinds.
    pub kinds: Vec<Arc<str>>,
    /// Only the children of this owner.
    pub owner: Option<ResourceId>,
    /// Finalizing resources too.
    pub finalizing: bool,
    /// Only resources that refer to this one by this ref type.
    pub referring_to: Option<(String, ResourceId)>,
}

impl Scope {
    /// The resources in scope that match `search`.
    pub fn confine(&self, search: Option<Filter>) -> Filter {
        let kinds = self.kinds.iter().map(|kind| Literal::Text(kind.to_string())).collect();
        let mut parts =
            vec![test(Field::Text(TextColumn::Kind), Predicate::In { values: kinds, negated: false })];
        if let Some(owner) = self.owner {
            let is_owner = Predicate::Compare(Comparison::Equal, Literal::Text(owner.to_string()));
            parts.push(test(Field::Text(TextColumn::OwnerId), is_owner));
        }
        if !self.finalizing {
            parts.push(test(Field::Time(TimeColumn::DeletedTime), Predicate::IsNull { negated: false }));
        }
        if let Some((ref_type, target)) = &self.referring_to {
            parts.push(Filter::RefersTo { ref_type: ref_type.clone(), target: *target });
        }
        parts.extend(search);
        Filter::And(parts)
    }
}

fn test(field: Field, predicate: Predicate) -> Filter {
    Filter::Test(Test { field, predicate })
}
