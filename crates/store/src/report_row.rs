//! How a report and a resource's moved times lie in their columns, the same for both stores.

use hyperfleet_core::{RawJson, Report, ReportedStatus, Standing, Timestamp, with_last_updated_times};

use crate::failure::{Failure, FailureKind};

/// The columns that say where an adapter stands, in the order in which both stores read them.
pub(crate) const STANDING_COLUMNS: &str =
    "resource_id, adapter, observed_generation, last_report_time, available, finalized, reason, message";

/// The columns that make a report, in the order in which both stores read them.
pub(crate) const REPORT_COLUMNS: &str =
    "resource_id, adapter, observed_generation, last_report_time, created_time, conditions, data, metadata";

/// Conditions with the times that reports have moved since they were written.
pub(crate) fn conditions(stored: &str, refreshed: impl ExactSizeIterator<Item = i64>) -> RawJson {
    if refreshed.len() == 0 {
        return RawJson::from_stored(stored);
    }
    with_last_updated_times(stored, refreshed.map(Timestamp::from_micros))
}

/// A report put together from its columns.
pub(crate) fn report(
    adapter: &str,
    observed_generation: i64,
    times: (Timestamp, Timestamp),
    conditions: &str,
    data: &str,
    metadata: Option<&str>,
) -> Result<Report, Failure> {
    let (last_report_time, created_time) = times;
    Ok(Report {
        adapter: adapter.into(),
        observed_generation,
        conditions: RawJson::from_stored(conditions).parse()?,
        data: RawJson::from_stored(data),
        metadata: metadata.map(RawJson::from_stored),
        created_time,
        last_report_time,
    })
}

/// Where an adapter stands, put together from its columns.
pub(crate) fn standing(
    adapter: &str,
    generation: i64,
    time: Timestamp,
    available: &str,
    finalized: bool,
    words: (&str, &str),
) -> Result<Standing, Failure> {
    let defect = || Failure::new(FailureKind::Defect, format!("'{available}' is no status"));
    Ok(Standing {
        adapter: adapter.into(),
        generation,
        available: ReportedStatus::parse(available).ok_or_else(defect)?,
        finalized,
        reason: words.0.into(),
        message: words.1.into(),
        time,
    })
}
