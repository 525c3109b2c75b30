//! The statements that write alone, in an order that matters: what goes and what frees its name comes before what is
//! new. The others leave [together](super::together). Each takes a batch as columns, one array for each, and walks
//! through the arrays side by side: in a `from` clause PostgreSQL would first copy every value of every array into a
//! table of its own.

use tokio_postgres::{Client, Statement};

use super::listen::CHANNEL;
use super::together::{Together, Write};
use super::writer::prepare;
use crate::failure::Failure;

macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        /// All of them, prepared on one connection.
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
            pub(super) together: Together,
        }

        impl Statements {
            pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
                let together = Together::prepare(client).await?;
                let [$($name),*] = prepare(client, [$($text),*]).await?;
                Ok(Self { $($name,)* together })
            }
        }
    };
}

statements! {
    update_resources: Write::Resources.text(),
    delete_reports: "delete from reports where resource_id = any($1)".into(),
    delete_references: "delete from resource_references where source_id = any($1)".into(),
    delete_resources: "delete from resources where id = any($1)".into(),
    delete_status: "delete from resource_status where resource_id = any($1)".into(),
    set_back_reports: format!(
        "update resource_status s
         set moved = s.moved - array(select jsonb_array_elements_text(n.adapters::jsonb))
         from ({}) n where s.resource_id = n.id and s.moved is not null",
        rows("id uuid, adapters text")
    ),
    // Of those that were counted down in the same batch.
    delete_facet_counts: "delete from facet_counts where facet = any($1) and active = 0 and finalizing = 0".into(),
}

/// Every replica hears of a version once it is committed.
pub(super) fn ring(version: &str) -> String {
    format!("pg_notify('{CHANNEL}', {version})")
}

/// Whether this session itself brought the feed to where it is. Each commit that claims the feed notes down in the
/// session where it left it; PostgreSQL forgets the note if the commit fails. By its numbers alone, another
/// replica's commit could look like one of ours that failed.
pub(super) const OURS: &str = "coalesce(current_setting('hyperfleet.commits', true) = commits::text, false)";

/// The columns of a report.
pub(super) const REPORT: &str = "resource_id uuid, adapter text, observed_generation bigint, last_report_time timestamptz,
    available text, finalized boolean, reason text, message text, created_time timestamptz, packed bytea, data text,
    metadata text";

/// The rows of a batch, whose columns are given as `name type` in the order of the parameters.
pub(super) fn rows(columns: &str) -> String {
    let columns = split(columns).enumerate();
    let columns = columns.map(|(i, (name, of))| format!("unnest(${}::{of}[]) as {name}", i + 1));
    format!("select {}", columns.collect::<Vec<_>>().join(", "))
}

/// Adds these rows to a table.
pub(super) fn insert(table: &str, columns: &str) -> String {
    let names: Vec<&str> = split(columns).map(|(name, _)| name).collect();
    format!("insert into {table} ({}) {}", names.join(", "), rows(columns))
}

fn split(columns: &str) -> impl Iterator<Item = (&str, &str)> {
    columns.split(',').filter_map(|column| column.trim().split_once(' '))
}
