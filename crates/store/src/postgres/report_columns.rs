//! Reports as columns, one array each, for the statements that write many at once.

use chrono::{DateTime, Utc};
use hyperfleet_core::{Report, ResourceId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::failure::Failure;
use crate::packed::Dictionaries;
use crate::report_row::ReportTexts;

#[derive(Default)]
pub(super) struct ReportColumns<'a> {
    pub(super) ids: Vec<Uuid>,
    adapters: Vec<&'a str>,
    generations: Vec<i64>,
    report_times: Vec<DateTime<Utc>>,
    available: Vec<&'static str>,
    finalized: Vec<bool>,
    reasons: Vec<String>,
    messages: Vec<String>,
    created_times: Vec<DateTime<Utc>>,
    packed: Vec<Vec<u8>>,
    data: Vec<&'a str>,
    metadata: Vec<Option<&'a str>>,
}

impl<'a> ReportColumns<'a> {
    pub(super) fn of(
        dictionaries: &Dictionaries,
        reports: &[(ResourceId, &'a Report)],
    ) -> Result<Self, Failure> {
        let mut columns = Self::times_of(reports);
        for (_, report) in reports {
            let standing = report.standing();
            let texts = ReportTexts::of(dictionaries, report)?;
            columns.generations.push(report.observed_generation);
            columns.available.push(standing.available.name());
            columns.finalized.push(standing.finalized);
            columns.reasons.push(standing.reason.to_string());
            columns.messages.push(standing.message.to_string());
            columns.created_times.push(report.created_time.utc());
            columns.packed.push(texts.packed);
            columns.data.push(texts.data);
            columns.metadata.push(texts.metadata);
        }
        Ok(columns)
    }

    /// Only what a report that says nothing new moves.
    pub(super) fn times_of(reports: &[(ResourceId, &'a Report)]) -> Self {
        Self {
            ids: reports.iter().map(|(id, _)| id.uuid()).collect(),
            adapters: reports.iter().map(|(_, report)| &*report.adapter).collect(),
            report_times: reports.iter().map(|(_, report)| report.last_report_time.utc()).collect(),
            ..Self::default()
        }
    }

    /// In the order of [`super::together::Write::NewReports`] and of `Reports`.
    pub(super) fn all(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids,
            &self.adapters,
            &self.generations,
            &self.report_times,
            &self.available,
            &self.finalized,
            &self.reasons,
            &self.messages,
            &self.created_times,
            &self.packed,
            &self.data,
            &self.metadata,
        ]
    }

    /// In the order of [`super::together::Write::ReportTimes`].
    pub(super) fn moving(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.ids, &self.adapters, &self.report_times]
    }
}
