//! How a report and a resource's moved times lie in their columns, the same for both stores.

use hyperfleet_core::{RawJson, Report, ReportedStatus, Standing, Timestamp, with_last_updated_times};

use crate::failure::{Failure, FailureKind};
use crate::packed::Dictionaries;
use crate::shorthand;

/// The columns that say where an adapter stands, in the order in which both stores read them.
pub(crate) const STANDING_COLUMNS: &str =
    "resource_id, adapter, observed_generation, last_report_time, available, finalized, reason, message";

/// The columns that make a report, in the order in which both stores read them.
pub(crate) const REPORT_COLUMNS: &str = "resource_id, adapter, observed_generation, last_report_time, created_time, packed, conditions, data, metadata";

/// What only its adapter understands is packed with the rest up to here, in bytes: whoever wants the conditions alone
/// has to read it too.
const PACKED_WITH_CONDITIONS: usize = 4 << 10;

/// The texts of a report as they are kept.
pub(crate) struct ReportTexts<'a> {
    pub(crate) packed: Vec<u8>,
    /// Empty if it is packed.
    pub(crate) data: &'a str,
    pub(crate) metadata: Option<&'a str>,
}

impl<'a> ReportTexts<'a> {
    pub(crate) fn of(dictionaries: &Dictionaries, report: &'a Report) -> Result<Self, Failure> {
        let conditions = report.printed_conditions();
        let (data, metadata) = (report.data.as_str(), report.metadata.as_ref().map(RawJson::as_str));
        if data.len() + metadata.map_or(0, str::len) > PACKED_WITH_CONDITIONS {
            return Ok(Self { packed: dictionaries.pack([Some(&conditions), None, None])?, data, metadata });
        }
        let packed = dictionaries.pack([Some(&conditions), Some(data), metadata])?;
        Ok(Self { packed, data: "", metadata: None })
    }
}

/// Conditions with the times that reports have moved since they were written.
pub(crate) fn conditions(stored: &str, refreshed: impl ExactSizeIterator<Item = i64>) -> RawJson {
    let stored = shorthand::in_full(stored);
    if refreshed.len() == 0 {
        return RawJson::from_stored(stored);
    }
    with_last_updated_times(&stored, refreshed.map(Timestamp::from_micros))
}

/// A report put together from its columns.
pub(crate) fn report(
    dictionaries: &Dictionaries,
    adapter: &str,
    observed_generation: i64,
    times: (Timestamp, Timestamp),
    packed: Option<&[u8]>,
    plain: [Option<&str>; 3],
) -> Result<Report, Failure> {
    let (last_report_time, created_time) = times;
    let [conditions, data, metadata] = dictionaries.texts(packed, plain)?;
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
