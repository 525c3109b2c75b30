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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, RawJson, ReportedCondition, ReportedStatus, Stamp, Timestamp, Version};

    const MESSAGES: [&str; 3] = [
        "Run 1000000000 of the job ended with success",
        "All manifests were applied to the management cluster",
        "The adapter works without errors",
    ];

    /// A text of JSON that is so long.
    fn text(length: usize) -> RawJson {
        RawJson::from_stored(format!("\"{}\"", "x".repeat(length - 2)))
    }

    fn report(adapter: &str) -> Report {
        let now = Timestamp::from_micros(0);
        let condition = |message: &str| ReportedCondition {
            kind: "Available".into(),
            status: ReportedStatus::True,
            reason: Some("ManifestsApplied".into()),
            message: Some(message.into()),
            last_transition_time: now,
        };
        Report {
            adapter: adapter.into(),
            observed_generation: 1,
            conditions: MESSAGES.iter().map(|message| condition(message)).collect(),
            data: text(170),
            metadata: None,
            created_time: now,
            last_report_time: now,
        }
    }

    fn cluster() -> Resource {
        let stamp = Stamp { at: Timestamp::from_micros(0), by: "me".to_owned() };
        Resource {
            id: ResourceId::generate(),
            kind: "Cluster".into(),
            name: "a-cluster".to_owned(),
            tenancy: None,
            ancestors: Vec::new(),
            generation: 1,
            spec: text(100),
            labels: text(100),
            references: text(2),
            created: stamp.clone(),
            updated: stamp,
            phase: Phase::Active,
            conditions: text(2_100),
            version: Version(1),
            pending_since: None,
        }
    }

    #[test]
    fn ten_thousand_clusters_with_four_adapters_are_remembered_in_72_mib() {
        let reports = ["validator", "dns", "network", "provisioner"].map(report);
        let dossier = Dossier {
            resource: Arc::new(cluster()),
            is_whole: true,
            has_all_reports: true,
            standings: reports.iter().map(Report::standing).collect(),
            reports: reports.into_iter().collect(),
        };
        assert!(10_000 * dossier.size() <= 72 << 20, "{} bytes each", dossier.size());
    }
}
