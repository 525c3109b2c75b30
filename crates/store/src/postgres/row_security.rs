//! Row-level security: besides the access scope, a second barrier between tenants. A read for a tenant is a read-only
//! transaction of a role to which policies show the rows of that tenant only, whatever the statement selects.
//!
//! The committer, system callers and installations without tenants connect as the owner of the tables, to which no policy
//! applies, so they pay nothing for it.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use futures_util::{TryStreamExt, join};
use hyperfleet_core::Tenant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, RowStream, Statement};

use super::row;
use crate::failure::{Failure, FailureKind};
use crate::search::Value;

/// A row of the tenant that the transaction is for.
const OWN: &str = "tenancy = current_setting('hyperfleet.tenant', true)";

/// A row about a visible resource, by resources_pkey. The offset makes PostgreSQL look up each resource instead of
/// listing all visible ones.
macro_rules! about {
    ($id:literal) => {
        concat!("exists (select 1 from resources r where r.id = ", $id, " offset 0)")
    };
}

/// The rows of each table that a tenant may see.
const POLICIES: [(&str, &str); 8] = [
    ("resources", OWN),
    ("changes", OWN),
    ("leases", OWN),
    ("resource_status", OWN),
    ("reports", about!("reports.resource_id")),
    ("resource_references", about!("resource_references.source_id")),
    ("resource_facets", about!("resource_facets.resource_id")),
    // The tenant's resources of each kind. The counts of labels and conditions are of all tenants.
    (
        "facet_counts",
        r"facet = any (array(
              select encode(substring(sha256(
                         convert_to(k.kind, 'UTF8') || '\x00'::bytea || 'tenancy'::bytea || '\x0000'::bytea
                         || convert_to(current_setting('hyperfleet.tenant', true), 'UTF8')) for 16), 'hex')::uuid
              from kind_counts k))",
    ),
];

/// The tables that a tenant may read: those with a policy, and counters of all tenants.
const READABLE: &str = "resources, changes, resource_status, reports, resource_references, resource_facets, \
                        facet_counts, leases, feed, history";

/// Confines a transaction. The schema is set because a search path may contain the name of the role.
pub(super) const CONFINE: &str = "select set_config('role', $1, true), set_config('search_path', $2, true),
                                         set_config('hyperfleet.tenant', $3, true)";

/// A statement that ends with its conditions, for a connection with the tenants' [role](RowSecurity::enter). It sets the
/// tenant, its first parameter, for its own transaction. The lateral join makes every plan set the tenant before it reads
/// a row.
pub(super) fn confined(text: &str) -> String {
    format!(
        "select found.*
         from (select set_config('hyperfleet.tenant', $1, true) as tenant) confined
         cross join lateral ({text} and confined.tenant is not null offset 0) found"
    )
}

/// The row-level security of a database that has it.
pub(super) struct RowSecurity {
    pub(super) role: String,
    schema: String,
}

/// Reads for one tenant.
#[derive(Clone, Copy)]
pub(super) struct TenantScope<'a> {
    pub(super) row_security: &'a RowSecurity,
    pub(super) tenant: &'a Tenant,
}

impl TenantScope<'_> {
    /// Confines the open transaction.
    pub(super) async fn confine(self, client: &deadpool_postgres::Client) -> Result<(), Failure> {
        let parameters: [&(dyn ToSql + Sync); 3] =
            [&self.row_security.role, &self.row_security.schema, &self.tenant.as_str()];
        client.execute(&client.prepare_cached(CONFINE).await?, &parameters).await?;
        Ok(())
    }

    /// Runs a query in a confined transaction, in one round trip. `confine` is [`CONFINE`], prepared.
    pub(super) async fn query<T, E>(
        self,
        client: &Client,
        confine: &Statement,
        query: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure>
    where
        Failure: From<E>,
    {
        let Self { row_security, tenant } = self;
        let tenant = tenant.as_str();
        let parameters: [&(dyn ToSql + Sync); 3] = [&row_security.role, &row_security.schema, &tenant];
        // All are sent before the first answer, so the transaction ends whatever fails.
        let (begun, confined, rows, ended) = join!(
            client.batch_execute("begin isolation level read committed, read only"),
            client.execute(confine, &parameters),
            query,
            client.batch_execute("commit"),
        );
        begun?;
        confined?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }
}

/// The text of a statement. PostgreSQL analyses a statement again when another role executes it, so tenants have their
/// own.
pub(super) fn spelled<'t>(text: &'t str, tenant_scope: Option<TenantScope<'_>>) -> Cow<'t, str> {
    match tenant_scope {
        Some(_) => format!("{text} -- for a tenant").into(),
        None => text.into(),
    }
}

/// Queries once, confined for tenants, in one round trip, and gives the rows to `take` like [`Prepared::each`]. The
/// statement is planned for its values and not kept.
pub(super) async fn each_once(
    client: &deadpool_postgres::Client,
    tenant_scope: Option<TenantScope<'_>>,
    text: &str,
    values: &[Value],
    take: impl FnMut(&Row) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let values = values.iter().map(|value| (value, row::type_of(value)));
    let rows = async { each_row(client.query_typed_raw(text, values).await?, take).await };
    match tenant_scope {
        Some(tenant_scope) => {
            let confine = client.prepare_cached(CONFINE).await?;
            tenant_scope.query(client, &confine, rows).await
        }
        None => rows.await,
    }
}

async fn each_row(
    rows: RowStream,
    mut take: impl FnMut(&Row) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    futures_util::pin_mut!(rows);
    while let Some(found) = rows.try_next().await? {
        if !take(&found)? {
            break;
        }
    }
    Ok(())
}

/// A statement that the connection keeps prepared, confined for tenants.
pub(super) struct Prepared<'a> {
    statement: Statement,
    tenant_scope: Option<(TenantScope<'a>, Statement)>,
}

impl<'a> Prepared<'a> {
    /// Prepares it on a connection, unless it is there.
    pub(super) async fn new(
        client: &deadpool_postgres::Client,
        tenant_scope: Option<TenantScope<'a>>,
        text: &str,
    ) -> Result<Self, Failure> {
        let text = spelled(text, tenant_scope);
        let tenant_scope = match tenant_scope {
            Some(tenant_scope) => Some((tenant_scope, client.prepare_cached(CONFINE).await?)),
            None => None,
        };
        Ok(Self { statement: client.prepare_cached(&text).await?, tenant_scope })
    }

    pub(super) async fn query(
        &self,
        client: &Client,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let rows = client.query(&self.statement, values);
        match &self.tenant_scope {
            Some((tenant_scope, confine)) => tenant_scope.query(client, confine, rows).await,
            None => Ok(rows.await?),
        }
    }

    /// Gives each row to `take` as it arrives, so that rows which are large are not all in memory, and leaves out the rest
    /// once `take` returns false.
    pub(super) async fn each(
        &self,
        client: &Client,
        values: &[&(dyn ToSql + Sync)],
        take: impl FnMut(&Row) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let values = values.iter().copied();
        let rows = async { each_row(client.query_raw(&self.statement, values).await?, take).await };
        match &self.tenant_scope {
            Some((tenant_scope, confine)) => tenant_scope.query(client, confine, rows).await,
            None => rows.await,
        }
    }
}

impl RowSecurity {
    /// Gives a connection the role of tenants. It sees no resource until a statement sets a tenant.
    pub(super) async fn enter(&self, client: &Client) -> Result<(), Failure> {
        client
            .batch_execute(
                "set default_transaction_read_only = on; set default_transaction_isolation = 'read committed'",
            )
            .await?;
        let parameters: [&(dyn ToSql + Sync); 2] = [&self.role, &self.schema];
        client
            .execute(
                "select set_config('role', $1, false), set_config('search_path', $2, false)",
                &parameters,
            )
            .await?;
        Ok(())
    }

    /// The row-level security of this database, if it has any; with `may_install` it is installed if it is missing. Only an
    /// outage is an error, because the access scope still separates tenants; the log warns.
    pub(super) async fn find(client: &Client, may_install: bool) -> Result<Option<Self>, Failure> {
        // Roles belong to the server, which may have many databases and schemas.
        let names = client
            .query_one(
                "select format('hyperfleet_tenant_%s_%s', d.oid, n.oid), quote_ident(n.nspname), quote_ident(current_user)
                 from pg_database d, pg_namespace n
                 where d.datname = current_database() and n.nspname = current_schema()",
                &[],
            )
            .await?;
        let row_security = Self { role: names.try_get(0)?, schema: names.try_get(1)? };
        let mut found = row_security.verify(client).await;
        if found.is_err() && may_install {
            found = match row_security.install(client).await {
                Ok(()) => row_security.verify(client).await,
                Err(failure) => Err(failure),
            };
        }
        let (role, user): (&str, &str) = (&row_security.role, names.try_get(2)?);
        match found {
            Ok(()) => {
                tracing::info!(role, "PostgreSQL keeps tenants apart too");
                Ok(Some(row_security))
            }
            Err(failure) if failure.is_outage() => Err(failure),
            Err(failure) => {
                tracing::warn!(
                    error = failure.chain(),
                    remedy = format!(
                        "as a superuser: create role {role} nologin; grant {role} to {user}. \
                         Then, as the owner of the tables: hyperfleet migrate"
                    ),
                    "PostgreSQL does not keep tenants apart, only this server does"
                );
                Ok(None)
            }
        }
    }

    /// Verifies that this user can take the role, and that the policies exist and apply to it.
    async fn verify(&self, client: &Client) -> Result<(), Failure> {
        let tables: Vec<&str> = POLICIES.iter().map(|(table, _)| *table).collect();
        let probe = async {
            client.batch_execute(&format!("begin; set local role {}", self.role)).await?;
            client.execute("select set_config('search_path', $1, true)", &[&self.schema]).await?;
            let row = client
                .query_one(
                    "select count(*) from unnest($1::text[]) t
                     join pg_policies p on p.tablename = t and quote_ident(p.schemaname) = $2
                         and p.policyname = 'one_tenant' and p.permissive = 'RESTRICTIVE' and p.roles = array[current_user]
                     where row_security_active(t) and has_table_privilege(t, 'select')
                         and has_table_privilege('feed', 'select') and has_table_privilege('history', 'select')
                         and has_column_privilege('kind_counts', 'kind', 'select')",
                    &[&tables, &self.schema],
                )
                .await?;
            Ok::<i64, Failure>(row.try_get(0)?)
        };
        let found = probe.await;
        client.batch_execute("rollback").await?;
        match found? {
            count if count == tables.len() as i64 => Ok(()),
            _ => Err(Failure::new(FailureKind::Refused, "policies or rights to read are missing")),
        }
    }

    /// Creates what is missing, in a transaction per table, so that it never waits for one table while it locks another.
    async fn install(&self, client: &Client) -> Result<(), Failure> {
        let Self { role, schema } = self;
        // An existing role may be the operator's.
        client
            .batch_execute(&format!(
                "do $$ begin
                     if not exists (select 1 from pg_roles where rolname = '{role}') then
                         create role {role} nologin noinherit;
                     end if;
                     if not pg_has_role(current_user, '{role}',
                             case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end) then
                         grant {role} to current_user;
                     end if;
                     if not has_schema_privilege('{role}', current_schema(), 'usage') then
                         grant usage on schema {schema} to {role};
                     end if;
                 end $$"
            ))
            .await?;
        for (table, shown) in POLICIES {
            // Policies also apply to users that inherit from the role, hence the comparison of current_user. It also
            // keeps the planner from expecting next to no rows, for which it would read a whole table.
            client
                .batch_execute(&format!(
                    "alter table {table} enable row level security;
                     drop policy if exists everything on {table};
                     create policy everything on {table} using (true);
                     drop policy if exists one_tenant on {table};
                     create policy one_tenant on {table} as restrictive for select to {role}
                         using (current_user <> '{role}' or {shown})"
                ))
                .await?;
        }
        client
            .batch_execute(&format!(
                "grant select on {READABLE} to {role}; grant select (kind) on kind_counts to {role}"
            ))
            .await?;
        Ok(())
    }
}
