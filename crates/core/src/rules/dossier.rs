//! What is worth remembering of a resource between two commands about it.

use std::sync::Arc;

use super::by_adapter::ByAdapter;
use super::facts::Standings;
use crate::report::text_size;
use crate::{Report, Resource, ResourceId, Standing, printed_size};

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
    pub(super) reports: ByAdapter<Report>,
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
        self.has_all_reports || self.reports.get(adapter).is_some()
    }

    /// About how many bytes it takes.
    pub fn size(&self) -> usize {
        // A report shares its texts with where its adapter stands.
        let texts = |standing: &Standing| match self.reports.get(&standing.adapter) {
            Some(_) => 0,
            None => text_size(&standing.adapter) + text_size(&standing.reason) + text_size(&standing.message),
        };
        let standings = self.standings.iter().map(|standing| size_of::<Standing>() + texts(standing));
        let reports = self.reports.iter().map(Report::size);
        printed_size(&self.resource) + reports.sum::<usize>() + standings.sum::<usize>() + size_of::<Self>()
    }
}
