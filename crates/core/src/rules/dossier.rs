//! What is worth remembering of a resource between two commands about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::facts::Standings;
use crate::{Report, Resource, ResourceId, printed_size};

/// A resource, where its adapters stand, and those of their reports that were looked at: what the next report on it, or
/// the next patch of it, will need again.
#[derive(Debug)]
pub struct Dossier {
    pub(super) resource: Arc<Resource>,
    /// Whether it has its wish.
    pub(super) is_whole: bool,
    /// Whether there are no other reports.
    pub(super) has_all_reports: bool,
    pub(super) standings: Standings,
    pub(super) reports: BTreeMap<Arc<str>, Report>,
}

impl Dossier {
    /// Which resource it is about.
    pub fn id(&self) -> ResourceId {
        self.resource.id
    }

    /// Whether it has the wish of the resource.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether it tells what an adapter has reported, if anything.
    pub fn knows_report(&self, adapter: &str) -> bool {
        self.has_all_reports || self.reports.contains_key(adapter)
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        let reports = self.reports.values().map(|report| report.printed_size() + report.adapter.len());
        let standings =
            self.standings.values().map(|s| 2 * s.adapter.len() + s.reason.len() + s.message.len() + 192);
        printed_size(&self.resource) + reports.sum::<usize>() + standings.sum::<usize>()
    }
}
