//! The stored form of a report, the same for both stores.

use hyperfleet_core::{RawJson, Report, ReportSummary, ReportedStatus, Timestamp};

use crate::codec::compression::{compress, decompress};
use crate::failure::{Failure, FailureKind};

/// The body of a report: its conditions, data and metadata.
pub(crate) fn body(report: &Report) -> Result<Vec<u8>, Failure> {
    let metadata = report.metadata.as_ref().map(RawJson::as_str);
    compress([Some(&report.printed_conditions()), Some(report.data.as_str()), metadata])
}

/// A report put together from its columns.
pub(crate) fn report(
    adapter: &str,
    observed_generation: i64,
    last_report_time: Timestamp,
    created_time: Timestamp,
    body: &[u8],
) -> Result<Report, Failure> {
    let [conditions, data, metadata] = decompress(body)?;
    Ok(Report {
        adapter: adapter.into(),
        observed_generation,
        conditions: RawJson::from_stored(conditions.unwrap_or_default()).parse()?,
        data: RawJson::from_stored(data.unwrap_or_default()),
        metadata: metadata.map(RawJson::from_stored),
        created_time,
        last_report_time,
    })
}

/// The summary of a report put together from its columns.
pub(crate) fn summary(
    adapter: &str,
    generation: i64,
    time: Timestamp,
    available: &str,
    finalized: bool,
    (reason, message): (&str, &str),
) -> Result<ReportSummary, Failure> {
    let defect = || Failure::new(FailureKind::Defect, format!("'{available}' is no status"));
    Ok(ReportSummary {
        adapter: adapter.into(),
        generation,
        available: ReportedStatus::parse(available).ok_or_else(defect)?,
        finalized,
        reason: reason.into(),
        message: message.into(),
        time,
    })
}
