//! The order of a list as SQL, and the position after which a page begins. Both are total, because the id comes last.

use hyperfleet_core::search::{Direction, Order, Position, SortField, SortKey, TextColumn, TimeColumn};
use hyperfleet_core::{ResourceId, Timestamp};

use super::Value;
use super::predicate::{Builder, time_column};

/// The columns of the default order, in the table that drives the statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    pub(super) created_time: &'static str,
    pub(super) id: &'static str,
}

/// One term of an order.
struct Term {
    column: String,
    descending: bool,
    optional: bool,
}

impl Builder<'_> {
    /// The `order by` clause.
    pub(super) fn order_by(&self, order: &Order, anchor: Anchor) -> String {
        let terms = self.terms(order, anchor);
        let printed = terms.iter().map(|term| {
            let way = if term.descending { "desc" } else { "asc" };
            // Only for nullable columns, because `nulls last` keeps the planner from scanning an index backwards.
            let nulls = if term.optional { " nulls last" } else { "" };
            format!("{} {way}{nulls}", term.column)
        });
        printed.collect::<Vec<_>>().join(", ")
    }

    /// The condition that a resource comes after `position`.
    pub(super) fn after(&mut self, order: &Order, position: &Position, anchor: Anchor) -> String {
        let terms = self.terms(order, anchor);
        let mut places: Vec<Option<String>> = Vec::new();
        for ((field, _), key) in order.iter().zip(&position.keys) {
            let value = key.as_ref().map(|key| sort_value(*field, key));
            places.push(value.map(|value| self.bind(value)));
        }
        places.push(Some(self.bind(Value::Id(position.id))));

        let one_way = terms.iter().all(|term| !term.optional && term.descending == terms[0].descending);
        if one_way {
            let columns: Vec<&str> = terms.iter().map(|term| term.column.as_str()).collect();
            let places: Vec<String> = places.into_iter().flatten().collect();
            let sign = if terms[0].descending { "<" } else { ">" };
            return format!("({}) {sign} ({})", columns.join(", "), places.join(", "));
        }
        let mut ways = Vec::new();
        for (i, term) in terms.iter().enumerate() {
            let Some(after) = term.after(places[i].as_deref()) else { continue };
            let mut way: Vec<String> =
                terms[..i].iter().zip(&places).map(|(term, place)| term.same(place.as_deref())).collect();
            way.push(after);
            ways.push(format!("({})", way.join(" and ")));
        }
        format!("({})", ways.join(" or "))
    }

    fn terms(&self, order: &Order, anchor: Anchor) -> Vec<Term> {
        let mut terms: Vec<Term> = order
            .iter()
            .map(|(field, direction)| Term {
                column: self.sort_column(*field, anchor),
                descending: *direction == Direction::Descending,
                optional: field.is_optional(),
            })
            .collect();
        let descending = terms.last().is_some_and(|term| term.descending);
        terms.push(Term { column: anchor.id.to_owned(), descending, optional: false });
        terms
    }

    fn sort_column(&self, field: SortField, anchor: Anchor) -> String {
        match field {
            // Ids sort the same as texts and as they are.
            SortField::Text(TextColumn::Id) => anchor.id.to_owned(),
            SortField::Text(TextColumn::OwnerId) => "r.owner_id".to_owned(),
            SortField::Text(column) => self.column(column),
            SortField::Generation => "r.generation".to_owned(),
            SortField::Time(TimeColumn::CreatedTime) => anchor.created_time.to_owned(),
            SortField::Time(column) => time_column(column).to_owned(),
        }
    }
}

impl Term {
    fn same(&self, place: Option<&str>) -> String {
        match place {
            Some(place) => format!("{} = {place}", self.column),
            None => format!("{} is null", self.column),
        }
    }

    /// Nothing comes after null.
    fn after(&self, place: Option<&str>) -> Option<String> {
        let column = &self.column;
        let sign = if self.descending { "<" } else { ">" };
        let beyond = format!("{column} {sign} {}", place?);
        Some(if self.optional { format!("({beyond} or {column} is null)") } else { beyond })
    }
}

fn sort_value(field: SortField, key: &SortKey) -> Value {
    match (field, key) {
        (SortField::Time(_), SortKey::Number(micros)) => Value::Time(Timestamp::from_micros(*micros)),
        (_, SortKey::Number(number)) => Value::Integer(*number),
        (SortField::Text(TextColumn::Id | TextColumn::OwnerId), SortKey::Text(text)) => {
            ResourceId::parse(text).map_or_else(|| Value::Text(text.clone()), Value::Id)
        }
        (_, SortKey::Text(text)) => Value::Text(text.clone()),
    }
}
