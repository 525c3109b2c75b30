//! Reports that only moved their time. A fleet that is well sends hardly anything else, and each moves the times of its
//! resource's conditions too; so where an adapter is required, its own time is noted beside those, and its row in
//! `reports` is left alone. Whoever reads that row takes the later of both times.

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, IdMap, Report, ResourceId, json_text};

use crate::differences::Differences;

/// The times that a batch moved, as they are to be written.
pub(crate) struct Moves<'a> {
    /// Of resources whose conditions are confirmed with them: adapters and times as JSON.
    noted: IdMap<String>,
    /// The others, to be written into their rows.
    pub(crate) in_rows: Vec<(ResourceId, &'a Report)>,
}

impl<'a> Moves<'a> {
    pub(crate) fn of(catalog: &Catalog, set: &WorkingSet, differences: &Differences<'a>) -> Self {
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
    pub(crate) fn noted(&self, id: ResourceId) -> Option<&str> {
        self.noted.get(&id).map(String::as_str)
    }
}
