//! What PostgreSQL itself counts of one database, by its extension `pg_stat_statements`.

use std::collections::BTreeMap;

use hyperfleet_testkit::{Database, Postgres};
use tokio_postgres::{Client, NoTls};

/// The counters of one database.
pub(super) struct Counters {
    client: Client,
    database: String,
}

/// What PostgreSQL counted of one statement: how often it ran, the rows that it returned or wrote, and bytes of
/// write-ahead log, without that of the commit itself.
#[derive(Clone)]
struct Count {
    text: String,
    calls: usize,
    rows: usize,
    wal: usize,
}

/// What was counted in one turn, by the number that PostgreSQL gives to a statement: its text is kept with constants or
/// without, as it happens to be prepared before or after the counters were reset.
pub(super) struct Turn(BTreeMap<i64, Count>);

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
        let mut cost = Self { statements: Vec::new(), rows: 0, wal: 0 };
        for (statement, first) in &turns[0].0 {
            let counts: Option<Vec<&Count>> = turns.iter().map(|turn| turn.0.get(statement)).collect();
            let Some(counts) = counts else { continue };
            let least = |of: fn(&Count) -> usize| counts.iter().map(|count| of(count)).min().unwrap_or(0);
            cost.statements.extend(std::iter::repeat_n(first.text.clone(), least(|count| count.calls)));
            cost.rows += least(|count| count.rows);
            cost.wal += least(|count| count.wal);
        }
        cost
    }

    /// The statements, for whoever has to look for one more or less.
    pub(super) fn text(&self) -> String {
        self.statements.join("\n")
    }
}

impl Counters {
    /// Looks from another database, so that it does not count itself.
    pub(super) async fn open(postgres: &Postgres, database: &Database) -> Self {
        let (client, connection) = tokio_postgres::connect(&postgres.url("postgres"), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("create extension if not exists pg_stat_statements").await.unwrap();
        Self { client, database: database.name().to_owned() }
    }

    /// Forgets what was counted.
    pub(super) async fn reset(&self) {
        let reset = "select pg_stat_statements_reset(0, oid, 0) from pg_database where datname = $1";
        self.client.query(reset, &[&self.database]).await.unwrap();
    }

    /// What was counted since then.
    pub(super) async fn turn(&self) -> Turn {
        let read = "select s.queryid, min(s.query), sum(s.calls)::bigint, sum(s.rows)::bigint,
                           sum(s.wal_bytes)::bigint
                    from pg_stat_statements s join pg_database d on d.oid = s.dbid
                    where d.datname = $1 group by s.queryid";
        let rows = self.client.query(read, &[&self.database]).await.unwrap();
        let counted = rows.iter().map(|row| {
            let number = |column: usize| usize::try_from(row.get::<_, i64>(column)).unwrap();
            (row.get(0), Count { text: row.get(1), calls: number(2), rows: number(3), wal: number(4) })
        });
        Turn(counted.collect())
    }
}
