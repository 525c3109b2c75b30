//! Rows as PostgreSQL gives them, made into resources and reports.

use std::collections::HashMap;
use std::error::Error;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use hyperfleet_core::{
    Catalog, IdMap, Phase, RawJson, Report, ReportSummary, Resource, ResourceId, Stamp, Tenant, Timestamp,
    Version,
};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::codec::{conditions, parse_ancestors, report};
use crate::failure::{Failure, FailureKind};
use crate::search::Value;

/// Reads [`READ_RESOURCE`](crate::codec::columns). `None` for a kind that is not configured any more: such rows are invisible
/// until it is again.
pub(super) fn resource(catalog: &Catalog, row: &Row) -> Result<Option<Resource>, Failure> {
    let Some(entity) = catalog.get(row.try_get("kind")?) else { return Ok(None) };
    let stamp = |at: DateTime<Utc>, by: &str| Stamp { at: Timestamp::from(at), by: by.to_owned() };
    let json =
        |name: &str| -> Result<RawJson, Failure> { Ok(RawJson::from_stored(row.try_get::<_, &str>(name)?)) };
    let deleted: Option<DateTime<Utc>> = row.try_get("deleted_time")?;
    let times = row.try_get::<_, Vec<i64>>("last_updated_times")?.into_iter();
    Ok(Some(Resource {
        id: row.try_get::<_, Uuid>("id")?.into(),
        kind: entity.kind.clone(),
        name: row.try_get("name")?,
        tenancy: row.try_get::<_, Option<&str>>("tenancy")?.map(Tenant::from_stored),
        ancestors: parse_ancestors(row.try_get("ancestors")?)?,
        generation: row.try_get("generation")?,
        spec: json("spec")?,
        labels: json("labels")?,
        references: json("refs")?,
        created: stamp(row.try_get("created_time")?, row.try_get("created_by")?),
        updated: stamp(row.try_get("updated_time")?, row.try_get("updated_by")?),
        phase: match deleted {
            None => Phase::Active,
            Some(at) => {
                let by = row.try_get::<_, Option<&str>>("deleted_by")?.unwrap_or_default();
                Phase::Finalizing(stamp(at, by))
            }
        },
        conditions: conditions::conditions(row.try_get("conditions")?, times),
        version: Version(row.try_get("version")?),
        pending_since: row.try_get::<_, Option<DateTime<Utc>>>("pending_since")?.map(Timestamp::from),
    }))
}

/// The type of a value in a statement that is not prepared.
pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::Text(_) => Type::TEXT,
        Value::Texts(_) => Type::TEXT_ARRAY,
        Value::Integer(_) => Type::INT8,
        Value::Integers(_) => Type::INT8_ARRAY,
        Value::Time(_) => Type::TIMESTAMPTZ,
        Value::Id(_) | Value::Facet(_) => Type::UUID,
        Value::Ids(_) => Type::UUID_ARRAY,
    }
}

/// A value of a search.
impl ToSql for Value {
    fn to_sql(&self, as_type: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Text(text) => text.to_sql(as_type, out),
            Self::Texts(texts) => texts.to_sql(as_type, out),
            Self::Integer(number) => number.to_sql(as_type, out),
            Self::Integers(numbers) => numbers.to_sql(as_type, out),
            Self::Time(time) => time.utc().to_sql(as_type, out),
            Self::Id(id) => id.uuid().to_sql(as_type, out),
            Self::Ids(ids) => ids.iter().map(|id| id.uuid()).collect::<Vec<Uuid>>().to_sql(as_type, out),
            Self::Facet(facet) => facet.uuid().to_sql(as_type, out),
        }
    }

    /// The planner makes statements and values together, so their types agree.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Reads [`READ_SUMMARY`](crate::codec::columns).
pub(super) fn summary(row: &Row) -> Result<(ResourceId, ReportSummary), Failure> {
    let summary = report::summary(
        row.try_get("adapter")?,
        row.try_get("observed_generation")?,
        row.try_get::<_, DateTime<Utc>>("last_report_time")?.into(),
        row.try_get("available")?,
        row.try_get("finalized")?,
        (row.try_get("reason")?, row.try_get("message")?),
    )?;
    Ok((row.try_get::<_, Uuid>("resource_id")?.into(), summary))
}

/// Reads [`READ_REPORT`](crate::codec::columns).
pub(super) fn report(row: &Row) -> Result<(ResourceId, Report), Failure> {
    let report = report::report(
        row.try_get("adapter")?,
        row.try_get("observed_generation")?,
        row.try_get::<_, DateTime<Utc>>("last_report_time")?.into(),
        row.try_get::<_, DateTime<Utc>>("created_time")?.into(),
        row.try_get("body")?,
    )?;
    Ok((row.try_get::<_, Uuid>("resource_id")?.into(), report))
}

/// The report times that are kept beside the conditions of the resources that were read: a column of JSON. See
/// [`ReportTimes`](crate::write::ReportTimes).
#[derive(Default)]
pub(super) struct StoredReportTimes(IdMap<HashMap<String, i64>>);

impl StoredReportTimes {
    /// Reads the column `report_times` of a row about a resource.
    pub(super) fn read(&mut self, id: ResourceId, row: &Row) -> Result<(), Failure> {
        if let Some(text) = row.try_get::<_, Option<&str>>("report_times")? {
            let times =
                serde_json::from_str(text).map_err(|error| Failure::new(FailureKind::Defect, error))?;
            self.0.insert(id, times);
        }
        Ok(())
    }

    /// The report with its latest time.
    pub(super) fn applied(&self, id: ResourceId, mut report: Report) -> Report {
        report.last_report_time = self.latest(id, &report.adapter, report.last_report_time);
        report
    }

    /// The latest report time of an adapter whose row says `time`.
    pub(super) fn latest(&self, id: ResourceId, adapter: &str, time: Timestamp) -> Timestamp {
        let kept = self.0.get(&id).and_then(|times| times.get(adapter));
        kept.map_or(time, |kept| time.max(Timestamp::from_micros(*kept)))
    }
}
