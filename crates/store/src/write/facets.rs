//! Facets: the labels of a resource, the statuses of its conditions and its tenant, each as a fingerprint of fixed
//! length. So the table is small, and one index serves every label and every condition. The fingerprint is
//! cryptographic, so that no caller can make two texts that share one.

use std::collections::{BTreeMap, BTreeSet};

use hyperfleet_core::{Labels, Phase, RawJson, Resource, ResourceId, Tenant, Timestamp, statuses};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::failure::Failure;

/// The fingerprint of one value of one label or condition of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Facet([u8; 16]);

impl Facet {
    pub(crate) fn label(kind: &str, key: &str, value: &str) -> Self {
        Self::of(kind, "label", key, value)
    }

    pub(crate) fn condition(kind: &str, condition: &str, status: &str) -> Self {
        Self::of(kind, "condition", condition, status)
    }

    pub(crate) fn tenant(kind: &str, tenant: &Tenant) -> Self {
        Self::of(kind, "tenancy", "", tenant.as_str())
    }

    /// No stored text holds U+0000, so the parts cannot be confused.
    pub(crate) fn of(kind: &str, family: &str, name: &str, value: &str) -> Self {
        let digest = Sha256::digest([kind, family, name, value].join("\0"));
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0
    }

    pub(crate) fn uuid(self) -> Uuid {
        Uuid::from_bytes(self.0)
    }

    /// Every facet of a resource.
    pub(crate) fn all(
        kind: &str,
        labels: &RawJson,
        conditions: &RawJson,
        tenant: Option<&Tenant>,
    ) -> Result<BTreeSet<Self>, Failure> {
        let labels = labels.parse::<Labels>()?;
        let labels = labels.iter().map(|(key, value)| Self::label(kind, key, value));
        let conditions =
            statuses(conditions).map(|(condition, status)| Self::condition(kind, &condition, status.name()));
        let tenant = tenant.map(|tenant| Self::tenant(kind, tenant));
        Ok(labels.chain(conditions).chain(tenant).collect())
    }
}

/// A facet of a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FacetRow {
    pub(crate) facet: Facet,
    pub(crate) created_time: Timestamp,
    pub(crate) resource: ResourceId,
}

/// The facets that a batch changes.
#[derive(Debug, Default)]
pub(crate) struct FacetDifferences {
    pub(crate) old: Vec<FacetRow>,
    pub(crate) new: Vec<FacetRow>,
    /// By how much the counts of active and of finalizing resources changed.
    pub(crate) counts: BTreeMap<Facet, (i64, i64)>,
}

impl FacetDifferences {
    /// Adds the change of one resource.
    pub(crate) fn add(&mut self, before: Option<&Resource>, after: Option<&Resource>) -> Result<(), Failure> {
        if let (Some(before), Some(after)) = (before, after)
            && before.is_active() == after.is_active()
            && before.labels == after.labels
            && statuses(&before.conditions).eq(statuses(&after.conditions))
        {
            return Ok(());
        }
        let facets = |resource: Option<&Resource>| {
            resource.map(|r| Facet::all(&r.kind, &r.labels, &r.conditions, r.tenancy.as_ref())).transpose()
        };
        let (had, has) = (facets(before)?.unwrap_or_default(), facets(after)?.unwrap_or_default());
        let row = |facet: &Facet, of: Option<&Resource>| {
            of.map(|r| FacetRow { facet: *facet, created_time: r.created.at, resource: r.id })
        };
        self.old.extend(had.difference(&has).filter_map(|facet| row(facet, before)));
        self.new.extend(has.difference(&had).filter_map(|facet| row(facet, after)));
        self.count(&had, before, -1);
        self.count(&has, after, 1);
        Ok(())
    }

    /// Drops counts that did not change.
    pub(crate) fn finish(&mut self) {
        self.counts.retain(|_, by| *by != (0, 0));
    }

    fn count(&mut self, facets: &BTreeSet<Facet>, resource: Option<&Resource>, by: i64) {
        for facet in facets {
            let counts = self.counts.entry(*facet).or_default();
            match resource.map(|resource| &resource.phase) {
                Some(Phase::Active) => counts.0 += by,
                Some(Phase::Finalizing(_)) => counts.1 += by,
                None => {}
            }
        }
    }
}
