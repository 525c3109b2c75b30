//! Rows as PostgreSQL gives them, made into resources and reports.

use std::error::Error;

use bytes::BytesMut;
use chrono::{DateTime, Utc};
use hyperfleet_core::{
    Catalog, Phase, RawJson, Report, Resource, ResourceId, Stamp, Standing, Tenant, Timestamp, Version,
};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::ancestors;
use crate::failure::Failure;
use crate::packed::Dictionaries;
use crate::report_row;
use crate::search::Value;

/// Reads [`crate::COLUMNS`]. `None` for a kind that is not configured any more: such rows are
/// invisible until it is again.
pub(super) fn resource(catalog: &Catalog, row: &Row) -> Result<Option<Resource>, Failure> {
    let Some(entity) = catalog.get(row.try_get(1)?) else { return Ok(None) };
    let stamp = |at: DateTime<Utc>, by: &str| Stamp { at: Timestamp::from(at), by: by.to_owned() };
    let json = |index: usize| -> Result<RawJson, Failure> {
        Ok(RawJson::from_stored(row.try_get::<_, &str>(index)?))
    };
    let deleted: Option<DateTime<Utc>> = row.try_get(12)?;
    Ok(Some(Resource {
        id: row.try_get::<_, Uuid>(0)?.into(),
        kind: entity.kind.clone(),
        name: row.try_get(2)?,
        tenancy: row.try_get::<_, Option<&str>>(18)?.map(Tenant::from_stored),
        ancestors: ancestors::parse(row.try_get(3)?)?,
        generation: row.try_get(4)?,
        spec: json(5)?,
        labels: json(6)?,
        references: json(7)?,
        created: stamp(row.try_get(8)?, row.try_get(9)?),
        updated: stamp(row.try_get(10)?, row.try_get(11)?),
        phase: match deleted {
            None => Phase::Active,
            Some(at) => Phase::Finalizing(stamp(at, row.try_get::<_, Option<&str>>(13)?.unwrap_or_default())),
        },
        conditions: report_row::conditions(row.try_get(14)?, row.try_get::<_, Vec<i64>>(16)?.into_iter()),
        version: Version(row.try_get(15)?),
        pending_since: row.try_get::<_, Option<DateTime<Utc>>>(17)?.map(Timestamp::from),
    }))
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

    /// Statements and values are made by one hand, so there is nothing to choose.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Reads [`report_row::STANDING_COLUMNS`].
pub(super) fn standing(row: &Row) -> Result<(ResourceId, Standing), Failure> {
    let standing = report_row::standing(
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get::<_, DateTime<Utc>>(3)?.into(),
        row.try_get(4)?,
        row.try_get(5)?,
        (row.try_get(6)?, row.try_get(7)?),
    )?;
    Ok((row.try_get::<_, Uuid>(0)?.into(), standing))
}

/// Reads [`report_row::REPORT_COLUMNS`].
pub(super) fn report(dictionaries: &Dictionaries, row: &Row) -> Result<(ResourceId, Report), Failure> {
    let time =
        |index: usize| -> Result<Timestamp, Failure> { Ok(row.try_get::<_, DateTime<Utc>>(index)?.into()) };
    let report = report_row::report(
        dictionaries,
        row.try_get(1)?,
        row.try_get(2)?,
        (time(3)?, time(4)?),
        row.try_get(5)?,
        [row.try_get(6)?, row.try_get(7)?, row.try_get(8)?],
    )?;
    Ok((row.try_get::<_, Uuid>(0)?.into(), report))
}
