//! Leases. Each is a row with its own version, so of two simultaneous claims one succeeds. They do not touch the feed, so
//! renewals delay no write of a resource and notify no watcher.

use std::time::Duration;

use hyperfleet_core::{AccessScope, Claim, Error, Lease, Tenant};

use crate::read::on_store;
use crate::{Slice, Store};

/// How long an expired lease stays.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// A slice of the held leases of a group, from one snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct LeasePage {
    /// How many there are, if it was requested.
    pub total: Option<u64>,
    /// The slice, by name.
    pub items: Vec<Lease>,
    /// Whether there are more after the slice.
    pub more: bool,
}

/// The owner of the groups that a caller sees: its tenant, or none for the system.
fn lease_owner(scope: &AccessScope) -> &str {
    scope.tenant().map_or("", Tenant::as_str)
}

impl Store {
    /// A slice of the held leases of a group, which belongs to the scope of the caller.
    pub async fn leases(&self, scope: &AccessScope, group: &str, slice: &Slice) -> Result<LeasePage, Error> {
        let owner = lease_owner(scope);
        self.call("leases", async {
            on_store!(&self.reader, |store| store.leases(scope.tenant(), owner, group, slice))
        })
        .await
    }

    /// Acquires, renews or releases a lease.
    pub async fn claim(&self, scope: &AccessScope, claim: &Claim) -> Result<Lease, Error> {
        let owner = lease_owner(scope);
        self.call("claim", async { on_store!(&self.reader, |store| store.claim(owner, claim)) }).await?
    }

    /// Removes a small number of leases that expired long ago. Returns how many.
    pub async fn prune_leases(&self) -> Result<u64, Error> {
        self.call("prune_leases", async { on_store!(&self.reader, |store| store.prune_leases(RETENTION)) })
            .await
    }
}
