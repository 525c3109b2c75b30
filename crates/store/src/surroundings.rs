//! What there is around a resource, for whoever explains it: one read, in one snapshot, of no more than a part of what
//! may be very much.

use std::sync::LazyLock;

use hyperfleet_core::rules::explain::Surroundings;
use hyperfleet_core::{Error, ResourceId, Sight};

use crate::report_row::REPORT_COLUMNS;
use crate::{Reader, Store};

/// How many resources below one, and how many that refer to it, are looked at. A deletion may wait for very many, and
/// nobody reads about more than a few.
pub(crate) const MOST: usize = 1_000;

/// The columns of a report without what only its adapter understands.
pub(crate) static SAID_COLUMNS: LazyLock<String> =
    LazyLock::new(|| REPORT_COLUMNS.replace("data, metadata", "'{}', cast(null as text)"));

impl Store {
    /// What there is around the resource with this id, as far as it is in sight, all from one snapshot.
    pub async fn surroundings(&self, sight: &Sight, id: ResourceId) -> Result<Option<Surroundings>, Error> {
        let found = self
            .door("surroundings", async {
                match &self.reader {
                    Reader::Sqlite(sqlite) => sqlite.surroundings(id, self.timeout).await,
                    Reader::Postgres(postgres) => {
                        postgres.surroundings(sight.tenant(), id, &self.rulebook.catalog).await
                    }
                }
            })
            .await?;
        found.map_or(Ok(None), |surroundings| surroundings.confined(sight))
    }
}
