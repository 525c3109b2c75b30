//! The present state as a stream: all objects of a result as they were at one version, oldest version first, without
//! holding a snapshot open. Their ids and versions are chosen in one snapshot; each is then read when it is wanted, and
//! what happened to it meanwhile is undone.

use std::sync::Arc;

use hyperfleet_core::{Error, Resource, ResourceId, Tenant, Version};

use super::trail::state_before;
use crate::Store;

/// How many objects to read at once.
const CHUNK: usize = 100;

/// See the module.
pub struct Present {
    store: Store,
    tenant: Option<Tenant>,
    version: Version,
    ids: std::vec::IntoIter<ResourceId>,
}

impl Present {
    pub(crate) fn new(
        store: Store,
        tenant: Option<Tenant>,
        version: Version,
        mut found: Vec<(Version, ResourceId)>,
    ) -> Self {
        found.sort_unstable();
        let ids: Vec<ResourceId> = found.into_iter().map(|(_, id)| id).collect();
        Self { store, tenant, version, ids: ids.into_iter() }
    }

    /// The version at which this was the present.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next few objects; none when all were told.
    pub async fn next(&mut self) -> Result<Vec<Arc<Resource>>, Error> {
        let ids: Vec<ResourceId> = self.ids.as_slice().iter().take(CHUNK).copied().collect();
        let Some(last) = ids.len().checked_sub(1) else { return Ok(Vec::new()) };
        let trails = self.store.states(self.tenant.as_ref(), ids, self.version).await?;
        // Only now: whoever gives up waiting and asks again must miss nothing.
        self.ids.nth(last);
        let catalog = &self.store.rulebook.catalog;
        Ok(trails.into_iter().filter_map(|rows| state_before(rows, catalog)).collect())
    }
}
