//! The columns of each table, for both directions and both stores. A row is written with its values in the order of these
//! lists, and read by the names of its columns. Types are PostgreSQL's.

use std::sync::LazyLock;

/// What is written of a new resource.
pub(crate) const RESOURCE: &str = "id uuid, kind text, name text, owner_id uuid, ancestors text, generation bigint, \
     spec text, labels text, refs text, created_time timestamptz, created_by text, updated_time timestamptz, \
     updated_by text, deleted_time timestamptz, deleted_by text, tenancy text";

/// What a change of a resource writes, by its key.
pub(crate) const RESOURCE_CHANGE: &str = "id uuid, generation bigint, spec text, labels text, refs text, \
     updated_time timestamptz, updated_by text, deleted_time timestamptz, deleted_by text";

/// What is written of the status of a resource, by its key. A tenant stands beside it in PostgreSQL alone.
pub(crate) const STATUS: &str =
    "resource_id uuid, version bigint, conditions text, pending_since timestamptz, updated_after timestamptz";

/// What is written of a changed report, by its key.
pub(crate) const REPORT_CHANGE: &str = "resource_id uuid, adapter text, observed_generation bigint, \
     last_report_time timestamptz, available text, finalized boolean, reason text, message text, body bytea, bytes bigint";

/// What is written of a new report.
pub(crate) static REPORT: LazyLock<String> =
    LazyLock::new(|| format!("{REPORT_CHANGE}, created_time timestamptz"));

pub(crate) const REFERENCE: &str = "source_id uuid, ref_type text, target_id uuid";

pub(crate) const FACET: &str = "facet uuid, created_time timestamptz, resource_id uuid";

pub(crate) const FACET_COUNT: &str = "facet uuid, active bigint, finalizing bigint";

pub(crate) const KIND_COUNT: &str =
    "kind text, active bigint, finalizing bigint, pending_active bigint, pending_finalizing bigint";

pub(crate) const CHANGE: &str = "version bigint, resource_id uuid, kind text, changed_time timestamptz, actor text, \
     request_id text, body bytea, entry_count integer, tenancy text, touched_parts integer";

pub(crate) const IDEMPOTENCY_RECORD: &str =
    "key bytea, request bytea, created_time timestamptz, response text";

/// What is read of a resource `r` with its status `s`.
pub(crate) const READ_RESOURCE: &str = "r.id, r.kind, r.name, r.ancestors, r.generation, r.spec, r.labels, r.refs, \
     r.created_time, r.created_by, r.updated_time, r.updated_by, r.deleted_time, r.deleted_by, \
     s.conditions, s.version, s.last_updated_times, s.pending_since, r.tenancy";

/// Roughly the size of that in bytes.
pub(crate) const RESOURCE_BYTES: &str =
    "(octet_length(r.spec) + octet_length(r.labels) + octet_length(r.refs) + octet_length(s.conditions))";

/// What is read of a resource without spec and references, for resources of which only the conditions change.
pub(crate) static READ_STATUS: LazyLock<String> = LazyLock::new(|| {
    READ_RESOURCE.replace("r.spec, r.labels, r.refs", "'{}' as spec, r.labels, '{}' as refs")
});

/// What is read of a report for the rules.
pub(crate) const READ_SUMMARY: &str =
    "resource_id, adapter, observed_generation, last_report_time, available, finalized, reason, message";

/// What is read of a whole report.
pub(crate) const READ_REPORT: &str =
    "resource_id, adapter, observed_generation, last_report_time, created_time, body";

/// What is read of the whole reports on the resources that `chosen` selects. Without a body if the reports on a resource
/// take more bytes together than `most`, a parameter.
pub(crate) fn read_reports(reports: &str, chosen: &str, most: &str) -> String {
    let columns = READ_REPORT.replace("body", "case when total.bytes <= MOST then body end as body");
    format!(
        "select {} from {reports} join (
             select resource_id as id, sum(bytes) as bytes from reports where resource_id {chosen} group by 1
         ) total on id = resource_id",
        columns.replace("MOST", most)
    )
}

/// The names of columns with their types.
pub(crate) fn typed(columns: &str) -> impl Iterator<Item = (&str, &str)> {
    columns.split(',').filter_map(|column| column.trim().split_once(' '))
}

/// The names of columns, joined by commas.
pub(crate) fn names(columns: &str) -> String {
    typed(columns).map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_changed_or_read_are_columns_that_are_written() {
        let written = |columns: &str, name: &str| typed(columns).any(|(written, _)| written == name);
        assert!(typed(RESOURCE_CHANGE).all(|(name, _)| written(RESOURCE, name)));
        for column in READ_RESOURCE.split(", ").filter(|column| *column != "s.last_updated_times") {
            let (table, name) = column.split_once('.').unwrap();
            assert!(written(if table == "r" { RESOURCE } else { STATUS }, name), "{column}");
        }
        assert!(READ_SUMMARY.split(", ").chain(READ_REPORT.split(", ")).all(|name| written(&REPORT, name)));
    }

    #[test]
    fn columns_without_spec_and_references_have_the_same_names() {
        let name = |column: &str| column.rsplit(['.', ' ']).next().unwrap().to_owned();
        let of = |columns: &str| columns.split(", ").map(name).collect::<Vec<_>>();
        assert_eq!(of(&READ_STATUS), of(READ_RESOURCE));
    }
}
