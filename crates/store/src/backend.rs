//! The database to use and its settings. They are printed in logs and by `hyperfleet up`, without anything that may hold a
//! secret.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::SslMode;

/// Which database, and how to reach it.
#[derive(Clone, PartialEq, Eq)]
pub enum Backend {
    /// A SQLite file, or a database in memory that ends with the process.
    Sqlite {
        /// The file; `None` is memory.
        path: Option<PathBuf>,
    },
    /// A PostgreSQL server.
    Postgres {
        /// `postgres://user:password@host:port/name`, without the parameters that the other members hold.
        url: String,
        /// How much TLS is demanded.
        ssl_mode: SslMode,
        /// Authorities to trust instead of the system's.
        root_cert_file: Option<PathBuf>,
    },
}

impl fmt::Debug for Backend {
    /// Without the URL, which holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path } => f.debug_struct("Sqlite").field("path", path).finish(),
            Self::Postgres { ssl_mode, .. } => {
                f.debug_struct("Postgres").field("ssl_mode", ssl_mode).finish_non_exhaustive()
            }
        }
    }
}

impl fmt::Display for Backend {
    /// Where the data is, for people; nothing of a URL but its host and name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path: Some(path) } => write!(f, "SQLite, {}", path.display()),
            Self::Sqlite { path: None } => f.write_str("SQLite in memory, gone when this ends"),
            Self::Postgres { url, .. } => {
                // Parameters and credentials may hold secrets, so they go first.
                let place = url.split('?').next().unwrap_or_default();
                let place = place.split_once("://").map_or("", |(_, rest)| rest);
                write!(f, "PostgreSQL, {}", place.rsplit_once('@').map_or(place, |(_, place)| place))
            }
        }
    }
}

/// How to work with the database.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which database.
    pub backend: Backend,
    /// Connections for reads that are not point reads.
    pub max_connections: usize,
    /// Longest time for any one operation.
    pub request_timeout: Duration,
    /// How often to try again to reach the database at start.
    pub connect_attempts: u32,
    /// How long to wait between these tries.
    pub connect_interval: Duration,
    /// Commands that may wait for a commit before new ones are shed.
    pub queue_limit: usize,
    /// Whether to bring the schema up to date, or only to check it.
    pub migrate: bool,
    /// Whether there are tenants, for PostgreSQL to keep apart too.
    pub tenants: bool,
}
