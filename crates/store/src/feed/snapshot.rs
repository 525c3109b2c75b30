//! A snapshot of a result as a stream: its objects as they were at one version, oldest version first. One transaction
//! reads the ids and versions; each object is read when it is wanted, and its later changes are undone, so that no
//! transaction stays open.

use std::sync::Arc;

use hyperfleet_core::{Error, FeedPosition, Resource, ResourceId, Tenant, Version, printed_size};

use super::page::state_before;
use crate::Store;

/// The most objects of one read, and roughly the most bytes.
const MAX_CHUNK: usize = 100;
const CHUNK_BYTES: usize = 1 << 20;

/// The stream of a snapshot.
pub struct FeedSnapshot {
    store: Store,
    tenant: Option<Tenant>,
    position: FeedPosition,
    found: std::vec::IntoIter<(Version, ResourceId)>,
    chunk: usize,
}

impl FeedSnapshot {
    pub(crate) fn new(
        store: Store,
        tenant: Option<Tenant>,
        position: FeedPosition,
        mut found: Vec<(Version, ResourceId)>,
    ) -> Self {
        found.sort_unstable();
        Self { store, tenant, position, found: found.into_iter(), chunk: 8 }
    }

    /// The position of the snapshot.
    pub fn position(&self) -> FeedPosition {
        self.position
    }

    /// The next few objects; none at the end.
    pub async fn next(&mut self) -> Result<Vec<Arc<Resource>>, Error> {
        loop {
            let next: Vec<_> = self.found.as_slice().iter().take(self.chunk).copied().collect();
            let Some(last) = next.len().checked_sub(1) else { return Ok(Vec::new()) };
            let ids = next.iter().map(|(_, id)| *id).collect();
            let rows = self.store.states(self.tenant.as_ref(), ids, self.position.version).await?;
            // Only after the read, so that a cancelled call loses no object.
            self.found.nth(last);
            let catalog = &self.store.rulebook.catalog;
            let states = next.iter().zip(rows).filter_map(|((version, _), rows)| {
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
