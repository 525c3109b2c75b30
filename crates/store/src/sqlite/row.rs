//! Rows as SQLite gives them, made into resources and reports.

use hyperfleet_core::{
    Catalog, Phase, RawJson, Report, ReportSummary, Resource, ResourceId, Stamp, Tenant, Timestamp, Version,
};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Row, RowIndex, ToSql};

use crate::codec::{conditions, parse_ancestors, report};
use crate::failure::{Failure, FailureKind};
use crate::search::Value;

/// Reads [`READ_RESOURCE`](crate::codec::columns). `None` for a kind that is not configured any more: such rows are invisible
/// until it is again.
pub(super) fn resource(catalog: &Catalog, row: &Row<'_>) -> Result<Option<Resource>, Failure> {
    let Some(entity) = catalog.get(text(row, "kind")?) else { return Ok(None) };
    let stamp =
        |at: &str, by: &str| -> Result<Stamp, Failure> { Ok(Stamp { at: time(row, at)?, by: row.get(by)? }) };
    let json = |name: &str| sound(RawJson::from_stored(text(row, name)?));
    let times = parse_times(text(row, "last_updated_times")?)?.into_iter();
    Ok(Some(Resource {
        id: id(text(row, "id")?)?,
        kind: entity.kind.clone(),
        name: row.get("name")?,
        tenancy: row.get::<_, Option<String>>("tenancy")?.as_deref().map(Tenant::from_stored),
        ancestors: parse_ancestors(text(row, "ancestors")?)?,
        generation: row.get("generation")?,
        spec: json("spec")?,
        labels: json("labels")?,
        references: json("refs")?,
        created: stamp("created_time", "created_by")?,
        updated: stamp("updated_time", "updated_by")?,
        phase: match row.get::<_, Option<i64>>("deleted_time")? {
            None => Phase::Active,
            Some(_) => Phase::Finalizing(stamp("deleted_time", "deleted_by")?),
        },
        conditions: sound(conditions::conditions(text(row, "conditions")?, times))?,
        version: Version(row.get("version")?),
        pending_since: row.get::<_, Option<i64>>("pending_since")?.map(Timestamp::from_micros),
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

/// Reads [`READ_SUMMARY`](crate::codec::columns).
pub(super) fn summary(row: &Row<'_>) -> Result<ReportSummary, Failure> {
    report::summary(
        text(row, "adapter")?,
        row.get("observed_generation")?,
        time(row, "last_report_time")?,
        text(row, "available")?,
        row.get("finalized")?,
        (text(row, "reason")?, text(row, "message")?),
    )
}

/// Reads [`READ_REPORT`](crate::codec::columns).
pub(super) fn report(row: &Row<'_>) -> Result<Report, Failure> {
    report::report(
        text(row, "adapter")?,
        row.get("observed_generation")?,
        time(row, "last_report_time")?,
        time(row, "created_time")?,
        bytes(row, "body")?,
    )
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

/// A time column.
pub(super) fn time(row: &Row<'_>, column: impl RowIndex) -> Result<Timestamp, Failure> {
    Ok(Timestamp::from_micros(row.get(column)?))
}

/// A text column, without copying it.
pub(super) fn text<'a>(row: &'a Row<'_>, column: impl RowIndex) -> Result<&'a str, Failure> {
    row.get_ref(column)?.as_str().map_err(|error| Failure::new(FailureKind::Defect, error))
}

/// A blob column, without copying it.
pub(super) fn bytes<'a>(row: &'a Row<'_>, column: impl RowIndex) -> Result<&'a [u8], Failure> {
    row.get_ref(column)?.as_blob().map_err(|error| Failure::new(FailureKind::Defect, error))
}

/// JSON as it is, unless it is damaged at first sight: SQLite keeps no checksums, JSON goes to callers unparsed, and a
/// broken value would break the whole list.
fn sound(json: RawJson) -> Result<RawJson, Failure> {
    let is_damage = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let text = json.as_str().as_bytes();
    let encloses = matches!(text, [b'{', .., b'}'] | [b'[', .., b']']);
    if encloses && !text.iter().any(|byte| is_damage(*byte)) {
        return Ok(json);
    }
    Err(Failure::new(FailureKind::Defect, "a column of JSON is damaged"))
}
