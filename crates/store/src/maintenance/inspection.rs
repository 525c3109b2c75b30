//! What `hyperfleet-verify` reads: rows as text, each batch from one snapshot that creates and changes nothing, and the
//! columns that only this crate can take apart.

use std::sync::Arc;

use hyperfleet_core::{Error, RawJson, Report, ReportSummary, Resource, ResourceId, Tenant, Timestamp};
use uuid::Uuid;

use crate::codec::compression::decompress;
use crate::codec::{conditions, parse_ancestors, report};
use crate::failure::{Failure, FailureKind};
use crate::feed::StoredChange;
use crate::maintenance::migrations::{Applied, OpenError};
use crate::write::facets::Facet;
use crate::{Backend, Options, postgres, sqlite};

/// A row, each value as the database prints it.
pub type TextRow = Vec<Option<String>>;

/// Why a read found nothing.
#[derive(Debug)]
pub enum InspectError {
    /// The database cannot be reached.
    Unreachable(Error),
    /// It cannot read its own tables.
    Unreadable(String),
}

/// Reads a database to verify it.
#[derive(Clone)]
pub struct Inspector(pub(crate) Source);

#[derive(Clone)]
pub(crate) enum Source {
    Sqlite(sqlite::Location),
    Postgres(Arc<postgres::Inspection>),
}

impl Inspector {
    /// Of the database with these options, which must be there.
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        Ok(Self(match &options.backend {
            Backend::Sqlite { path } => Source::Sqlite(sqlite::Location::existing(path.as_deref())?),
            Backend::Postgres { .. } => Source::Postgres(Arc::new(postgres::Inspection::new(options)?)),
        }))
    }

    /// Whether it is SQLite.
    pub fn is_sqlite(&self) -> bool {
        matches!(self.0, Source::Sqlite(_))
    }

    /// The rows of each statement.
    pub async fn read(&self, statements: Vec<String>) -> Result<Vec<Vec<TextRow>>, InspectError> {
        let found = match &self.0 {
            Source::Sqlite(location) => location.inspect(statements).await,
            Source::Postgres(inspection) => inspection.read(&statements).await,
        };
        found.map_err(|failure| match failure.kind {
            FailureKind::Unavailable | FailureKind::Timeout => {
                InspectError::Unreachable(failure.into_error())
            }
            _ => InspectError::Unreadable(failure.chain()),
        })
    }

    /// Whether this release works with a schema, given its steps: number, name, and the oldest that works with it.
    pub fn check_schema(&self, steps: Vec<(i32, String, i32)>) -> Result<(), OpenError> {
        let step = |(number, name, compatible_from)| Applied { number, name, compatible_from };
        let applied: Vec<Applied> = steps.into_iter().map(step).collect();
        match &self.0 {
            Source::Sqlite(_) => sqlite::check_schema(&applied),
            Source::Postgres(_) => postgres::check_schema(&applied),
        }
    }
}

/// The owners of a resource, from the column `ancestors`.
pub fn ancestors_of(text: &str) -> Result<Vec<ResourceId>, String> {
    parse_ancestors(text).map_err(|failure| failure.chain())
}

/// Conditions with their times, from the columns `conditions` and `last_updated_times`.
pub fn conditions_of(stored: &str, last_updated_times: Vec<i64>) -> RawJson {
    conditions::conditions(stored, last_updated_times.into_iter())
}

/// The column `updated_after` of a resource.
pub fn updated_after_of(resource: &Resource) -> Result<Option<Timestamp>, String> {
    crate::write::updated_after_of(resource).map_err(|failure| failure.chain())
}

/// A whole report from its summary and the column `body`.
pub fn report_of(summary: &ReportSummary, created: Timestamp, body: &[u8]) -> Result<Report, String> {
    let ReportSummary { adapter, generation, time, .. } = summary;
    report::report(adapter, *generation, *time, created, body).map_err(|failure| failure.chain())
}

/// How many entries a change has, from its column `body`, all of which must be readable.
pub fn entries_of(version: i64, body: &[u8]) -> Result<usize, String> {
    let read = || {
        StoredChange::new(version, ResourceId::generate(), Timestamp::from_micros(0), body)?;
        let [entries, _, _] = decompress(body)?;
        Ok(RawJson::from_stored(entries.unwrap_or_default()).parse::<Vec<RawJson>>()?.len())
    };
    read().map_err(|failure: Failure| failure.chain())
}

/// The facets of a resource.
pub fn facets_of(
    kind: &str,
    labels: &RawJson,
    conditions: &RawJson,
    tenant: Option<&Tenant>,
) -> Result<Vec<Uuid>, String> {
    let facets = Facet::all(kind, labels, conditions, tenant).map_err(|failure| failure.chain())?;
    Ok(facets.into_iter().map(Facet::uuid).collect())
}
