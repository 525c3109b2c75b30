//! The table of dictionaries, and rows to learn another from.

use hyperfleet_core::Timestamp;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::failure::{Failure, FailureKind};
use crate::packed::{PackedRow, SAMPLE};

/// All that are kept, by number.
pub(super) async fn read(client: &Client) -> Result<Vec<(u8, Vec<u8>)>, Failure> {
    let rows = client.query("select number, words from dictionaries", &[]).await?;
    let number = |number: i16| {
        u8::try_from(number).map_err(|_| Failure::new(FailureKind::Defect, "a dictionary without a number"))
    };
    rows.iter().map(|row| Ok((number(row.try_get(0)?)?, row.try_get(1)?))).collect()
}

/// Keeps one, unless another has its number.
pub(super) async fn keep(client: &Client, number: u8, words: &[u8], at: Timestamp) -> Result<(), Failure> {
    client
        .execute(
            "insert into dictionaries (number, words, made_time) values ($1, $2, $3) on conflict do nothing",
            &[&i16::from(number), &words, &at.utc()],
        )
        .await?;
    Ok(())
}

/// Changes by their versions, and reports on the same resources. By changes_pkey and reports_pkey.
pub(super) async fn sample(client: &Client, versions: &[i64]) -> Result<Vec<PackedRow>, Failure> {
    let changes = client
        .query(
            "select resource_id, packed from changes
             where version = any($1) and octet_length(packed) <= 4096 order by version desc",
            &[&versions],
        )
        .await?;
    let mut resources: Vec<Uuid> = changes.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    resources.sort_unstable();
    resources.dedup();
    let reports = client
        .query(
            "select resource_id, packed from reports
             where resource_id = any($1) and octet_length(packed) <= 4096 limit $2",
            &[&resources, &(SAMPLE as i64)],
        )
        .await?;
    let row = |row: &tokio_postgres::Row| {
        Ok(PackedRow { resource: row.try_get::<_, Uuid>(0)?.into(), packed: row.try_get(1)? })
    };
    changes.iter().chain(&reports).map(row).collect()
}
