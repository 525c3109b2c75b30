//! A row as SQLite gives it, made into a resource without parsing its JSON.

use hyperfleet_core::{Catalog, Phase, RawJson, Resource, ResourceId, Stamp, Timestamp, Version};
use rusqlite::Row;

use crate::ancestors;
use crate::failure::{Failure, FailureKind};

/// Reads [`crate::COLUMNS`]. `None` for a kind that is not configured any more: such rows are
/// invisible until it is again.
pub(super) fn resource(catalog: &Catalog, row: &Row<'_>) -> Result<Option<Resource>, Failure> {
    let Some(entity) = catalog.get(text(row, 1)?) else { return Ok(None) };
    let stamp = |at: usize, by: usize| -> Result<Stamp, Failure> {
        Ok(Stamp { at: Timestamp::from_micros(row.get(at)?), by: row.get(by)? })
    };
    let json = |index: usize| -> Result<RawJson, Failure> { Ok(RawJson::from_stored(text(row, index)?)) };
    Ok(Some(Resource {
        id: id(text(row, 0)?)?,
        kind: entity.kind.clone(),
        name: row.get(2)?,
        ancestors: ancestors::parse(text(row, 3)?)?,
        generation: row.get(4)?,
        spec: json(5)?,
        labels: json(6)?,
        references: json(7)?,
        created: stamp(8, 9)?,
        updated: stamp(10, 11)?,
        phase: match row.get::<_, Option<i64>>(12)? {
            None => Phase::Active,
            Some(_) => Phase::Finalizing(stamp(12, 13)?),
        },
        conditions: json(14)?,
        version: Version(row.get(15)?),
    }))
}

/// An id column.
pub(super) fn id(text: &str) -> Result<ResourceId, Failure> {
    ResourceId::parse(text).ok_or_else(|| Failure::new(FailureKind::Defect, format!("'{text}' is no id")))
}

/// A text column, without copying it.
pub(super) fn text<'a>(row: &'a Row<'_>, index: usize) -> Result<&'a str, Failure> {
    row.get_ref(index)?.as_str().map_err(|error| Failure::new(FailureKind::Defect, error))
}
