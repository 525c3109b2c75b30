//! What PostgreSQL itself counts of one database: statements by its extension `pg_stat_statements`, rows that are written
//! by a trigger on every table, because the extension does not tell what the parts of a statement wrote.

use std::collections::BTreeMap;

use hyperfleet_testkit::{Database, Postgres};
use tokio_postgres::{Client, NoTls};

/// The counters of one database.
pub(super) struct Counters {
    /// Of another database, so that it does not count itself.
    client: Client,
    inside: Client,
    database: String,
    /// What was written before.
    written: i64,
}

/// A sequence counts on whatever becomes of the transaction, and takes next to no log.
const COUNT_WRITES: &str = "
    create sequence written minvalue 0 start 0 cache 1;
    create function count_written() returns trigger language plpgsql as
        $$ begin perform nextval('written'); return null; end $$;
    do $$ declare t text; begin
        for t in select tablename from pg_tables where schemaname = current_schema() loop
            execute format('create trigger count_written after insert or update or delete on %I
                            for each row execute function count_written()', t);
        end loop;
    end $$;
    select nextval('written')";

/// What PostgreSQL counted of one statement: how often it ran, the rows that it returned, and bytes of write-ahead log,
/// without that of the commit itself.
#[derive(Clone)]
struct Count {
    text: String,
    calls: usize,
    rows: usize,
    wal: usize,
}

/// What was counted in one turn, by the number that PostgreSQL gives to a statement: its text is kept with constants or
/// without, as it happens to be prepared before or after the counters were reset.
pub(super) struct Turn {
    statements: BTreeMap<i64, Count>,
    written: usize,
}

/// What one request takes.
pub(super) struct Cost {
    /// Each as often as it runs.
    pub(super) statements: Vec<String>,
    pub(super) rows: usize,
    pub(super) wal: usize,
}

impl Cost {
    /// What every turn took. What the server does by itself, now and then, is not in all of them.
    pub(super) fn of(turns: &[Turn]) -> Self {
        let written = turns.iter().map(|turn| turn.written).min().unwrap_or(0);
        let mut cost = Self { statements: Vec::new(), rows: written, wal: 0 };
        for (statement, first) in &turns[0].statements {
            let counts: Option<Vec<&Count>> =
                turns.iter().map(|turn| turn.statements.get(statement)).collect();
            let Some(counts) = counts else { continue };
            let least = |of: fn(&Count) -> usize| counts.iter().map(|count| of(count)).min().unwrap_or(0);
            cost.statements.extend(std::iter::repeat_n(first.text.clone(), least(|count| count.calls)));
            cost.rows += least(|count| count.rows);
            cost.wal += least(|count| count.wal);
        }
        cost
    }

    /// The statements, to be compared when their number changes.
    pub(super) fn text(&self) -> String {
        self.statements.join("\n")
    }
}

impl Counters {
    /// Counts what is done to a database whose tables are there.
    pub(super) async fn open(postgres: &Postgres, database: &Database) -> Self {
        let connect = async |url: &str| {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        };
        let (client, inside) = (connect(&postgres.url("postgres")).await, connect(&database.url()).await);
        client.batch_execute("create extension if not exists pg_stat_statements").await.unwrap();
        inside.batch_execute(COUNT_WRITES).await.unwrap();
        Self { client, inside, database: database.name().to_owned(), written: 0 }
    }

    /// Forgets what was counted.
    pub(super) async fn reset(&mut self) {
        self.written = self.written().await;
        let reset = "select pg_stat_statements_reset(0, oid, 0) from pg_database where datname = $1";
        self.client.query(reset, &[&self.database]).await.unwrap();
    }

    /// What was counted since then.
    pub(super) async fn turn(&self) -> Turn {
        // Rows that a statement wrote are counted by the trigger.
        let read = "select s.queryid, min(s.query), sum(s.calls)::bigint,
                           sum(case when s.query ~ '^(insert|update|delete|with advanced)' then 0 else s.rows end)::bigint,
                           sum(s.wal_bytes)::bigint
                    from pg_stat_statements s join pg_database d on d.oid = s.dbid
                    where d.datname = $1 group by s.queryid";
        let rows = self.client.query(read, &[&self.database]).await.unwrap();
        let counted = rows.iter().map(|row| {
            let number = |column: usize| usize::try_from(row.get::<_, i64>(column)).unwrap();
            (row.get(0), Count { text: row.get(1), calls: number(2), rows: number(3), wal: number(4) })
        });
        let statements = counted.collect();
        let written = self.written().await - self.written;
        Turn { statements, written: usize::try_from(written).unwrap() }
    }

    /// How many rows were written since the counting began.
    async fn written(&self) -> i64 {
        self.inside.query_one("select last_value from written", &[]).await.unwrap().get(0)
    }
}
