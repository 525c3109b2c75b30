//! What a batch did to the tables, the same for both stores.

use std::collections::BTreeMap;

use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{References, Resource, ResourceId};

use crate::failure::Failure;

/// The rows to write, table by table.
#[derive(Default)]
pub(crate) struct Differences<'a> {
    /// New resources.
    pub(crate) inserted: Vec<&'a Resource>,
    /// Resources whose wide row changed.
    pub(crate) updated: Vec<&'a Resource>,
    /// Resources whose narrow row changed.
    pub(crate) restated: Vec<&'a Resource>,
    /// Resources that are gone.
    pub(crate) removed: Vec<ResourceId>,
    /// Resources whose references are to be forgotten before `links` are written.
    pub(crate) unlinked: Vec<ResourceId>,
    /// References to write.
    pub(crate) links: Vec<Link>,
    /// By how much the number of resources of a kind changed: active and finalizing.
    pub(crate) counts: BTreeMap<&'a str, (i64, i64)>,
}

/// One reference.
pub(crate) struct Link {
    pub(crate) source: ResourceId,
    pub(crate) ref_type: String,
    pub(crate) target: ResourceId,
}

impl<'a> Differences<'a> {
    pub(crate) fn of(set: &'a WorkingSet) -> Result<Self, Failure> {
        let mut all = Self::default();
        for (id, before, after) in set.differences() {
            all.count(before, -1);
            all.count(after, 1);
            match (before, after) {
                (None, Some(after)) => {
                    all.inserted.push(after);
                    all.link(after)?;
                }
                (Some(before), Some(after)) => {
                    if !before.same_wish(after) {
                        all.updated.push(after);
                    }
                    if before.references != after.references {
                        all.unlinked.push(id);
                        all.link(after)?;
                    }
                    all.restated.push(after);
                }
                (Some(before), None) => {
                    if before.references.as_str() != "{}" {
                        all.unlinked.push(id);
                    }
                    all.removed.push(id);
                }
                (None, None) => {}
            }
        }
        all.counts.retain(|_, change| *change != (0, 0));
        Ok(all)
    }

    fn count(&mut self, resource: Option<&'a Resource>, by: i64) {
        if let Some(resource) = resource {
            let (active, finalizing) = self.counts.entry(&resource.kind).or_default();
            *(if resource.is_active() { active } else { finalizing }) += by;
        }
    }

    fn link(&mut self, resource: &Resource) -> Result<(), Failure> {
        for (ref_type, targets) in resource.references.parse::<References>()? {
            self.links.extend(targets.into_iter().map(|target| Link {
                source: resource.id,
                ref_type: ref_type.clone(),
                target,
            }));
        }
        Ok(())
    }
}
