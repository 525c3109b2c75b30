//! What is worth remembering of a resource between two reports on it.

use std::collections::BTreeMap;

use super::facts::Standings;
use crate::{RawJson, Report, Resource, ResourceId};

/// A resource without its wish, where its adapters stand, and those of their reports that were looked at:
/// what the next report on it will need again.
#[derive(Debug)]
pub struct Dossier {
    pub(super) resource: Resource,
    pub(super) standings: Standings,
    pub(super) reports: BTreeMap<String, Report>,
}

impl Dossier {
    /// Which resource it is about.
    pub fn id(&self) -> ResourceId {
        self.resource.id
    }

    /// Whether it holds the report of an adapter.
    pub fn has_report(&self, adapter: &str) -> bool {
        self.reports.contains_key(adapter)
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let reports = self.reports.values().map(size_of_report);
        let standings =
            self.standings.values().map(|s| 2 * s.adapter.len() + s.reason.len() + s.message.len() + 192);
        self.resource.conditions.as_str().len() + reports.sum::<usize>() + standings.sum::<usize>() + 512
    }
}

fn size_of_report(report: &Report) -> usize {
    let conditions = report.conditions.iter().map(|c| {
        let words = [&c.reason, &c.message].into_iter().flatten().map(String::len);
        c.kind.len() + words.sum::<usize>() + 128
    });
    let metadata = report.metadata.as_ref().map_or(0, |metadata| RawJson::as_str(metadata).len());
    2 * report.adapter.len() + report.data.as_str().len() + metadata + conditions.sum::<usize>() + 256
}
