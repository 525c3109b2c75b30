//! Reads for a verification: the rows of statements as text, from one snapshot. Each has a connection of its own, because
//! it may take long, and creates and changes nothing.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::{BUSY_TIMEOUT, Location, blocking};
use crate::TextRow;
use crate::failure::Failure;
use crate::maintenance::migrations::OpenError;

impl Location {
    /// A file that is there.
    pub(crate) fn existing(path: Option<&Path>) -> Result<Self, OpenError> {
        match path {
            None => {
                Err(OpenError::new("a database in memory can be verified only by the process that holds it"))
            }
            Some(file) if !file.is_file() => {
                Err(OpenError::new(format!("there is no SQLite database {}", file.display())))
            }
            path => Ok(Self::new(path)),
        }
    }

    pub(crate) async fn inspect(&self, statements: Vec<String>) -> Result<Vec<Vec<TextRow>>, Failure> {
        let location = self.clone();
        blocking(move || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&location.uri, flags)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.pragma_update(None, "query_only", true)?;
            let snapshot = connection.unchecked_transaction()?;
            statements.iter().map(|statement| texts(&snapshot, statement)).collect()
        })
        .await
    }
}

fn texts(connection: &Connection, statement: &str) -> Result<Vec<TextRow>, Failure> {
    let mut statement = connection.prepare(statement)?;
    let columns = statement.column_count();
    let mut rows = statement.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => None,
                ValueRef::Integer(number) => Some(number.to_string()),
                ValueRef::Real(number) => Some(number.to_string()),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    // Text that is damaged must not pass for sound.
                    let text = std::str::from_utf8(bytes).map(str::to_owned);
                    Some(text.unwrap_or_else(|_| "\u{fffd} bytes that are no text".to_owned()))
                }
            })
        };
        found.push((0..columns).map(value).collect::<Result<_, Failure>>()?);
    }
    Ok(found)
}
