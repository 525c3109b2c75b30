//! What a list can be sorted by, and the position of a resource in it. A further page starts after the position of the
//! last resource, so that its cost does not grow with its depth.

use serde::{Deserialize, Serialize};

use super::eval::Candidate;
use super::tree::{TextColumn, TimeColumn};
use crate::ResourceId;

/// A field that every list can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the field of the same name")]
pub enum SortField {
    Text(TextColumn),
    Generation,
    Time(TimeColumn),
}

/// Up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// The fields of an order, the most important first. Ties are broken by id, in the direction of the last field, and
/// resources without a field come last.
pub type Order = Vec<(SortField, Direction)>;

impl SortField {
    /// Every one with its name.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let texts = TextColumn::ALL.into_iter().map(|(name, column)| (name, Self::Text(column)));
        let times = TimeColumn::ALL.into_iter().map(|(name, column)| (name, Self::Time(column)));
        texts.chain([("generation", Self::Generation)]).chain(times)
    }

    /// The field with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|(known, _)| *known == name).map(|(_, field)| field)
    }

    /// Whether there are resources without it.
    pub fn is_optional(self) -> bool {
        matches!(
            self,
            Self::Text(TextColumn::DeletedBy | TextColumn::OwnerId | TextColumn::OwnerKind)
                | Self::Time(TimeColumn::DeletedTime)
        )
    }
}

/// What a resource is sorted by: the value of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SortKey {
    /// A generation, or a time in microseconds.
    Number(i64),
    /// A text.
    Text(String),
}

/// The position of a resource in an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Its value of each field of the order.
    #[serde(rename = "k")]
    pub keys: Vec<Option<SortKey>>,
    /// Its id.
    #[serde(rename = "i")]
    pub id: ResourceId,
}

impl Position {
    /// The position of a resource.
    pub fn of(candidate: &Candidate<'_>, order: &Order) -> Self {
        let keys = order.iter().map(|(field, _)| candidate.sort_key(*field)).collect();
        Self { keys, id: candidate.id() }
    }

    /// Whether it can be a position in this order.
    pub fn fits(&self, order: &Order) -> bool {
        self.keys.len() == order.len()
            && self.keys.iter().zip(order).all(|(key, (field, _))| match (key, field) {
                (None, field) => field.is_optional(),
                (Some(SortKey::Text(id)), SortField::Text(TextColumn::Id | TextColumn::OwnerId)) => {
                    ResourceId::parse(id).is_some()
                }
                (Some(SortKey::Text(_)), field) => matches!(field, SortField::Text(_)),
                (Some(SortKey::Number(_)), field) => !matches!(field, SortField::Text(_)),
            })
    }
}
