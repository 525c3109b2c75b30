//! A list as the store understands it: a scope, an order, and a slice. The scope is data, never
//! text, and column names come from the enums here; no caller's text becomes part of a statement.

use std::sync::Arc;

use hyperfleet_core::{Catalog, Report, Resource, ResourceId, Version};

/// Which resources, in which order, and which slice of them.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// The kinds to list. One for a kind's own list.
    pub kinds: Vec<Arc<str>>,
    /// Only the children of this owner.
    pub owner: Option<ResourceId>,
    /// Finalizing resources too.
    pub show_deleted: bool,
    /// Only resources that refer to this one by this ref type.
    pub referring_to: Option<(String, ResourceId)>,
    /// The order; ties are broken by id in the direction of the last field.
    pub order: Vec<(SortField, Direction)>,
    /// How many to skip.
    pub offset: u64,
    /// How many to return.
    pub limit: u64,
    /// Whether to count the whole result.
    pub count: bool,
}

/// A slice of a list, from one snapshot.
#[derive(Debug)]
pub struct Page {
    /// The newest version in the snapshot.
    pub version: Version,
    /// The size of the whole result, if it was asked for.
    pub total: Option<u64>,
    /// The slice.
    pub items: Vec<Resource>,
}

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// How many to skip.
    pub offset: u64,
    /// How many to return.
    pub limit: u64,
}

/// A slice of the reports on a resource, from one snapshot.
#[derive(Debug)]
pub struct ReportPage {
    /// The newest version in the snapshot.
    pub version: Version,
    /// How many there are.
    pub total: u64,
    /// The slice, by adapter.
    pub items: Vec<Report>,
}

/// Up or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// What a list can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the API's field names
pub enum SortField {
    Id,
    Name,
    Kind,
    Href,
    CreatedBy,
    UpdatedBy,
    DeletedBy,
    OwnerId,
    OwnerKind,
    Generation,
    CreatedTime,
    UpdatedTime,
    DeletedTime,
}

impl SortField {
    /// Every sortable field by its name in the API.
    pub const ALL: [(&'static str, Self); 13] = [
        ("id", Self::Id),
        ("name", Self::Name),
        ("kind", Self::Kind),
        ("href", Self::Href),
        ("created_by", Self::CreatedBy),
        ("updated_by", Self::UpdatedBy),
        ("deleted_by", Self::DeletedBy),
        ("owner_id", Self::OwnerId),
        ("owner_kind", Self::OwnerKind),
        ("generation", Self::Generation),
        ("created_time", Self::CreatedTime),
        ("updated_time", Self::UpdatedTime),
        ("deleted_time", Self::DeletedTime),
    ];

    /// The field with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }
}

impl ListQuery {
    /// The number of all resources in `scope`, as an expression. Whole kinds are counted already; a
    /// narrower scope is small or has to be counted.
    pub(crate) fn total(&self, scope: &str, kinds: &str) -> String {
        let columns = if self.show_deleted { "active + finalizing" } else { "active" };
        match (self.count, self.owner, &self.referring_to) {
            (false, _, _) => "cast(null as bigint)".to_owned(),
            (true, None, None) => {
                let counts = kinds.replace("r.kind", "kind");
                format!(
                    "(select cast(coalesce(sum({columns}), 0) as bigint) from kind_counts where {counts})"
                )
            }
            _ => format!("(select count(*) from resources r where {scope})"),
        }
    }

    /// The `order by` clause over table `r`, the same on both stores. `href` and `owner_kind` are
    /// not columns: they are ranked by kind, whose names are letters and digits by the catalog's
    /// own check.
    pub(crate) fn order_by(&self, catalog: &Catalog) -> String {
        let mut terms = Vec::new();
        for (field, direction) in &self.order {
            let rank = |key: &dyn Fn(&str) -> Option<String>| rank_by_kind(&self.kinds, key);
            let column = match field {
                SortField::Id => "r.id".to_owned(),
                SortField::Name => "r.name".to_owned(),
                SortField::Kind => "r.kind".to_owned(),
                SortField::CreatedBy => "r.created_by".to_owned(),
                SortField::UpdatedBy => "r.updated_by".to_owned(),
                SortField::DeletedBy => "r.deleted_by".to_owned(),
                SortField::OwnerId => "r.owner_id".to_owned(),
                SortField::Generation => "r.generation".to_owned(),
                SortField::CreatedTime => "r.created_time".to_owned(),
                SortField::UpdatedTime => "r.updated_time".to_owned(),
                SortField::DeletedTime => "r.deleted_time".to_owned(),
                SortField::Href => rank(&|kind| catalog.get(kind).map(|e| format!("{}/", e.plural))),
                SortField::OwnerKind => {
                    rank(&|kind| catalog.get(kind)?.parent.as_ref().map(|p| p.kind.to_string()))
                }
            };
            let nullable = matches!(
                field,
                SortField::DeletedBy | SortField::DeletedTime | SortField::OwnerId | SortField::OwnerKind
            );
            terms.push(term(&column, *direction, nullable));
            if *field == SortField::Href {
                terms.push(term("r.id", *direction, false));
            }
        }
        let last = self.order.last().map_or(Direction::Ascending, |(_, direction)| *direction);
        terms.push(term("r.id", last, false));
        terms.join(", ")
    }
}

fn term(column: &str, direction: Direction, nullable: bool) -> String {
    let way = if direction == Direction::Ascending { "asc" } else { "desc" };
    // Only where a null can be: `nulls last` would keep the planner from walking an index backwards.
    let nulls = if nullable { " nulls last" } else { "" };
    format!("{column} {way}{nulls}")
}

/// A number per kind in the order of `key`; kinds without one have no rank.
fn rank_by_kind(kinds: &[Arc<str>], key: &dyn Fn(&str) -> Option<String>) -> String {
    let mut keys: Vec<String> = kinds.iter().filter_map(|kind| key(kind)).collect();
    keys.sort();
    keys.dedup();
    let mut case = "case r.kind".to_owned();
    for kind in kinds {
        if let Some(rank) = key(kind).and_then(|k| keys.binary_search(&k).ok()) {
            case.push_str(&format!(" when '{kind}' then {rank}"));
        }
    }
    if keys.is_empty() { "cast(null as integer)".to_owned() } else { case + " end" }
}
