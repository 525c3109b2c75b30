//! Verification of a database that is in use. It reads small batches, each from one snapshot, and writes nothing: so it
//! holds up nobody, and a write that comes between is no finding. What a batch takes is bounded, and so is the number of
//! findings that are kept.
#![forbid(unsafe_code)]

mod changes;
mod facets;
mod findings;
mod resource;
mod resources;
mod searches;
mod sql;
mod storage;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hyperfleet_core::Error;
use hyperfleet_core::rules::Rulebook;
use hyperfleet_store::{InspectError, Inspector, OpenError, TextRow};
use serde::Serialize;

use sql::Dialect;
use stored::Cells;

pub use findings::{CHECKS, Finding, Findings};

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// What was found.
    #[serde(flatten)]
    pub findings: Findings,
    /// How many rows of each table were read.
    pub rows: BTreeMap<&'static str, u64>,
    /// What could not be verified, and why.
    pub skipped: BTreeSet<String>,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The table that is being read.
    pub table: &'static str,
    /// Rows that were read.
    pub done: u64,
    /// About how many there are.
    pub total: u64,
}

/// Why a verification could not be done.
#[derive(Debug)]
pub enum VerifyError {
    /// The database has the schema of another release.
    Schema(OpenError),
    /// It cannot be reached.
    Unreachable(Error),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(error) => error.fmt(f),
            Self::Unreachable(error) => f.write_str(&error.chain()),
        }
    }
}

impl std::error::Error for VerifyError {}

/// Verifies a database once, by the rules of a configuration.
pub async fn verify(
    inspector: &Inspector,
    rulebook: &Arc<Rulebook>,
    progress: impl FnMut(Progress) + Send,
) -> Result<Verification, VerifyError> {
    let dialect = if inspector.is_sqlite() { Dialect::Sqlite } else { Dialect::Postgres };
    let progress = Box::new(progress);
    let mut run = Run { inspector, rulebook, dialect, progress, verification: Verification::default() };
    let is_readable = run.schema().await?;
    run.storage().await?;
    if is_readable {
        run.searches().await?;
        run.resources().await?;
        run.facets().await?;
        run.changes().await?;
    }
    Ok(run.verification)
}

/// A verification under way.
struct Run<'a> {
    inspector: &'a Inspector,
    rulebook: &'a Rulebook,
    dialect: Dialect,
    progress: Box<dyn FnMut(Progress) + Send + 'a>,
    verification: Verification,
}

impl Run<'_> {
    fn findings(&mut self) -> &mut Findings {
        &mut self.verification.findings
    }

    /// What these statements find in one snapshot; nothing if the database cannot read its own tables, which is a finding.
    async fn read<const N: usize>(
        &mut self,
        check: &'static str,
        table: &str,
        statements: [String; N],
    ) -> Result<Option<[Vec<TextRow>; N]>, VerifyError> {
        match self.inspector.read(statements.into()).await {
            Ok(found) => Ok(<[Vec<TextRow>; N]>::try_from(found).ok()),
            Err(InspectError::Unreachable(error)) => Err(VerifyError::Unreachable(error)),
            Err(InspectError::Unreadable(cause)) => {
                self.findings().note(check, table, &"", "readable", cause);
                Ok(None)
            }
        }
    }

    /// Whether the schema can be read. None, or another release's, is an error.
    async fn schema(&mut self) -> Result<bool, VerifyError> {
        const TABLE: &str = "schema_migrations";
        let exists = self.read("storage", TABLE, [self.dialect.table(TABLE)]).await?;
        let Some([exists]) = exists else { return Ok(false) };
        let rows = match exists.is_empty() {
            true => Vec::new(),
            false => {
                let steps = format!("select number, name, compatible_from from {TABLE} order by number");
                let Some([rows]) = self.read("storage", TABLE, [steps]).await? else { return Ok(false) };
                rows
            }
        };
        let step = |row| {
            let mut cells = Cells::of(row);
            Some((cells.number().ok()? as i32, cells.text().ok()?, cells.number().ok()? as i32))
        };
        let steps = rows.into_iter().filter_map(step).collect();
        self.inspector.check_schema(steps).map_err(VerifyError::Schema)?;
        Ok(true)
    }

    /// Counts rows that were read, and tells how far the table is.
    fn advance(&mut self, table: &'static str, rows: usize, total: i64) {
        let done = self.verification.rows.entry(table).or_default();
        *done += rows as u64;
        let done = *done;
        (self.progress)(Progress { table, done, total: done.max(total.max(0) as u64) });
    }
}
