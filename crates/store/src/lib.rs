//! Storage: one `Store` over SQLite and PostgreSQL.
//!
//! Writes are commands: the committer loads their rows, decides by `hyperfleet_core::rules`, and persists, many commands in
//! one transaction. A read is one query.
//! Every call is named, timed, bounded and its failure classified in one place; no rule of the domain lives here.
#![forbid(unsafe_code)]

mod backend;
mod clock;
mod codec;
mod database_health;
mod failure;
mod feed;
mod history;
mod leases;
mod maintenance;
mod metrics;
mod per_runtime;
mod postgres;
mod read;
mod search;
mod sqlite;
mod store;
mod write;

use hyperfleet_core::Epoch;

pub use backend::{Backend, Options};
pub use feed::{
    Buffered, Event, EventKind, EventPage, FeedBounds, FeedSnapshot, Follower, RingBuffer, Versioned,
    history_expired, history_replaced, not_kept,
};
pub use history::{PastGenerations, TimelineEntry, TimelinePage, TimelineQuery, TimelineStart};
pub use leases::LeasePage;
pub use maintenance::inspection::{
    InspectError, Inspector, TextRow, ancestors_of, conditions_of, entries_of, facets_of, report_of,
    updated_after_of,
};
pub use maintenance::migrations::{MigrationReport, OpenError};
pub use metrics::Metrics;
pub use postgres::SslMode;
pub use read::lists::{ListQuery, Page, ReportPage, Slice, SliceStart, Start};
pub use store::Store;

/// Brings the schema up to date and nothing else.
pub async fn migrate(options: &Options) -> Result<MigrationReport, OpenError> {
    match &options.backend {
        Backend::Sqlite { path } => sqlite::migrate(path.as_deref()),
        Backend::Postgres { .. } => postgres::migrate(options).await,
    }
}

/// Begins a new epoch, so that nothing is taken for a part of the present history that clients keep of another one.
pub async fn begin_epoch(options: &Options) -> Result<Epoch, OpenError> {
    match &options.backend {
        Backend::Sqlite { path } => sqlite::begin_epoch(path.as_deref()),
        Backend::Postgres { .. } => postgres::begin_epoch(options).await,
    }
}
