//! Leases on SQLite. All by the primary key.

use hyperfleet_core::{Claim, Error, Lease, Timestamp, Version};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};

use super::feed;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::{LeasePage, Slice};

/// A slice of the held leases.
pub(super) fn list(
    connection: &Connection,
    now: Timestamp,
    scope: &str,
    group: &str,
    slice: &Slice,
) -> Result<LeasePage, Failure> {
    let snapshot = connection.unchecked_transaction()?;
    let now = now.micros();
    let total = match slice.count {
        true => {
            let count = "select count(*) from leases where tenancy = ?1 and group_name = ?2 and expires > ?3";
            let mut statement = snapshot.prepare_cached(count)?;
            Some(statement.query_row((scope, group, now), |row| row.get::<_, i64>(0))? as u64)
        }
        false => None,
    };
    let mut statement = snapshot.prepare_cached(
        "select name, holder, expires, version from leases
         where tenancy = ?1 and group_name = ?2 and expires > ?3 and name > ?4
         order by name limit ?5 offset ?6",
    )?;
    let (after, offset, limit) = slice.bounds();
    let found = statement.query_map((scope, group, now, after, limit, offset), lease)?;
    let mut items = found.collect::<Result<Vec<_>, _>>()?;
    let more = slice.cut(&mut items);
    Ok(LeasePage { total, items, more })
}

/// Decides a claim and stores the lease in one write transaction.
pub(super) fn claim(
    connection: &Connection,
    clock: &Clock,
    scope: &str,
    claim: &Claim,
) -> Result<Result<Lease, Error>, Failure> {
    let step = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let found = step
        .query_row(
            "select name, holder, expires, version from leases
             where tenancy = ?1 and group_name = ?2 and name = ?3",
            (scope, &claim.group, &claim.name),
            lease,
        )
        .optional()?;
    let epoch = feed::bounds(&step)?.newest.epoch;
    let lease = match claim.decide(found.as_ref(), epoch, clock.now()) {
        Ok(lease) => lease,
        Err(refusal) => return Ok(Err(refusal)),
    };
    step.execute(
        "insert or replace into leases (tenancy, group_name, name, holder, expires, version)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
        (scope, &claim.group, &lease.name, &lease.holder, lease.expires.micros(), lease.version.0),
    )?;
    step.commit()?;
    Ok(Ok(lease))
}

/// Removes up to a thousand leases that expired before then, by leases_by_expiry.
pub(super) fn prune(connection: &Connection, before: Timestamp) -> Result<u64, Failure> {
    let removed = connection.execute(
        "delete from leases where (tenancy, group_name, name) in (
             select tenancy, group_name, name from leases where expires <= ?1 order by expires limit 1000
         )",
        [before.micros()],
    )?;
    Ok(removed as u64)
}

fn lease(found: &Row<'_>) -> Result<Lease, rusqlite::Error> {
    Ok(Lease {
        name: found.get("name")?,
        holder: found.get("holder")?,
        expires: Timestamp::from_micros(found.get("expires")?),
        version: Version(found.get("version")?),
    })
}
