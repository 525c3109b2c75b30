//! Rows as text, made into resources and reports.

use std::collections::HashMap;

use hyperfleet_core::{
    Phase, RawJson, Report, ReportSummary, ReportedStatus, Resource, ResourceId, Stamp, Tenant, Timestamp,
    Version,
};
use hyperfleet_store::{TextRow, ancestors_of, conditions_of, report_of};
use serde::de::IgnoredAny;

/// The values of a row, taken one after the other.
pub(crate) struct Cells(std::vec::IntoIter<Option<String>>);

impl Cells {
    pub(crate) fn of(row: TextRow) -> Self {
        Self(row.into_iter())
    }

    pub(crate) fn maybe(&mut self) -> Option<String> {
        self.0.next().flatten()
    }

    /// Nothing counts as empty.
    pub(crate) fn or_empty(&mut self) -> String {
        self.maybe().unwrap_or_default()
    }

    pub(crate) fn text(&mut self) -> Result<String, String> {
        self.maybe().ok_or_else(|| "a value is missing".to_owned())
    }

    pub(crate) fn number(&mut self) -> Result<i64, String> {
        let text = self.text()?;
        text.parse().map_err(|_| format!("'{text}' is no number"))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, String> {
        Ok(Timestamp::from_micros(self.number()?))
    }

    fn maybe_time(&mut self) -> Result<Option<Timestamp>, String> {
        let number = |text: String| text.parse().map_err(|_| format!("'{text}' is no time"));
        Ok(self.maybe().map(number).transpose()?.map(Timestamp::from_micros))
    }

    fn json(&mut self) -> Result<RawJson, String> {
        let text = self.text()?;
        check_json(&text)?;
        Ok(RawJson::from_stored(text))
    }

    /// Bytes in hexadecimal digits.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let text = self.text()?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| "no bytes".to_owned())
    }
}

fn check_json(text: &str) -> Result<(), String> {
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| format!("broken JSON: {error}"))
}

/// A resource with what stands beside it.
pub(crate) struct StoredResource {
    pub(crate) resource: Resource,
    /// The column `owner_id`.
    pub(crate) owner: Option<ResourceId>,
    /// Its creation as the database prints it.
    pub(crate) created: String,
    pub(crate) updated_after: Option<Timestamp>,
    /// The report times beside the conditions, by adapter.
    pub(crate) report_times: HashMap<String, i64>,
}

impl StoredResource {
    /// Reads what [`resources`](crate::sql::resources) selects, behind the id.
    pub(crate) fn read(id: ResourceId, cells: &mut Cells) -> Result<Self, String> {
        let (kind, name) = (cells.text()?, cells.text()?);
        let ancestors = ancestors_of(&cells.text()?)?;
        let generation = cells.number()?;
        let [spec, labels, references] = [cells.json()?, cells.json()?, cells.json()?];
        let created = Stamp { at: cells.time()?, by: cells.text()? };
        let updated = Stamp { at: cells.time()?, by: cells.text()? };
        let (deleted, deleted_by) = (cells.maybe_time()?, cells.or_empty());
        let tenancy = cells.maybe().as_deref().map(Tenant::from_stored);
        let owner = cells.maybe().and_then(|owner| ResourceId::parse(&owner));
        let created_text = cells.text()?;
        let version = Version(cells.number()?);
        let conditions = cells.text()?;
        let times = cells.or_empty();
        let time = |text: &str| text.parse().map_err(|_| format!("'{text}' is no time"));
        let times = times.split(',').filter(|text| !text.is_empty()).map(time);
        let conditions = conditions_of(&conditions, times.collect::<Result<_, _>>()?);
        check_json(conditions.as_str())?;
        let (pending_since, updated_after) = (cells.maybe_time()?, cells.maybe_time()?);
        let report_times = cells.maybe().unwrap_or_else(|| "{}".to_owned());
        let report_times =
            serde_json::from_str(&report_times).map_err(|error| format!("report_times: {error}"))?;
        let finalizing = |at| Phase::Finalizing(Stamp { at, by: deleted_by });
        let resource = Resource {
            id,
            kind: kind.into(),
            name,
            tenancy,
            ancestors,
            generation,
            spec,
            labels,
            references,
            created,
            updated,
            phase: deleted.map_or(Phase::Active, finalizing),
            conditions,
            version,
            pending_since,
        };
        Ok(Self { resource, owner, created: created_text, updated_after, report_times })
    }
}

/// A report, and what the columns beside its body say of it.
pub(crate) struct StoredReport {
    pub(crate) report: Report,
    pub(crate) summary: ReportSummary,
    /// The column `bytes`.
    pub(crate) bytes: Option<i64>,
    body_bytes: i64,
}

impl StoredReport {
    /// Reads what [`reports`](crate::sql::reports) selects, behind the resource and the adapter.
    pub(crate) fn read(adapter: &str, cells: &mut Cells) -> Result<Self, String> {
        let (generation, time, created) = (cells.number()?, cells.time()?, cells.time()?);
        let available = cells.text()?;
        let available =
            ReportedStatus::parse(&available).ok_or_else(|| format!("'{available}' is no status"))?;
        // PostgreSQL prints a boolean as a letter, SQLite as a number.
        let finalized = matches!(cells.text()?.as_str(), "t" | "1");
        let (reason, message) = (cells.text()?.into(), cells.text()?.into());
        let adapter = adapter.into();
        let summary = ReportSummary { adapter, generation, available, finalized, reason, message, time };
        let body = cells.bytes()?;
        let report = report_of(&summary, created, &body)?;
        [Some(&report.data), report.metadata.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|json| check_json(json.as_str()))?;
        let bytes = cells.maybe().and_then(|bytes| bytes.parse().ok());
        Ok(Self { report, summary, bytes, body_bytes: body.len() as i64 })
    }

    /// How much it takes, as the store counts.
    pub(crate) fn size(&self) -> i64 {
        self.bytes.unwrap_or(self.body_bytes)
    }
}
