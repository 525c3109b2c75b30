//! Rows as SQLite gives them, made into resources and reports.

use hyperfleet_core::{
    Catalog, Phase, RawJson, Report, Resource, ResourceId, Stamp, Standing, Tenant, Timestamp, Version,
};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Row, ToSql};

use crate::ancestors;
use crate::failure::{Failure, FailureKind};
use crate::packed::Dictionaries;
use crate::report_row;
use crate::search::Value;

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
        tenancy: row.get::<_, Option<String>>(18)?.as_deref().map(Tenant::from_stored),
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
        conditions: report_row::conditions(text(row, 14)?, parse_times(text(row, 16)?)?.into_iter()),
        version: Version(row.get(15)?),
        pending_since: row.get::<_, Option<i64>>(17)?.map(Timestamp::from_micros),
    }))
}

/// Times as one text column.
pub(super) fn print_times(times: &[Timestamp]) -> String {
    times.iter().map(|time| time.micros().to_string()).collect::<Vec<_>>().join(",")
}

pub(super) fn parse_times(text: &str) -> Result<Vec<i64>, Failure> {
    let defect = |_| Failure::new(FailureKind::Defect, format!("'{text}' are no times"));
    text.split(',').filter(|time| !time.is_empty()).map(|time| time.parse().map_err(defect)).collect()
}

/// Reads [`report_row::STANDING_COLUMNS`].
pub(super) fn standing(row: &Row<'_>) -> Result<Standing, Failure> {
    report_row::standing(
        text(row, 1)?,
        row.get(2)?,
        Timestamp::from_micros(row.get(3)?),
        text(row, 4)?,
        row.get(5)?,
        (text(row, 6)?, text(row, 7)?),
    )
}

/// Reads [`report_row::REPORT_COLUMNS`].
pub(super) fn report(dictionaries: &Dictionaries, row: &Row<'_>) -> Result<Report, Failure> {
    let time = |index: usize| -> Result<Timestamp, Failure> { Ok(Timestamp::from_micros(row.get(index)?)) };
    let plain = [Some(text(row, 6)?), Some(text(row, 7)?), text_or_none(row, 8)?];
    let times = (time(3)?, time(4)?);
    report_row::report(dictionaries, text(row, 1)?, row.get(2)?, times, bytes_or_none(row, 5)?, plain)
}

/// A value of a search. Lists are JSON, which SQLite takes apart itself.
impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let list = |json: serde_json::Value| ToSqlOutput::from(json.to_string());
        Ok(match self {
            Self::Text(text) => ToSqlOutput::from(text.as_str()),
            Self::Texts(texts) => list(texts.as_slice().into()),
            Self::Integer(number) => ToSqlOutput::from(*number),
            Self::Integers(numbers) => list(numbers.as_slice().into()),
            Self::Time(time) => ToSqlOutput::from(time.micros()),
            Self::Id(id) => ToSqlOutput::from(id.to_string()),
            Self::Ids(ids) => list(ids.iter().map(ToString::to_string).collect()),
            Self::Facet(facet) => ToSqlOutput::from(facet.bytes().to_vec()),
        })
    }
}

/// An id column.
pub(super) fn id(text: &str) -> Result<ResourceId, Failure> {
    ResourceId::parse(text).ok_or_else(|| Failure::new(FailureKind::Defect, format!("'{text}' is no id")))
}

/// A text column, without copying it.
pub(super) fn text<'a>(row: &'a Row<'_>, index: usize) -> Result<&'a str, Failure> {
    row.get_ref(index)?.as_str().map_err(|error| Failure::new(FailureKind::Defect, error))
}

/// The same for one that may be null.
pub(super) fn text_or_none<'a>(row: &'a Row<'_>, index: usize) -> Result<Option<&'a str>, Failure> {
    row.get_ref(index)?.as_str_or_null().map_err(|error| Failure::new(FailureKind::Defect, error))
}

/// The same for one that holds bytes.
pub(super) fn bytes_or_none<'a>(row: &'a Row<'_>, index: usize) -> Result<Option<&'a [u8]>, Failure> {
    row.get_ref(index)?.as_blob_or_null().map_err(|error| Failure::new(FailureKind::Defect, error))
}
