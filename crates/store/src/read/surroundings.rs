//! The surroundings of a resource, for its explanation: one bounded read in one snapshot.

use hyperfleet_core::rules::explain::Surroundings;
use hyperfleet_core::{AccessScope, Error, ResourceId};

use crate::Store;
use crate::read::on_store;

/// The most descendants and referrers that are read. A deletion may wait for very many, and an explanation names a few.
pub(crate) const MOST: usize = 1_000;

impl Store {
    /// The surroundings of the resource with this id, as far as they are in the access scope.
    pub async fn surroundings(
        &self,
        scope: &AccessScope,
        id: ResourceId,
    ) -> Result<Option<Surroundings>, Error> {
        let found = self
            .call("surroundings", async {
                on_store!(&self.reader, |store| store.surroundings(scope.tenant(), id))
            })
            .await?;
        found.map_or(Ok(None), |surroundings| surroundings.confined(scope))
    }
}
