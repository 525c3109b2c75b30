//! The statements that write a batch. Most writes leave together as one statement, because a statement costs PostgreSQL
//! tens of microseconds beside its rows. Each write takes its rows as columns, one array for each column.
//!
//! Two writes of one statement must not touch the same row, because each sees the tables as they were before it. So
//! deletions and what frees a name come in statements before, and what changes rows written together in statements
//! after.

use tokio_postgres::{Client, Statement};

use TableWrite::*;

use super::listen::CHANNEL;
use super::statements::prepare;
use crate::codec::columns::{self, names, typed};
use crate::failure::{Failure, FailureKind};

/// A table, and a way of writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableWrite {
    NewResources,
    NewStatuses,
    Resources,
    Statuses,
    ConfirmedStatuses,
    OldFacets,
    NewFacets,
    FacetCounts,
    KindCounts,
    NewReports,
    Reports,
    ReportRowTimes,
    References,
    Changes,
    IdempotencyRecords,
}

pub(super) const ALL_WRITES: [TableWrite; 15] = [
    NewResources,
    NewStatuses,
    Resources,
    Statuses,
    ConfirmedStatuses,
    OldFacets,
    NewFacets,
    FacetCounts,
    KindCounts,
    NewReports,
    Reports,
    ReportRowTimes,
    References,
    Changes,
    IdempotencyRecords,
];

/// The writes of the prepared statements, the smaller first; each statement has them in the order of [`ALL_WRITES`]. A batch
/// takes the first statement that has all of its writes, and leaves the others empty.
const COMBINATIONS: [&[TableWrite]; 8] = [
    // Reports that only move times, and reports that change something.
    &[ConfirmedStatuses],
    &[Statuses, Reports, Changes],
    // Patches.
    &[Resources, Statuses, Changes],
    // Reports of both sorts.
    &[ConfirmedStatuses, Statuses, Reports, Changes],
    // Creations.
    &[NewResources, NewStatuses, NewFacets, FacetCounts, KindCounts, Changes],
    // Patches of reconciled resources.
    &[Resources, Statuses, Changes, OldFacets, NewFacets, FacetCounts, KindCounts],
    // Reports of every sort: first reports, and reports that change a status.
    &[
        ConfirmedStatuses,
        Statuses,
        NewReports,
        Reports,
        Changes,
        OldFacets,
        NewFacets,
        FacetCounts,
        KindCounts,
    ],
    &ALL_WRITES,
];

impl TableWrite {
    /// The statement. Its parameters are arrays, one for each column.
    pub(super) fn text(self) -> String {
        match self {
            NewResources => insert("resources", columns::RESOURCE),
            NewStatuses => insert("resource_status", &format!("{}, tenancy text", columns::STATUS)),
            Resources => update("resources", columns::RESOURCE_CHANGE, 1, ""),
            Statuses => update("resource_status", columns::STATUS, 1, ", last_updated_times = '{}'"),
            // An array of arrays cannot be unnested by rows, so the times of a row are cut out of one array of all times.
            ConfirmedStatuses => format!(
                "update resource_status s
                 set updated_after = n.updated_after,
                     last_updated_times = ($6::bigint[])[n.last - n.count + 1 : n.last],
                     report_times =
                         coalesce(s.report_times || n.report_times::jsonb, n.report_times::jsonb, s.report_times)
                 from ({}) n where s.resource_id = n.id",
                rows("id uuid, updated_after timestamptz, report_times text, last integer, count integer")
            ),
            OldFacets => format!(
                "delete from resource_facets f using ({}) n
                 where f.facet = n.facet and f.created_time = n.created_time and f.resource_id = n.resource_id",
                rows(columns::FACET)
            ),
            NewFacets => insert("resource_facets", columns::FACET),
            FacetCounts => insert_or_add("facet_counts", columns::FACET_COUNT),
            KindCounts => insert_or_add("kind_counts", columns::KIND_COUNT),
            NewReports => insert("reports", &columns::REPORT),
            Reports => update("reports", columns::REPORT_CHANGE, 2, ""),
            ReportRowTimes => {
                update("reports", "resource_id uuid, adapter text, last_report_time timestamptz", 2, "")
            }
            References => insert("resource_references", columns::REFERENCE),
            Changes => insert("changes", columns::CHANGE),
            // A record that is there has expired.
            IdempotencyRecords => format!(
                "{} on conflict (key) do update
                 set request = excluded.request, created_time = excluded.created_time, response = excluded.response",
                insert("idempotency_records", columns::IDEMPOTENCY_RECORD)
            ),
        }
    }
}

/// The other writes.
pub(super) mod single {
    use super::super::statements::statements;
    use super::{TableWrite, rows};

    fn delete(table: &str, column: &str) -> String {
        format!("delete from {table} where {column} = any($1)")
    }

    statements! {
        delete_references: delete("resource_references", "source_id"),
        delete_resources: delete("resources", "id"),
        delete_status: delete("resource_status", "resource_id"),
        delete_reports: delete("reports", "resource_id"),
        update_resources: TableWrite::Resources.text(),
        remove_report_times: format!(
            "update resource_status s
             set report_times = s.report_times - array(select jsonb_array_elements_text(n.adapters::jsonb))
             from ({}) n where s.resource_id = n.id and s.report_times is not null",
            rows("id uuid, adapters text")
        ),
        delete_facet_counts: delete("facet_counts", "facet") + " and active = 0 and finalizing = 0",
    }
}

/// Every statement that writes, prepared on one connection.
pub(super) struct Statements {
    combined: Vec<CombinedStatement>,
    pub(super) single: single::Statements,
}

/// Writes in one statement. Its first parameters are the new version of the feed, whether to notify other replicas, and the
/// time of the newest change.
pub(super) struct CombinedStatement {
    pub(super) writes: &'static [TableWrite],
    pub(super) statement: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
        let combined = COMBINATIONS.into_iter().zip(prepare(client, COMBINATIONS.map(combined)).await?);
        let combined = combined.map(|(writes, statement)| CombinedStatement { writes, statement }).collect();
        Ok(Self { combined, single: single::Statements::prepare(client).await? })
    }

    /// The smallest statement that has all of these writes.
    pub(super) fn combined(&self, needed: &[TableWrite]) -> Result<&CombinedStatement, Failure> {
        let fits = |set: &&CombinedStatement| needed.iter().all(|write| set.writes.contains(write));
        let none = || Failure::new(FailureKind::Defect, "no statement has all writes of a batch");
        self.combined.iter().find(fits).ok_or_else(none)
    }
}

/// One statement that advances the feed, writes, and notifies.
fn combined(writes: &[TableWrite]) -> String {
    let mut text = "with advanced as (
             update feed set version = $1::bigint, changed_time = $3::timestamptz where version < $1::bigint
         )"
    .to_owned();
    let mut taken = 3;
    for (number, write) in ALL_WRITES.iter().filter(|write| writes.contains(write)).enumerate() {
        let (shifted, count) = shift_parameters(&write.text(), taken);
        text.push_str(&format!(", write{number} as ({shifted})"));
        taken += count;
    }
    text + &format!(" select case when $2::boolean then pg_notify('{CHANNEL}', $1::bigint::text) end")
}

/// A statement whose parameters are shifted by `by`, and their number.
fn shift_parameters(text: &str, by: usize) -> (String, usize) {
    let mut pieces = text.split('$');
    let mut shifted = pieces.next().unwrap_or_default().to_owned();
    let mut most = 0;
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = piece[..digits].parse().unwrap_or_default();
        most = most.max(number);
        shifted.push_str(&format!("${}{}", number + by, &piece[digits..]));
    }
    (shifted, most)
}

/// The rows of a batch, whose columns are parameters in this order. The arrays are walked side by side in the select
/// list: in a `from` clause PostgreSQL would first copy them into a table.
fn rows(columns: &str) -> String {
    let columns = typed(columns).enumerate();
    let columns = columns.map(|(i, (name, of))| format!("unnest(${}::{of}[]) as {name}", i + 1));
    format!("select {}", columns.collect::<Vec<_>>().join(", "))
}

fn insert(table: &str, columns: &str) -> String {
    format!("insert into {table} ({}) {}", names(columns), rows(columns))
}

/// Inserts counts, or adds them to the counts that are there. The first column is the key.
fn insert_or_add(table: &str, columns: &str) -> String {
    let (key, _) = typed(columns).next().unwrap_or_default();
    let sums = typed(columns).skip(1).map(|(name, _)| format!("{name} = {table}.{name} + excluded.{name}"));
    let sums = sums.collect::<Vec<_>>().join(", ");
    format!("{} on conflict ({key}) do update set {sums}", insert(table, columns))
}

/// Updates rows by a key of the first columns; `also` is set too.
fn update(table: &str, columns: &str, key_columns: usize, also: &str) -> String {
    let set = typed(columns).skip(key_columns).map(|(name, _)| format!("{name} = n.{name}"));
    let key = typed(columns).take(key_columns).map(|(name, _)| format!("t.{name} = n.{name}"));
    let (set, key) = (set.collect::<Vec<_>>().join(", "), key.collect::<Vec<_>>().join(" and "));
    format!("update {table} t set {set}{also} from ({}) n where {key}", rows(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_statements_come_first_and_the_last_has_every_write() {
        let [.., all] = COMBINATIONS;
        assert!(COMBINATIONS.iter().all(|set| set.iter().all(|write| all.contains(write))));
        assert!(COMBINATIONS.is_sorted_by_key(|set| set.len()));
    }

    #[test]
    fn parameters_are_shifted() {
        assert_eq!(shift_parameters("a $1 b $12::uuid[], $2", 3), ("a $4 b $15::uuid[], $5".to_owned(), 12));
        assert_eq!(shift_parameters("nothing", 3), ("nothing".to_owned(), 0));
    }
}
