//! Reports that only [moved](crate::moved) their time, as PostgreSQL keeps them: noted in a column of JSON.

use std::collections::{BTreeMap, HashMap};

use hyperfleet_core::{IdMap, Report, ResourceId, Timestamp, json_text};
use tokio_postgres::Row;

use crate::failure::{Failure, FailureKind};

/// The adapters of each resource whose noted times are to be forgotten, as JSON: a report on a newer generation may have
/// been made before the last one on the older.
pub(super) fn set_back(reports: &[(ResourceId, &Report)]) -> (Vec<uuid::Uuid>, Vec<String>) {
    let mut adapters: BTreeMap<ResourceId, Vec<&str>> = BTreeMap::new();
    for (id, report) in reports {
        adapters.entry(*id).or_default().push(&report.adapter);
    }
    adapters.into_iter().map(|(id, names)| (id.uuid(), json_text(&names))).unzip()
}

/// What is noted with the resources that were read.
#[derive(Default)]
pub(super) struct Noted(IdMap<HashMap<String, i64>>);

impl Noted {
    /// Reads the column with this number of a row about a resource.
    pub(super) fn read(&mut self, id: ResourceId, row: &Row, column: usize) -> Result<(), Failure> {
        if let Some(text) = row.try_get::<_, Option<&str>>(column)? {
            let times =
                serde_json::from_str(text).map_err(|error| Failure::new(FailureKind::Defect, error))?;
            self.0.insert(id, times);
        }
        Ok(())
    }

    /// A report with the time at which it came last.
    pub(super) fn applied(&self, id: ResourceId, mut report: Report) -> Report {
        report.last_report_time = self.latest(id, &report.adapter, report.last_report_time);
        report
    }

    /// When an adapter reported last, whose row says `time`.
    pub(super) fn latest(&self, id: ResourceId, adapter: &str, time: Timestamp) -> Timestamp {
        let noted = self.0.get(&id).and_then(|times| times.get(adapter));
        noted.map_or(time, |noted| time.max(Timestamp::from_micros(*noted)))
    }
}
