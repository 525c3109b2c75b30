//! The second wall between tenants. The first is the sight that the store is asked with; this one is in the database: a
//! read for a tenant is a transaction of a role that owns nothing and may only read, and to which policies show that
//! tenant's rows and no others, whatever the statement asks for.
//!
//! It must cost nobody else anything. Whoever has no tenant stays the owner of the tables, to whom no policy applies:
//! the committer, system callers, and everyone where tenants are not kept apart.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use futures_util::join;
use hyperfleet_core::Tenant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::failure::{Failure, FailureKind};

/// A row of the tenant that the transaction is for.
const OWN: &str = "tenancy = current_setting('hyperfleet.tenant', true)";

/// A row about a resource that can be seen, by resources_pkey. With the offset it is looked up for each, and not made a
/// list of all that can be seen.
macro_rules! about {
    ($id:literal) => {
        concat!("exists (select 1 from resources r where r.id = ", $id, " offset 0)")
    };
}

/// What a tenant may see of each table that holds something of tenants.
const POLICIES: [(&str, &str); 8] = [
    ("resources", OWN),
    ("changes", OWN),
    ("leases", OWN),
    ("resource_status", OWN),
    ("reports", about!("reports.resource_id")),
    ("resource_references", about!("resource_references.source_id")),
    ("resource_facets", about!("resource_facets.resource_id")),
    // The number of the tenant's own resources of each kind. Those of labels and conditions are of all tenants.
    (
        "facet_counts",
        r"facet = any (array(
              select encode(substring(sha256(
                         convert_to(k.kind, 'UTF8') || '\x00'::bytea || 'tenancy'::bytea || '\x0000'::bytea
                         || convert_to(current_setting('hyperfleet.tenant', true), 'UTF8')) for 16), 'hex')::uuid
              from kind_counts k))",
    ),
];

/// What a tenant may read: the tables with a policy, and numbers that are of all.
const READABLE: &str = "resources, changes, resource_status, reports, resource_references, resource_facets, \
                        facet_counts, leases, feed, history";

/// Confines a transaction. The schema is named because a path may go by the name of the role.
pub(super) const CONFINE: &str = "select set_config('role', $1, true), set_config('search_path', $2, true),
                                         set_config('hyperfleet.tenant', $3, true)";

/// A statement that ends with its conditions, for a connection that is [behind the wall](Wall::enter), with the tenant
/// as its first parameter. It is a transaction by itself, and the tenant is set for that. What follows is asked for each
/// row of the setting, of which there is one, so whatever the plan is, nothing is looked at before the tenant is set.
pub(super) fn confined(text: &str) -> String {
    format!(
        "select found.*
         from (select set_config('hyperfleet.tenant', $1, true) as tenant) confined
         cross join lateral ({text} and confined.tenant is not null offset 0) found"
    )
}

/// The wall of a database, where it stands.
pub(super) struct Wall {
    pub(super) role: String,
    schema: String,
}

/// Someone behind the wall.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub(super) wall: &'a Wall,
    pub(super) tenant: &'a Tenant,
}

impl Within<'_> {
    /// Confines the transaction that is open.
    pub(super) async fn confine(self, client: &deadpool_postgres::Client) -> Result<(), Failure> {
        let place: [&(dyn ToSql + Sync); 3] = [&self.wall.role, &self.wall.schema, &self.tenant.as_str()];
        client.execute(&client.prepare_cached(CONFINE).await?, &place).await?;
        Ok(())
    }

    /// Asks in a transaction that sees this tenant alone, all in one flight. `confine` is [`CONFINE`], prepared.
    pub(super) async fn query(
        self,
        client: &Client,
        confine: &Statement,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let Self { wall, tenant } = self;
        let tenant = tenant.as_str();
        let place: [&(dyn ToSql + Sync); 3] = [&wall.role, &wall.schema, &tenant];
        // All are sent, in this order, before any answer is looked at: whatever fails, the transaction ends.
        let (begun, confined, rows, ended) = join!(
            client.batch_execute("begin isolation level read committed, read only"),
            client.execute(confine, &place),
            client.query(statement, values),
            client.batch_execute("commit"),
        );
        begun?;
        confined?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }
}

/// A statement as it is for whoever asks. PostgreSQL analyses a statement anew when another role comes with it, so
/// those behind the wall have their own.
pub(super) fn spelled<'t>(text: &'t str, within: Option<Within<'_>>) -> Cow<'t, str> {
    match within {
        Some(_) => format!("{text} -- for a tenant").into(),
        None => text.into(),
    }
}

/// A statement for whoever asks.
pub(super) struct Prepared<'a> {
    pub(super) statement: Statement,
    within: Option<(Within<'a>, Statement)>,
}

impl<'a> Prepared<'a> {
    /// Prepares it on a connection, to be kept there if it lasts.
    pub(super) async fn new(
        client: &deadpool_postgres::Client,
        within: Option<Within<'a>>,
        text: &str,
        is_lasting: bool,
    ) -> Result<Self, Failure> {
        let text = spelled(text, within);
        let within = match within {
            Some(within) => Some((within, client.prepare_cached(CONFINE).await?)),
            None => None,
        };
        let statement = match is_lasting {
            true => client.prepare_cached(&text).await?,
            // Its first uses are planned for their values, and it has one.
            false => client.prepare(&text).await?,
        };
        Ok(Self { statement, within })
    }

    pub(super) async fn query(
        &self,
        client: &Client,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        match &self.within {
            Some((within, confine)) => within.query(client, confine, &self.statement, values).await,
            None => Ok(client.query(&self.statement, values).await?),
        }
    }
}

impl Wall {
    /// Puts a connection behind the wall, for as long as it lasts. Until a statement names a tenant, no resource is seen.
    pub(super) async fn enter(&self, client: &Client) -> Result<(), Failure> {
        client
            .batch_execute(
                "set default_transaction_read_only = on; set default_transaction_isolation = 'read committed'",
            )
            .await?;
        let place: [&(dyn ToSql + Sync); 2] = [&self.role, &self.schema];
        client
            .execute("select set_config('role', $1, false), set_config('search_path', $2, false)", &place)
            .await?;
        Ok(())
    }

    /// The wall of this database, if it stands. Where it may be raised, it is. Only an outage is an error: without
    /// this wall there is still the first, and the log says so.
    pub(super) async fn find(client: &Client, may_raise: bool) -> Result<Option<Self>, Failure> {
        // Roles are of the whole server, where there may be many databases, and many schemas in each.
        let names = client
            .query_one(
                "select format('hyperfleet_tenant_%s_%s', d.oid, n.oid), quote_ident(n.nspname), quote_ident(current_user)
                 from pg_database d, pg_namespace n
                 where d.datname = current_database() and n.nspname = current_schema()",
                &[],
            )
            .await?;
        let wall = Self { role: names.try_get(0)?, schema: names.try_get(1)? };
        let mut found = wall.check(client).await;
        if found.is_err() && may_raise {
            found = match wall.raise(client).await {
                Ok(()) => wall.check(client).await,
                Err(failure) => Err(failure),
            };
        }
        let (role, user): (&str, &str) = (&wall.role, names.try_get(2)?);
        match found {
            Ok(()) => {
                tracing::info!(role, "PostgreSQL keeps tenants apart too");
                Ok(Some(wall))
            }
            Err(failure) if failure.is_outage() => Err(failure),
            Err(failure) => {
                tracing::warn!(
                    error = failure.cause,
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

    /// Makes sure that the role can be taken, that policies apply to it, and that they are there.
    async fn check(&self, client: &Client) -> Result<(), Failure> {
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

    /// Makes whatever is missing. Each table by itself, so that nobody waits for one while holding another.
    async fn raise(&self, client: &Client) -> Result<(), Failure> {
        let Self { role, schema } = self;
        // A role that is there may be the operator's; whoever may make one may also take it.
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
            // Policies also apply to whoever inherits from their role, which a user that does not own the tables may; so
            // it is asked who reads. That has a second use: by the bare comparison with the tenant PostgreSQL expects
            // next to nothing of what is found by other means already, and reads a whole table for it.
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
