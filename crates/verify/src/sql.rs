//! The statements, in the SQL of either database. Values that stand in them are ids, versions and times, as the database
//! printed them.

use uuid::Uuid;

use Dialect::{Postgres, Sqlite};

/// About the most bytes of one batch.
pub(crate) const BATCH_BYTES: i64 = 16 << 20;

/// How much a report takes; the rows of older releases do not tell.
const REPORT_SIZE: &str = "coalesce(bytes, length(body))";

/// The newest pruned version and the newest version.
pub(crate) const BOUNDS: &str = "select pruned_version, version from history, feed";

/// The settings by which conditions were computed.
pub(crate) const SETTINGS: &str = "select kind, settings from aggregations";

/// The SQL of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// A time in microseconds, exactly.
    fn micros(self, column: &str) -> String {
        match self {
            Sqlite => column.to_owned(),
            Postgres => format!(
                "extract(epoch from date_trunc('second', {column}))::bigint * 1000000
                 + extract(microseconds from {column})::bigint % 1000000"
            ),
        }
    }

    fn hex(self, column: &str) -> String {
        match self {
            Sqlite => format!("lower(hex({column}))"),
            Postgres => format!("encode({column}, 'hex')"),
        }
    }

    pub(crate) fn facet_column(self, column: &str) -> String {
        match self {
            Sqlite => self.hex(column),
            Postgres => format!("{column}::text"),
        }
    }

    /// A facet as the database prints it.
    pub(crate) fn facet(self, facet: Uuid) -> String {
        match self {
            Sqlite => facet.simple().to_string(),
            Postgres => facet.to_string(),
        }
    }

    fn facet_literal(self, printed: &str) -> String {
        match self {
            Sqlite => format!("x'{printed}'"),
            Postgres => format!("'{printed}'::uuid"),
        }
    }

    fn time_literal(self, printed: &str) -> String {
        match self {
            Sqlite => printed.to_owned(),
            Postgres => format!("'{printed}'::timestamptz"),
        }
    }

    fn id_literal(self, printed: &str) -> String {
        match self {
            Sqlite => quoted(printed),
            Postgres => format!("'{printed}'::uuid"),
        }
    }

    /// A row if there is this table.
    pub(crate) fn table(self, name: &str) -> String {
        match self {
            Sqlite => format!("select 1 from sqlite_master where name = '{name}'"),
            Postgres => format!("select 1 where to_regclass('{name}') is not null"),
        }
    }

    /// The present of the database.
    pub(crate) fn now(self) -> String {
        match self {
            Sqlite => "select cast(unixepoch('subsec') * 1000000 as integer)".to_owned(),
            Postgres => format!("select {}", self.micros("now()")),
        }
    }
}

pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn list(ids: &[String]) -> String {
    ids.iter().map(|id| quoted(id)).collect::<Vec<_>>().join(", ")
}

/// The next resources, with about how many bytes each takes with its reports.
pub(crate) fn next_resources(after: &str) -> String {
    format!(
        "select r.id, length(r.spec) + coalesce((select sum({REPORT_SIZE}) from reports where resource_id = r.id), 0)
         from resources r where r.id > {} order by r.id limit 200",
        quoted(after)
    )
}

pub(crate) fn resources(dialect: Dialect, ids: &[String]) -> String {
    let micros = |column| dialect.micros(column);
    let times = match dialect {
        Sqlite => "s.last_updated_times",
        Postgres => "array_to_string(s.last_updated_times, ',')",
    };
    format!(
        "select r.id, r.kind, r.name, r.ancestors, r.generation, r.spec, r.labels, r.refs, {}, r.created_by, {},
                r.updated_by, {}, r.deleted_by, r.tenancy, r.owner_id, r.created_time, s.version, s.conditions,
                {times}, {}, {}, s.report_times
         from resources r join resource_status s on s.resource_id = r.id where r.id in ({})",
        micros("r.created_time"),
        micros("r.updated_time"),
        micros("r.deleted_time"),
        micros("s.pending_since"),
        micros("s.updated_after"),
        list(ids)
    )
}

pub(crate) fn reports(dialect: Dialect, ids: &[String]) -> String {
    format!(
        "select resource_id, adapter, observed_generation, {}, {}, available, finalized, reason, message, {}, bytes
         from reports where resource_id in ({})",
        dialect.micros("last_report_time"),
        dialect.micros("created_time"),
        dialect.hex("body"),
        list(ids)
    )
}

pub(crate) fn child_counts(ids: &[String]) -> String {
    format!(
        "select owner_id, kind, count(*) from resources where owner_id in ({}) group by owner_id, kind",
        list(ids)
    )
}

pub(crate) fn references(ids: &[String]) -> String {
    format!(
        "select source_id, ref_type, target_id from resource_references where source_id in ({})",
        list(ids)
    )
}

/// A facet that a resource must have as long as it has this version.
#[derive(Debug)]
pub(crate) struct ExpectedFacet {
    pub(crate) facet: Uuid,
    pub(crate) created: String,
    pub(crate) resource: String,
    pub(crate) version: i64,
}

/// Those of the expected facets that are missing.
pub(crate) fn missing_facets(dialect: Dialect, expected: &[ExpectedFacet]) -> String {
    let row = |e: &ExpectedFacet| {
        let facet = dialect.facet_literal(&dialect.facet(e.facet));
        let (created, id) = (dialect.time_literal(&e.created), dialect.id_literal(&e.resource));
        format!("({facet}, {created}, {id}, {})", e.version)
    };
    format!(
        "with expected (facet, created_time, id, version) as (values {})
         select e.id, {} from expected e
         join resource_status s on s.resource_id = e.id and s.version = e.version
         where not exists (
             select 1 from resource_facets f
             where f.facet = e.facet and f.created_time = e.created_time and f.resource_id = e.id
         )",
        expected.iter().map(row).collect::<Vec<_>>().join(", "),
        dialect.facet_column("e.facet")
    )
}

/// The place of a row of facets: facet, time and resource, as they are printed.
pub(crate) type FacetPlace = [String; 3];

/// The next facets, with what they are computed from.
pub(crate) fn next_facets(dialect: Dialect, after: Option<&FacetPlace>) -> String {
    let after = after.map_or(String::new(), |[facet, created, id]| {
        format!(
            "where (facet, created_time, resource_id) > ({}, {}, {})",
            dialect.facet_literal(facet),
            dialect.time_literal(created),
            dialect.id_literal(id)
        )
    });
    format!(
        "select {}, f.created_time, f.resource_id, case when r.created_time = f.created_time then 1 else 0 end,
                r.kind, r.labels, r.tenancy, s.conditions
         from (select * from resource_facets {after} order by facet, created_time, resource_id limit 1000) f
         left join resources r on r.id = f.resource_id
         left join resource_status s on s.resource_id = f.resource_id
         order by f.facet, f.created_time, f.resource_id",
        dialect.facet_column("f.facet")
    )
}

/// The next changes.
pub(crate) fn next_changes(dialect: Dialect, after: i64) -> String {
    format!(
        "select version, {}, entry_count, {} from (
             select *, sum(length(body)) over (order by version) - length(body) as before from (
                 select * from changes where version > {after} order by version limit 500
             ) next
         ) measured where before < {BATCH_BYTES} order by version",
        dialect.micros("changed_time"),
        dialect.hex("body")
    )
}
