//! The database of a server, open to inspection and sabotage from outside.

use std::path::PathBuf;

use hyperfleet_testkit::{Database, Launch, Postgres};
use rusqlite::types::ValueRef;
use tempfile::{NamedTempFile, TempDir};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::BINARY;
use crate::support::{Backend, database};

/// A database of its own, gone with this value.
pub(crate) enum Installation {
    Sqlite(TempDir),
    Postgres(Database),
}

/// Rows of columns, everything as text; a null is empty.
pub(crate) type Rows = Vec<Vec<String>>;

impl Installation {
    /// A database with the present schema, or a SQLite file that is still to be made.
    pub(crate) async fn migrated(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => Self::sqlite(),
            Backend::Postgres => Self::Postgres(database().await),
        }
    }

    /// A database without a schema, for tests of migrations.
    pub(crate) async fn empty(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => Self::sqlite(),
            Backend::Postgres => Self::Postgres(Postgres::shared().database().await),
        }
    }

    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// The value for `database.url`.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(_) => format!("sqlite:{}", self.file().display()),
            Self::Postgres(database) => database.url(),
        }
    }

    /// `hyperfleet serve` on this database.
    pub(crate) fn serve(&self) -> Launch {
        Launch::new(BINARY).env("HYPERFLEET_DATABASE_URL", &self.url())
    }

    /// A column of bytes as text.
    pub(crate) fn hex(&self, column: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("hex({column})"),
            Self::Postgres(_) => format!("encode({column}, 'hex')"),
        }
    }

    /// Runs statements without a result.
    pub(crate) async fn execute(&self, statements: &str) {
        match self {
            Self::Sqlite(_) => self.open().execute_batch(statements).unwrap(),
            Self::Postgres(database) => connect(database).await.batch_execute(statements).await.unwrap(),
        }
    }

    /// The rows of one query.
    pub(crate) async fn rows(&self, query: &str) -> Rows {
        let [rows] = self.snapshot([query]).await;
        rows
    }

    /// The rows of several queries, all of one moment.
    pub(crate) async fn snapshot<const N: usize>(&self, queries: [&str; N]) -> [Rows; N] {
        let mut all = Vec::with_capacity(N);
        match self {
            Self::Sqlite(_) => {
                let mut connection = self.open();
                let transaction = connection.transaction().unwrap();
                for query in queries {
                    all.push(sqlite_rows(&transaction, query));
                }
            }
            Self::Postgres(database) => {
                let client = connect(database).await;
                client.batch_execute("begin isolation level repeatable read, read only").await.unwrap();
                for query in queries {
                    all.push(postgres_rows(&client, query).await);
                }
            }
        }
        all.try_into().unwrap()
    }

    /// Keeps every writer out, and on PostgreSQL every reader, until the value is dropped.
    pub(crate) async fn hold_everything(&self) -> Box<dyn std::any::Any> {
        match self {
            Self::Sqlite(_) => {
                let connection = self.open();
                connection.execute_batch("begin immediate").unwrap();
                Box::new(connection)
            }
            Self::Postgres(database) => {
                let client = connect(database).await;
                let lock = "begin; lock table feed, resources in access exclusive mode";
                client.batch_execute(lock).await.unwrap();
                Box::new(client)
            }
        }
    }

    /// A copy of everything, taken while servers run.
    pub(crate) async fn backup(&self) -> NamedTempFile {
        let copy = NamedTempFile::new().unwrap();
        match self {
            Self::Sqlite(_) => {
                // It must be empty or absent.
                self.open().execute("vacuum into ?1", [copy.path().to_str().unwrap()]).unwrap();
            }
            Self::Postgres(database) => {
                let target = format!("--file={}", copy.path().display());
                self.run("pg_dump", &["--format=custom", &target, &database.url()]).await;
            }
        }
        copy
    }

    /// Puts a copy in place of everything. No server runs.
    pub(crate) async fn restore(&self, copy: &NamedTempFile) {
        match self {
            Self::Sqlite(_) => {
                for suffix in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{suffix}", self.file().display()));
                }
                std::fs::copy(copy.path(), self.file()).unwrap();
            }
            Self::Postgres(database) => {
                self.execute("drop schema public cascade; create schema public").await;
                let url = format!("--dbname={}", database.url());
                self.run("pg_restore", &[&url, copy.path().to_str().unwrap()]).await;
            }
        }
    }

    /// Runs a program of PostgreSQL.
    async fn run(&self, program: &str, arguments: &[&str]) {
        let program = Postgres::shared().program(program);
        let output = tokio::process::Command::new(program).args(arguments).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(directory) => directory.path().join("hyperfleet.db"),
            Self::Postgres(_) => unreachable!("PostgreSQL is no file"),
        }
    }

    fn open(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        connection.busy_timeout(super::DEADLINE).unwrap();
        connection
    }
}

async fn connect(database: &Database) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn sqlite_rows(connection: &rusqlite::Connection, query: &str) -> Rows {
    let mut statement = connection.prepare(query).unwrap();
    let columns = statement.column_count();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        other => other.as_str().unwrap().to_owned(),
    };
    let rows =
        statement.query_map((), |row| (0..columns).map(|column| Ok(text(row.get_ref(column)?))).collect());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

async fn postgres_rows(client: &tokio_postgres::Client, query: &str) -> Rows {
    let messages = client.simple_query(query).await.unwrap();
    messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        })
        .collect()
}
