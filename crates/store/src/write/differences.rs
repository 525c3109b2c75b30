//! The rows that a batch changes, the same for both databases.

use std::collections::BTreeMap;

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{
    References, Report, Resource, ResourceId, Timestamp, last_updated_times, printed_size,
};

use super::facets::FacetDifferences;
use super::{updated_after, updated_after_of};
use crate::failure::{Failure, FailureKind};

/// The rows to write, table by table.
#[derive(Default)]
pub(crate) struct Differences<'a> {
    /// New resources.
    pub(crate) inserted: Vec<&'a Resource>,
    /// Resources whose row in `resources` changed.
    pub(crate) updated: Vec<&'a Resource>,
    /// Resources whose row in `resource_status` changed.
    pub(crate) status_changed: Vec<&'a Resource>,
    /// Resources whose conditions were only confirmed.
    pub(crate) confirmed: Vec<ConfirmedResource<'a>>,
    /// What changed in the facets of resources.
    pub(crate) facets: FacetDifferences,
    /// First reports of an adapter.
    pub(crate) new_reports: Vec<(ResourceId, &'a Report)>,
    /// Reports that say something new.
    pub(crate) changed_reports: Vec<(ResourceId, &'a Report)>,
    /// Reports that only confirm the stored one at a later time.
    pub(crate) confirmed_reports: Vec<(ResourceId, &'a Report)>,
    /// Changed reports that are older than the stored one: a later time that is kept beside the conditions is removed. The stored
    /// one was about an older generation, or stored by a clock ahead of time.
    pub(crate) reports_with_earlier_time: Vec<(ResourceId, &'a Report)>,
    /// Resources that were removed.
    pub(crate) removed: Vec<ResourceId>,
    /// Resources whose references are removed before `new_references` are written.
    pub(crate) references_removed_from: Vec<ResourceId>,
    /// References to write.
    pub(crate) new_references: Vec<ReferenceRow>,
    /// By how much the counts of a kind changed.
    pub(crate) counts: BTreeMap<&'a str, KindCounts>,
}

/// A resource whose conditions were confirmed.
pub(crate) struct ConfirmedResource<'a> {
    pub(crate) id: ResourceId,
    before: &'a Resource,
    /// When each condition was confirmed, in order.
    pub(crate) times: Vec<Timestamp>,
    /// See [`updated_after`].
    pub(crate) updated_after: Option<Timestamp>,
}

impl ConfirmedResource<'_> {
    /// Whether `updated_after` changed.
    pub(crate) fn changes_updated_after(&self) -> Result<bool, Failure> {
        Ok(self.updated_after != updated_after_of(self.before)?)
    }
}

/// Numbers of resources of a kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KindCounts {
    pub(crate) active: i64,
    pub(crate) finalizing: i64,
    pub(crate) pending_active: i64,
    pub(crate) pending_finalizing: i64,
}

/// One reference.
pub(crate) struct ReferenceRow {
    pub(crate) source: ResourceId,
    pub(crate) ref_type: String,
    pub(crate) target: ResourceId,
}

impl<'a> Differences<'a> {
    pub(crate) fn of(set: &'a WorkingSet) -> Result<Self, Failure> {
        let mut all = Self::default();
        for (id, before, after) in set.differences() {
            if let (Some(before), Some(after)) = (before, after)
                && before.version == after.version
            {
                let times = last_updated_times(&after.conditions)?;
                let updated_after = updated_after(id, &times);
                all.confirmed.push(ConfirmedResource { id, before, times, updated_after });
                continue;
            }
            all.count(before, -1);
            all.count(after, 1);
            all.facets.add(before, after)?;
            match (before, after) {
                (None, Some(after)) => {
                    all.inserted.push(after);
                    all.add_references(after)?;
                }
                (Some(before), Some(after)) => {
                    if !before.same_desired_state(after) {
                        if set.lacks_spec(id) {
                            return Err(Failure::new(
                                FailureKind::Defect,
                                "a spec changed that was not loaded",
                            ));
                        }
                        all.updated.push(after);
                    }
                    if before.references != after.references {
                        all.references_removed_from.push(id);
                        all.add_references(after)?;
                    }
                    all.status_changed.push(after);
                }
                (Some(_), None) if set.lacks_spec(id) => {
                    return Err(Failure::new(
                        FailureKind::Defect,
                        "a resource was removed that was not loaded whole",
                    ));
                }
                (Some(before), None) => {
                    if before.references.as_str() != "{}" {
                        all.references_removed_from.push(id);
                    }
                    all.removed.push(id);
                }
                (None, None) => {}
            }
        }
        for (id, before, after) in set.report_differences() {
            match before {
                None => all.new_reports.push((id, after)),
                Some(before) if after.last_report_time < before.last_report_time => {
                    all.changed_reports.push((id, after));
                    all.reports_with_earlier_time.push((id, after));
                }
                Some(before) if only_time_changed(before, after) => all.confirmed_reports.push((id, after)),
                Some(_) => all.changed_reports.push((id, after)),
            }
        }
        all.counts.retain(|_, change| *change != KindCounts::default());
        all.facets.finish();
        Ok(all)
    }

    /// About how many bytes they are.
    pub(crate) fn size(&self) -> usize {
        let resources = self.inserted.iter().chain(&self.updated).map(|resource| printed_size(resource));
        let statuses = self.status_changed.iter().map(|resource| resource.conditions.as_str().len());
        let reports = self.new_reports.iter().chain(&self.changed_reports);
        let reports = reports.map(|(_, report)| report.printed_size());
        resources.chain(statuses).chain(reports).sum()
    }

    fn count(&mut self, resource: Option<&'a Resource>, by: i64) {
        if let Some(resource) = resource {
            let counts = self.counts.entry(&resource.kind).or_default();
            let pending = if resource.pending_since.is_some() { by } else { 0 };
            if resource.is_active() {
                counts.active += by;
                counts.pending_active += pending;
            } else {
                counts.finalizing += by;
                counts.pending_finalizing += pending;
            }
        }
    }

    fn add_references(&mut self, resource: &Resource) -> Result<(), Failure> {
        for (ref_type, targets) in resource.references.parse::<References>()? {
            self.new_references.extend(targets.into_iter().map(|target| ReferenceRow {
                source: resource.id,
                ref_type: ref_type.clone(),
                target,
            }));
        }
        Ok(())
    }
}

/// Whether only the time of a report moved. If a batch changes a status and changes it back, the report says the same as
/// before, but with another transition time.
fn only_time_changed(before: &Report, after: &Report) -> bool {
    after.has_same_content(before) && after.conditions == before.conditions
}
