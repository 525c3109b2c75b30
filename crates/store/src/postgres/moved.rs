//! Reports that only moved their time. A fleet that is well sends hardly anything else, and each moves the times of its
//! resource's conditions too; so where an adapter is required, its own time is noted beside those, and its row in
//! `reports` is left alone. Whoever reads that row takes the later of both times.

use std::collections::{BTreeMap, HashMap};

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, IdMap, Report, ResourceId, Timestamp, json_text};
use tokio_postgres::Row;

use crate::differences::Differences;
use crate::failure::{Failure, FailureKind};

/// The times that a batch moved, as they are to be written.
pub(super) struct Moves<'a> {
    /// Of resources whose conditions are confirmed with them: adapters and times as JSON.
    noted: IdMap<String>,
    /// The others, to be written into their rows.
    pub(super) in_rows: Vec<(ResourceId, &'a Report)>,
}

impl<'a> Moves<'a> {
    pub(super) fn of(catalog: &Catalog, set: &WorkingSet, differences: &Differences<'a>) -> Self {
        let mut noted: IdMap<String> =
            differences.refreshed.iter().map(|refreshed| (refreshed.id, String::new())).collect();
        let mut in_rows = Vec::new();
        for (id, report) in &differences.moved_reports {
            // Of adapters that nobody configured there may be any number.
            let is_required = set
                .kind_of(*id)
                .and_then(|kind| catalog.get(kind))
                .is_some_and(|entity| entity.required_adapters.iter().any(|name| **name == *report.adapter));
            match noted.get_mut(id).filter(|_| is_required) {
                Some(members) => {
                    members.push(if members.is_empty() { '{' } else { ',' });
                    members.push_str(&json_text(&&*report.adapter));
                    members.push(':');
                    members.push_str(&report.last_report_time.micros().to_string());
                }
                None => in_rows.push((*id, *report)),
            }
        }
        noted.retain(|_, members| !members.is_empty());
        noted.values_mut().for_each(|members| members.push('}'));
        Self { noted, in_rows }
    }

    /// What is to be noted with a resource that is confirmed.
    pub(super) fn noted(&self, id: ResourceId) -> Option<&str> {
        self.noted.get(&id).map(String::as_str)
    }
}

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
