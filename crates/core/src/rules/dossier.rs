//! What is worth remembering of a resource between two reports on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::Standings;
use crate::{Report, Resource, ResourceId};

/// A resource without its wish, where its adapters stand, and those of their reports that were looked at:
/// what the next report on it will need again.
#[derive(Debug)]
pub struct Dossier {
    pub(super) resource: Arc<Resource>,
    pub(super) standings: Standings,
    pub(super) reports: BTreeMap<Arc<str>, Report>,
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
        let reports = self.reports.values().map(|report| report.printed_size() + report.adapter.len());
        let standings =
            self.standings.values().map(|s| 2 * s.adapter.len() + s.reason.len() + s.message.len() + 192);
        self.resource.conditions.as_str().len() + reports.sum::<usize>() + standings.sum::<usize>() + 512
    }
}
