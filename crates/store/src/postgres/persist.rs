//! The second round trip of a batch: write the differences and commit.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use futures_util::try_join;
use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, Phase, Report, Resource, ResourceId, Stamp, Tenant, Timestamp, json_text};
use tokio_postgres::types::ToSql;

use super::session::{Session, idle_timeout_while_sending, set_idle_timeout};
use super::write_statements::{ALL_WRITES, TableWrite};
use crate::codec::{conditions, print_ancestors, report};
use crate::failure::Failure;
use crate::history;
use crate::write::{Differences, ReportTimes, updated_after_of};

/// A batch of more bytes may take longer to encode and to arrive than a replica may be idle.
const LARGE: usize = 4 << 20;

/// The values of a column, as an array that is bound to a statement.
type Column<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The rows of a statement.
struct Rows<'a> {
    count: usize,
    columns: Vec<Column<'a>>,
}

/// The rows of a statement: one array of values for each column, in the order of its parameters.
macro_rules! rows {
    ($rows:expr, $row:ident => $($value:expr),+ $(,)?) => {{
        let rows = $rows;
        let columns = vec![$({
            let mut column = Vec::with_capacity(rows.len());
            for $row in rows {
                column.push($value);
            }
            Box::new(column) as Column<'_>
        }),+];
        Rows { count: rows.len(), columns }
    }};
}

/// Writes the differences and commits. Everything is sent before the first answer is awaited; if a statement fails,
/// PostgreSQL turns the commit at the end into a rollback.
pub(super) async fn persist(
    session: &Session,
    catalog: &Catalog,
    set: &WorkingSet,
    notifies: bool,
) -> Result<(), Failure> {
    let (statements, single) = (&session.writes, &session.writes.single);
    let differences = &Differences::of(set)?;
    let Differences { inserted, updated, removed, references_removed_from, facets, .. } = differences;

    let client = &session.client;
    let size = differences.size();
    if size > LARGE {
        client.batch_execute(&set_idle_timeout(idle_timeout_while_sending(size))).await?;
    }

    // What frees a name comes before what takes one, so that one batch can delete a name and use it again.
    let frees_names = !inserted.is_empty() && updated.iter().any(|resource| !resource.is_active());
    let (freed, updated) = if frees_names { (&updated[..], &[][..]) } else { (&[][..], &updated[..]) };
    let adapters = adapters_to_remove(&differences.reports_with_earlier_time);
    let before = [
        (&single.delete_references, rows!(references_removed_from, id => id.uuid())),
        (&single.delete_resources, rows!(removed, id => id.uuid())),
        (&single.delete_status, rows!(removed, id => id.uuid())),
        (&single.delete_reports, rows!(removed, id => id.uuid())),
        (&single.update_resources, changed_resources(freed)),
    ];
    let after = [
        (&single.remove_report_times, rows!(&adapters, row => row.0.uuid(), row.1.as_str())),
        (&single.delete_facet_counts, rows!(&facets.old, row => row.facet.uuid())),
    ];
    let report_times = &ReportTimes::from_batch(catalog, set, differences);
    let batch = BatchRows { set, differences, report_times, updated };
    let mut writes = Vec::with_capacity(ALL_WRITES.len());
    for write in ALL_WRITES {
        writes.push((write, batch.rows(write)?));
    }
    let needed: Vec<TableWrite> =
        writes.iter().filter(|(_, rows)| rows.count > 0).map(|(write, _)| *write).collect();
    let combined = statements.combined(&needed)?;
    let mut columns: Vec<Column<'_>> =
        vec![Box::new(set.version().0), Box::new(notifies), Box::new(set.changed_time().map(Timestamp::utc))];
    let writes = writes.into_iter().filter(|(write, _)| combined.writes.contains(write));
    columns.extend(writes.flat_map(|(_, rows)| rows.columns));
    let combined = (&combined.statement, Rows { count: 1, columns });

    let all = before.into_iter().chain([combined]).chain(after).filter(|(_, rows)| rows.count > 0);
    let writes: Vec<_> = all.map(|(statement, rows)| client.execute_raw(statement, rows.columns)).collect();
    try_join!(try_join_all(writes), client.batch_execute("commit"))?;
    Ok(())
}

/// What a batch writes in one statement.
struct BatchRows<'a> {
    set: &'a WorkingSet,
    differences: &'a Differences<'a>,
    report_times: &'a ReportTimes<'a>,
    /// Resources to update.
    updated: &'a [&'a Resource],
}

impl<'a> BatchRows<'a> {
    /// The rows of a write, with columns in the order of [its parameters](TableWrite::text).
    fn rows(&self, write: TableWrite) -> Result<Rows<'a>, Failure> {
        let differences = self.differences;
        Ok(match write {
            TableWrite::NewResources => rows!(
                &differences.inserted,
                r => r.id.uuid(),
                &*r.kind,
                r.name.as_str(),
                r.owner().map(ResourceId::uuid),
                print_ancestors(r),
                r.generation,
                r.spec.as_str(),
                r.labels.as_str(),
                r.references.as_str(),
                r.created.at.utc(),
                r.created.by.as_str(),
                r.updated.at.utc(),
                r.updated.by.as_str(),
                deleted(r).map(|stamp| stamp.at.utc()),
                deleted(r).map(|stamp| stamp.by.as_str()),
                tenant(r.tenancy.as_ref()),
            ),
            TableWrite::NewStatuses => rows!(
                &differences.inserted,
                r => r.id.uuid(),
                r.version.0,
                conditions::encode(r.conditions.as_str()),
                r.pending_since.map(Timestamp::utc),
                updated_after_of(r)?.map(Timestamp::utc),
                tenant(r.tenancy.as_ref()),
            ),
            TableWrite::Resources => changed_resources(self.updated),
            TableWrite::Statuses => rows!(
                &differences.status_changed,
                r => r.id.uuid(),
                r.version.0,
                conditions::encode(r.conditions.as_str()),
                r.pending_since.map(Timestamp::utc),
                updated_after_of(r)?.map(Timestamp::utc),
            ),
            TableWrite::ConfirmedStatuses => self.times(),
            TableWrite::OldFacets => rows!(
                &differences.facets.old,
                row => row.facet.uuid(), row.created_time.utc(), row.resource.uuid(),
            ),
            TableWrite::NewFacets => rows!(
                &differences.facets.new,
                row => row.facet.uuid(), row.created_time.utc(), row.resource.uuid(),
            ),
            TableWrite::FacetCounts => rows!(
                &differences.facets.counts,
                row => row.0.uuid(), row.1.0, row.1.1,
            ),
            TableWrite::KindCounts => rows!(
                &differences.counts,
                row => *row.0, row.1.active, row.1.finalizing, row.1.pending_active, row.1.pending_finalizing,
            ),
            TableWrite::NewReports => {
                let reports = &differences.new_reports;
                let mut rows = changed_reports(reports)?;
                rows.columns.extend(rows!(reports, row => row.1.created_time.utc()).columns);
                rows
            }
            TableWrite::Reports => changed_reports(&differences.changed_reports)?,
            TableWrite::ReportRowTimes => rows!(
                &self.report_times.for_report_rows,
                row => row.0.uuid(), &*row.1.adapter, row.1.last_report_time.utc(),
            ),
            TableWrite::References => rows!(
                &differences.new_references,
                link => link.source.uuid(), link.ref_type.as_str(), link.target.uuid(),
            ),
            TableWrite::Changes => rows!(
                self.set.changes(),
                c => c.version.0,
                c.resource.uuid(),
                &*c.kind,
                c.at.utc(),
                c.actor.as_str(),
                c.request_id.as_str(),
                history::body(c)?,
                c.entries.len() as i32,
                tenant(c.tenancy.as_ref()),
                c.touched(),
            ),
            TableWrite::IdempotencyRecords => {
                let records: Vec<_> = self.set.new_idempotency_records().collect();
                rows!(
                    &records,
                    row => row.0.as_slice(),
                    row.1.body.as_slice(),
                    row.1.at.utc(),
                    json_text(&row.1.response),
                )
            }
        })
    }

    /// The times of all rows are one array, one row after the other, with the number of the last time of each row.
    fn times(&self) -> Rows<'a> {
        let confirmed = &self.differences.confirmed;
        let times: Vec<i64> = confirmed.iter().flat_map(|r| &r.times).map(|time| time.micros()).collect();
        let last = confirmed.iter().scan(0, |end, r| {
            *end += r.times.len() as i32;
            Some(*end)
        });
        let last: Vec<i32> = last.collect();
        let mut rows = rows!(
            confirmed,
            r => r.id.uuid(), r.updated_after.map(Timestamp::utc), self.report_times.of(r.id),
        );
        let count: Vec<i32> = confirmed.iter().map(|r| r.times.len() as i32).collect();
        rows.columns.extend([Box::new(last) as Column<'_>, Box::new(count), Box::new(times)]);
        rows
    }
}

/// The rows of [`TableWrite::Reports`].
fn changed_reports<'a>(reports: &'a [(ResourceId, &'a Report)]) -> Result<Rows<'a>, Failure> {
    let mut rows = rows!(
        reports,
        row => row.0.uuid(), &*row.1.adapter, row.1.observed_generation, row.1.last_report_time.utc(),
    );
    let summaries: Vec<_> = reports.iter().map(|(_, report)| report.summary()).collect();
    let summaries = rows!(
        &summaries,
        summary => summary.available.name(),
        summary.finalized,
        summary.reason.to_string(),
        summary.message.to_string(),
    );
    rows.columns.extend(summaries.columns);
    let bodies = rows!(reports, row => report::body(row.1)?, row.1.printed_size() as i64);
    rows.columns.extend(bodies.columns);
    Ok(rows)
}

/// The rows of [`TableWrite::Resources`].
fn changed_resources<'a>(resources: &'a [&'a Resource]) -> Rows<'a> {
    rows!(
        resources,
        r => r.id.uuid(),
        r.generation,
        r.spec.as_str(),
        r.labels.as_str(),
        r.references.as_str(),
        r.updated.at.utc(),
        r.updated.by.as_str(),
        deleted(r).map(|stamp| stamp.at.utc()),
        deleted(r).map(|stamp| stamp.by.as_str()),
    )
}

fn deleted(resource: &Resource) -> Option<&Stamp> {
    match &resource.phase {
        Phase::Active => None,
        Phase::Finalizing(stamp) => Some(stamp),
    }
}

fn tenant(tenancy: Option<&Tenant>) -> Option<&str> {
    tenancy.map(Tenant::as_str)
}

/// The adapters of each resource whose report times are removed, as JSON: a report on a newer generation may have been made
/// before the last report on the older generation.
fn adapters_to_remove(reports: &[(ResourceId, &Report)]) -> Vec<(ResourceId, String)> {
    let mut adapters: BTreeMap<ResourceId, Vec<&str>> = BTreeMap::new();
    for (id, report) in reports {
        adapters.entry(*id).or_default().push(&report.adapter);
    }
    adapters.into_iter().map(|(id, names)| (id, json_text(&names))).collect()
}
