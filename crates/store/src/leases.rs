//! Leases as the store keeps them. Each is a row of its own, changed only from the version at which it was read: of two
//! who want it at once, one gets it. The version counter and its lock are never touched, so however often leases are
//! renewed, no write of a resource waits and no watcher is told.

use hyperfleet_core::{Claim, Error, Lease, Sight, Tenant, Timestamp};

use crate::{Reader, Slice, Store};

/// How long a lease that nobody has is kept, in microseconds.
const KEPT_OVER: i64 = 24 * 3_600_000_000;

/// A slice of the leases of a group that somebody has, from one snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct LeasePage {
    /// How many there are, if that was asked for.
    pub total: Option<u64>,
    /// The slice, by name.
    pub items: Vec<Lease>,
    /// Whether the list goes on behind it.
    pub more: bool,
}

/// Whose groups somebody sees: those of their tenant, or else nobody's. A part of the system is of no tenant.
fn scope(sight: &Sight) -> &str {
    sight.tenant().map_or("", Tenant::as_str)
}

impl Store {
    /// A slice of the leases of a group that somebody has. The group is one of the caller's own scope.
    pub async fn leases(&self, sight: &Sight, group: &str, slice: &Slice) -> Result<LeasePage, Error> {
        let scope = scope(sight);
        self.door("leases", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.leases(scope, group, slice, self.timeout).await,
                Reader::Postgres(postgres) => postgres.leases(sight.tenant(), scope, group, slice).await,
            }
        })
        .await
    }

    /// Takes, renews or gives back a lease.
    pub async fn claim(&self, sight: &Sight, claim: &Claim) -> Result<Lease, Error> {
        let scope = scope(sight);
        self.door("claim", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.claim(scope, claim).await,
                Reader::Postgres(postgres) => postgres.claim(scope, claim).await,
            }
        })
        .await?
    }

    /// Removes leases that nobody has had for long, at most one small step of them. Returns how many went.
    pub async fn prune_leases(&self) -> Result<u64, Error> {
        let before = Timestamp::from_micros(Timestamp::now().micros() - KEPT_OVER);
        self.door("prune_leases", async {
            match &self.reader {
                Reader::Sqlite(sqlite) => sqlite.prune_leases(before).await,
                Reader::Postgres(postgres) => postgres.prune_leases(before).await,
            }
        })
        .await
    }
}
