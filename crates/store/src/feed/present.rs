//! The present state as a stream: all objects of a result as they were at one version, oldest version first, without
//! holding a snapshot open. Their ids and versions are chosen in one snapshot; each is then read when it is wanted, and
//! what happened to it meanwhile is undone.

use std::sync::Arc;

use hyperfleet_core::{Error, Resource, ResourceId, Tenant, Version, printed_size};

use super::trail::state_before;
use crate::Store;

/// How many objects to read at once, and about how many bytes.
const MAX_CHUNK: usize = 100;
const CHUNK_BYTES: usize = 1 << 20;

/// See the module.
pub struct Present {
    store: Store,
    tenant: Option<Tenant>,
    version: Version,
    found: std::vec::IntoIter<(Version, ResourceId)>,
    chunk: usize,
}

impl Present {
    pub(crate) fn new(
        store: Store,
        tenant: Option<Tenant>,
        version: Version,
        mut found: Vec<(Version, ResourceId)>,
    ) -> Self {
        found.sort_unstable();
        Self { store, tenant, version, found: found.into_iter(), chunk: 8 }
    }

    /// The version at which this was the present.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The next few objects; none when all were told.
    pub async fn next(&mut self) -> Result<Vec<Arc<Resource>>, Error> {
        loop {
            let next: Vec<_> = self.found.as_slice().iter().take(self.chunk).copied().collect();
            let Some(last) = next.len().checked_sub(1) else { return Ok(Vec::new()) };
            let ids = next.iter().map(|(_, id)| *id).collect();
            let trails = self.store.states(self.tenant.as_ref(), ids, self.version).await?;
            // Only now: whoever gives up waiting and asks again must miss nothing.
            self.found.nth(last);
            let catalog = &self.store.rulebook.catalog;
            let states = next.iter().zip(trails).filter_map(|((version, _), rows)| {
                Some(Arc::new(Resource { version: *version, ..state_before(rows, catalog)? }))
            });
            let found: Vec<_> = states.collect();
            let bytes: usize = found.iter().map(|object| printed_size(object)).sum();
            self.chunk = (CHUNK_BYTES / (bytes / found.len().max(1) + 1)).clamp(1, MAX_CHUNK);
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
}
