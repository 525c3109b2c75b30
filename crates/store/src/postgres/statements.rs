//! The statements that write, one for each table and way of writing. Each takes a batch as columns, one array for each,
//! and walks through the arrays side by side: in a `from` clause PostgreSQL would first copy every value of every array
//! into a table of its own.

use tokio_postgres::{Client, Statement};

use super::listen::CHANNEL;
use super::writer::prepare;
use crate::failure::Failure;

macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        /// All of them, prepared on one connection.
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
                let [$($name),*] = prepare(client, [$($text),*]).await?;
                Ok(Self { $($name),* })
            }
        }
    };
}

statements! {
    insert_resources: insert(
        "resources",
        "id uuid, kind text, name text, owner_id uuid, ancestors text, generation bigint, spec text, labels text,
         refs text, created_time timestamptz, created_by text, updated_time timestamptz, updated_by text,
         deleted_time timestamptz, deleted_by text, tenancy text",
    ),
    insert_status: insert(
        "resource_status",
        "resource_id uuid, version bigint, conditions text, pending_since timestamptz, confirmed_after timestamptz,
         tenancy text",
    ),
    update_resources: format!(
        "update resources r
         set generation = n.generation, spec = n.spec, labels = n.labels, refs = n.refs,
             updated_time = n.updated_time, updated_by = n.updated_by,
             deleted_time = n.deleted_time, deleted_by = n.deleted_by
         from ({}) n where r.id = n.id",
        rows(
            "id uuid, generation bigint, spec text, labels text, refs text, updated_time timestamptz,
             updated_by text, deleted_time timestamptz, deleted_by text",
        )
    ),
    update_status: format!(
        "update resource_status s
         set version = n.version, conditions = n.conditions, refreshed = '{{}}',
             pending_since = n.pending_since, confirmed_after = n.confirmed_after
         from ({}) n where s.resource_id = n.id",
        rows(
            "id uuid, version bigint, conditions text, pending_since timestamptz, confirmed_after timestamptz"
        )
    ),
    // An array of arrays cannot be unnested by rows, so each is cut out of one for all.
    refresh_status: format!(
        "update resource_status s
         set confirmed_after = n.confirmed_after, refreshed = ($6::bigint[])[n.last - n.count + 1 : n.last],
             moved = coalesce(s.moved || n.moved::jsonb, n.moved::jsonb, s.moved)
         from ({}) n where s.resource_id = n.id",
        rows("id uuid, confirmed_after timestamptz, moved text, last integer, count integer")
    ),
    set_back_reports: format!(
        "update resource_status s
         set moved = s.moved - array(select jsonb_array_elements_text(n.adapters::jsonb))
         from ({}) n where s.resource_id = n.id and s.moved is not null",
        rows("id uuid, adapters text")
    ),
    delete_facets: format!(
        "delete from resource_facets f using ({}) n
         where f.facet = n.facet and f.created_time = n.created_time and f.resource_id = n.id",
        rows("facet uuid, created_time timestamptz, id uuid")
    ),
    insert_facets: insert("resource_facets", "facet uuid, created_time timestamptz, resource_id uuid"),
    change_facet_counts: format!(
        "{} on conflict (facet) do update
         set active = facet_counts.active + excluded.active,
             finalizing = facet_counts.finalizing + excluded.finalizing",
        insert("facet_counts", "facet uuid, active bigint, finalizing bigint")
    ),
    delete_facet_counts: "delete from facet_counts where facet = any($1) and active = 0 and finalizing = 0".into(),
    insert_reports: insert("reports", REPORT),
    update_reports: format!(
        "update reports r
         set observed_generation = n.observed_generation, last_report_time = n.last_report_time,
             available = n.available, finalized = n.finalized, reason = n.reason,
             message = n.message, packed = n.packed, conditions = '', data = n.data, metadata = n.metadata
         from ({}) n where r.resource_id = n.resource_id and r.adapter = n.adapter",
        rows(REPORT)
    ),
    move_reports: format!(
        "update reports r set last_report_time = n.last_report_time
         from ({}) n where r.resource_id = n.id and r.adapter = n.adapter",
        rows("id uuid, adapter text, last_report_time timestamptz")
    ),
    delete_reports: "delete from reports where resource_id = any($1)".into(),
    delete_references: "delete from resource_references where source_id = any($1)".into(),
    insert_references: insert("resource_references", "source_id uuid, ref_type text, target_id uuid"),
    delete_resources: "delete from resources where id = any($1)".into(),
    delete_status: "delete from resource_status where resource_id = any($1)".into(),
    change_counts: format!(
        "{} on conflict (kind) do update
         set active = kind_counts.active + excluded.active,
             finalizing = kind_counts.finalizing + excluded.finalizing,
             pending_active = kind_counts.pending_active + excluded.pending_active,
             pending_finalizing = kind_counts.pending_finalizing + excluded.pending_finalizing",
        insert(
            "kind_counts",
            "kind text, active bigint, finalizing bigint, pending_active bigint, pending_finalizing bigint",
        )
    ),
    insert_changes: insert(
        "changes",
        "version bigint, resource_id uuid, kind text, at timestamptz, actor text, request_id text, packed bytea,
         size integer, tenancy text, touched integer",
    ),
    // One that is there is too old to count.
    keep_answers: format!(
        "{} on conflict (key) do update
         set body = excluded.body, at = excluded.at, answer = excluded.answer",
        insert("retries", "key bytea, body bytea, at timestamptz, answer text")
    ),
    advance_feed: format!("update feed set version = $1, commits = $2 returning {}", ring("$3")),
    // Fails unless the feed is where it is expected, and with it everything behind it in the
    // flight: a division by zero is the one error that a plain statement can raise at will.
    claim_feed: format!(
        "with advanced as (
             update feed set version = $1, commits = $2
             where version = $4 and commits = $5 and ({OURS} or not $6)
             returning set_config('hyperfleet.commits', commits::text, false), {}
         )
         select 1 / count(*) from advanced",
        ring("$3")
    ),
}

/// Every replica hears of it once it is committed, if there is something to hear of.
fn ring(if_changed: &str) -> String {
    format!("case when {if_changed} then pg_notify('{CHANNEL}', version::text) end")
}

/// Whether this session itself brought the feed to where it is. Each commit that claims the feed notes down in the
/// session where it left it; PostgreSQL forgets the note if the commit fails. By its numbers alone, another
/// replica's commit could look like one of ours that failed.
pub(super) const OURS: &str = "coalesce(current_setting('hyperfleet.commits', true) = commits::text, false)";

/// The columns of a report.
const REPORT: &str = "resource_id uuid, adapter text, observed_generation bigint, last_report_time timestamptz,
    available text, finalized boolean, reason text, message text, created_time timestamptz, packed bytea, data text,
    metadata text";

/// The rows of a batch, whose columns are given as `name type` in the order of the parameters.
fn rows(columns: &str) -> String {
    let columns = split(columns).enumerate();
    let columns = columns.map(|(i, (name, of))| format!("unnest(${}::{of}[]) as {name}", i + 1));
    format!("select {}", columns.collect::<Vec<_>>().join(", "))
}

/// Adds these rows to a table.
fn insert(table: &str, columns: &str) -> String {
    let names: Vec<&str> = split(columns).map(|(name, _)| name).collect();
    format!("insert into {table} ({}) {}", names.join(", "), rows(columns))
}

fn split(columns: &str) -> impl Iterator<Item = (&str, &str)> {
    columns.split(',').filter_map(|column| column.trim().split_once(' '))
}
