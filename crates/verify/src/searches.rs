//! What one statement can tell: it selects what must not be.

use hyperfleet_store::TextRow;

use crate::sql::Dialect;
use crate::stored::Cells;
use crate::{Run, VerifyError};

/// A statement that selects an id, what is expected, and what was found.
struct Search {
    check: &'static str,
    table: &'static str,
    sql: String,
}

impl Run<'_> {
    pub(crate) async fn searches(&mut self) -> Result<(), VerifyError> {
        for Search { check, table, sql } in searches(self.dialect) {
            let rows: Vec<TextRow> = self
                .read(check, table, [sql + " limit 1000"])
                .await?
                .into_iter()
                .flatten()
                .flatten()
                .collect();
            for mut cells in rows.into_iter().map(Cells::of) {
                let [id, expected, found] = [(); 3].map(|()| cells.or_empty());
                self.findings().note(check, table, &id, expected, found);
            }
        }
        Ok(())
    }
}

/// Rows that refer to a resource that is not there.
fn orphans(table: &'static str, column: &str) -> Search {
    let sql = format!(
        "select distinct cast(t.{column} as text), 'a resource with this id', 'none' from {table} t
         where t.{column} is not null and not exists (select 1 from resources r where r.id = t.{column})"
    );
    Search { check: "references", table, sql }
}

const WITHOUT_STATUS: &str = "select r.id, 'a row with the status of this resource', 'none' from resources r
     where not exists (select 1 from resource_status s where s.resource_id = r.id)";

const ACTIVE_BELOW_FINALIZING: &str = "select r.id, 'finalizing, as its owner is', 'active' from resources r
     join resources o on o.id = r.owner_id where r.deleted_time is null and o.deleted_time is not null";

const SAME_NAMES: &str =
    "select min(cast(id as text)), 'the only active ' || kind || ' of its name', 'one of ' || count(*)
     from resources where deleted_time is null
     group by kind, coalesce(cast(owner_id as text), tenancy, ''), name having count(*) > 1";

/// A change is pruned only with all changes before it.
const OTHER_VERSIONS: &str = "select resource_id, 'the version of its last change: ' || last, version from (
         select s.resource_id, s.version, coalesce(
             (select max(c.version) from changes c where c.resource_id = s.resource_id),
             case when s.version > h.pruned_version then 0 else s.version end
         ) as last
         from resource_status s cross join history h
     ) known where version <> last";

const OTHER_TENANTS: &str =
    "select r.id, 'the tenant of its resource: ' || coalesce(r.tenancy, 'none'), coalesce(s.tenancy, 'none')
     from resources r join resource_status s on s.resource_id = r.id
     where s.tenancy is distinct from r.tenancy";

const PHASES: &str = "count(*) filter (where r.deleted_time is null) as active,
     count(*) filter (where r.deleted_time is not null) as finalizing";

const PENDING: &str =
    "count(*) filter (where r.deleted_time is null and s.pending_since is not null) as pending_active,
     count(*) filter (where r.deleted_time is not null and s.pending_since is not null) as pending_finalizing";

/// Maintained counts that differ from those of the rows. The key is a column and how it is shown.
fn differing(table: &'static str, (key, shown): (&str, &str), columns: &[&str], counted: &str) -> Search {
    let each = |part: &dyn Fn(&str) -> String, between: &str| {
        columns.iter().map(|column| part(column)).collect::<Vec<_>>().join(between)
    };
    let value = |of: &'static str| move |column: &str| format!("coalesce({of}.{column}, 0)");
    let named = |of: &'static str| move |column: &str| format!("'{column} ' || coalesce({of}.{column}, 0)");
    let sql = format!(
        "with counted as ({counted}) select {shown}, {}, {}
         from counted c full join {table} k using ({key}) where ({}) <> ({})",
        each(&named("c"), " || ', ' || "),
        each(&named("k"), " || ', ' || "),
        each(&value("c"), ", "),
        each(&value("k"), ", ")
    );
    Search { check: "counts", table, sql }
}

fn searches(dialect: Dialect) -> Vec<Search> {
    let search = |check, table, sql: &str| Search { check, table, sql: sql.to_owned() };
    let of_kinds = format!(
        "select r.kind, {PHASES}, {PENDING}
         from resources r left join resource_status s on s.resource_id = r.id group by r.kind"
    );
    let of_facets = format!(
        "select f.facet, {PHASES} from resource_facets f join resources r on r.id = f.resource_id group by f.facet"
    );
    let kind_columns = ["active", "finalizing", "pending_active", "pending_finalizing"];
    let facet = dialect.facet_column("facet");
    let mut all = vec![
        orphans("resources", "owner_id"),
        orphans("resource_status", "resource_id"),
        orphans("reports", "resource_id"),
        orphans("resource_facets", "resource_id"),
        orphans("resource_references", "source_id"),
        orphans("resource_references", "target_id"),
        search("references", "resource_status", WITHOUT_STATUS),
        search("references", "resources", ACTIVE_BELOW_FINALIZING),
        search("references", "resources", SAME_NAMES),
        search("versions", "resource_status", OTHER_VERSIONS),
        differing("kind_counts", ("kind", "kind"), &kind_columns, &of_kinds),
        differing("facet_counts", ("facet", &facet), &["active", "finalizing"], &of_facets),
    ];
    if dialect == Dialect::Postgres {
        all.push(search("references", "resource_status", OTHER_TENANTS));
    }
    all
}
