//! The table of dictionaries, and rows to learn another from.

use hyperfleet_core::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::row;
use crate::failure::{Failure, FailureKind};
use crate::packed::{Dictionaries, PackedRow, SAMPLE};

/// All that are kept, by number.
pub(super) fn read(connection: &Connection) -> Result<Vec<(u8, Vec<u8>)>, Failure> {
    let mut statement = connection.prepare_cached("select number, words from dictionaries")?;
    let kept = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(kept.collect::<Result<_, _>>()?)
}

/// Unpacks, and once more if that meets a dictionary that another process has made since. Whoever sees the value sees
/// the dictionary too: it was committed before.
pub(super) fn reread<T>(
    connection: &Connection,
    dictionaries: &Dictionaries,
    unpack: impl Fn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    match unpack() {
        Err(failure) if failure.kind == FailureKind::UnknownDictionary => {
            dictionaries.add(read(connection)?)?;
            unpack()
        }
        unpacked => unpacked,
    }
}

/// Keeps one, unless another has its number.
pub(super) fn keep(connection: &Connection, number: u8, words: &[u8], at: Timestamp) -> Result<(), Failure> {
    connection.execute(
        "insert into dictionaries (number, words, made_time) values (?1, ?2, ?3) on conflict do nothing",
        (number, words, at.micros()),
    )?;
    Ok(())
}

/// Changes by their versions, and reports on the same resources. By the primary keys.
pub(super) fn sample(connection: &Connection, versions: &[i64]) -> Result<Vec<PackedRow>, Failure> {
    let mut change = connection.prepare_cached(
        "select resource_id, packed from changes where version = ?1 and length(packed) <= 4096",
    )?;
    let mut report = connection.prepare_cached(
        "select resource_id, packed from reports where resource_id = ?1 and length(packed) <= 4096 limit ?2",
    )?;
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for version in versions {
        found.extend(change.query_row([version], |row| Ok((row.get(0)?, row.get(1)?))).optional()?);
    }
    let mut resources: Vec<String> = found.iter().map(|(resource, _)| resource.clone()).collect();
    resources.sort_unstable();
    resources.dedup();
    let most = found.len() + SAMPLE;
    for resource in resources {
        let room = most - found.len();
        let reports = report.query_map((&resource, room as i64), |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.extend(reports.collect::<Result<Vec<_>, _>>()?);
    }
    found.into_iter().map(|(id, packed)| Ok(PackedRow { resource: row::id(&id)?, packed })).collect()
}
