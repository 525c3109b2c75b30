//! The second flight: the differences of a batch, one statement per table, and the commit.

use futures_util::future::try_join_all;
use hyperfleet_core::rules::WorkingSet;
use hyperfleet_core::{Catalog, ResourceId};
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::columns::{
    AnswerColumns, ChangeColumns, Columns, FacetColumns, FacetCountColumns, RefreshedColumns, StatusColumns,
};
use super::load::outdated;
use super::moved::{self, Moves};
use super::report_columns::ReportColumns;
use super::writer::Session;
use crate::differences::{Counts, Differences};
use crate::failure::Failure;
use crate::memory::Mark;

/// How a batch comes to hold the feed, and where it leaves it.
#[derive(Clone, Copy)]
pub(super) enum Feed {
    /// A transaction is open and has locked it.
    Locked { left: Mark },
    /// No transaction is open yet; the feed must be where the batch was decided. If that was predicted, it must be
    /// there by this session.
    Expected { found: Mark, predicted: bool, left: Mark },
}

/// Writes the differences and commits. Everything is sent before the first answer is awaited; if
/// a statement fails, PostgreSQL turns the commit at the end into a rollback.
pub(super) async fn persist(
    session: &Session,
    catalog: &Catalog,
    set: &WorkingSet,
    feed: Feed,
) -> Result<(), Failure> {
    let statements = &session.persist;
    let differences = Differences::of(set)?;
    let (Feed::Locked { left } | Feed::Expected { left, .. }) = &feed;
    let is_changed = !set.changes().is_empty();
    let mut position: Vec<&(dyn ToSql + Sync)> = vec![&left.version.0, &left.commits, &is_changed];
    let advance = match &feed {
        Feed::Locked { .. } => &statements.advance_feed,
        Feed::Expected { found, predicted, .. } => {
            position.extend::<[&(dyn ToSql + Sync); 3]>([&found.version.0, &found.commits, predicted]);
            &statements.claim_feed
        }
    };
    let Differences {
        inserted, updated, restated, refreshed, facets, removed, unlinked, links, counts, ..
    } = &differences;

    let wide = Columns::of(inserted);
    let changed = Columns::of(updated);
    let new_status = StatusColumns::of(inserted)?;
    let moved_status = StatusColumns::of(restated)?;
    let uuids = |ids: &[ResourceId]| ids.iter().map(|id| id.uuid()).collect::<Vec<_>>();
    let (unlinked, removed) = (uuids(unlinked), uuids(removed));
    let sources: Vec<Uuid> = links.iter().map(|link| link.source.uuid()).collect();
    let ref_types: Vec<&str> = links.iter().map(|link| link.ref_type.as_str()).collect();
    let targets: Vec<Uuid> = links.iter().map(|link| link.target.uuid()).collect();
    let kinds: Vec<&str> = counts.keys().copied().collect();
    let number = |of: fn(&Counts) -> i64| counts.values().map(of).collect::<Vec<i64>>();
    let (active, finalizing) = (number(|c| c.active), number(|c| c.finalizing));
    let pending = (number(|c| c.pending_active), number(|c| c.pending_finalizing));
    let moves = Moves::of(catalog, set, &differences);
    let refreshed = RefreshedColumns::of(refreshed, &moves);
    let (old_facets, new_facets) = (FacetColumns::of(&facets.gone), FacetColumns::of(&facets.new));
    let facet_counts = FacetCountColumns::of(&facets.counts);
    let new_reports = ReportColumns::of(&session.dictionaries, &differences.new_reports)?;
    let changed_reports = ReportColumns::of(&session.dictionaries, &differences.changed_reports)?;
    let moved_reports = ReportColumns::times_of(&moves.in_rows);
    let (set_back, reporters) = moved::set_back(&differences.set_back);
    let changes = ChangeColumns::of(&session.dictionaries, set)?;
    let answers = AnswerColumns::of(set);

    let mut flight: Vec<(&Statement, Vec<&(dyn ToSql + Sync)>)> = Vec::with_capacity(16);
    flight.push((advance, position));
    // What goes and what frees its name comes before what is new, so that one batch can delete a name
    // and use it again.
    if !unlinked.is_empty() {
        flight.push((&statements.delete_references, vec![&unlinked]));
    }
    if !removed.is_empty() {
        flight.push((&statements.delete_resources, vec![&removed]));
        flight.push((&statements.delete_status, vec![&removed]));
        flight.push((&statements.delete_reports, vec![&removed]));
    }
    if !updated.is_empty() {
        flight.push((&statements.update_resources, changed.changing()));
    }
    if !inserted.is_empty() {
        flight.push((&statements.insert_resources, wide.all()));
        flight.push((&statements.insert_status, new_status.all()));
    }
    if !restated.is_empty() {
        flight.push((&statements.update_status, moved_status.changing()));
    }
    if !refreshed.ids.is_empty() {
        flight.push((&statements.refresh_status, refreshed.all()));
    }
    if !set_back.is_empty() {
        flight.push((&statements.set_back_reports, vec![&set_back, &reporters]));
    }
    if !old_facets.facets.is_empty() {
        flight.push((&statements.delete_facets, old_facets.all()));
    }
    if !new_facets.facets.is_empty() {
        flight.push((&statements.insert_facets, new_facets.all()));
    }
    if !facet_counts.facets.is_empty() {
        flight.push((&statements.change_facet_counts, facet_counts.all()));
    }
    if !old_facets.facets.is_empty() {
        flight.push((&statements.delete_facet_counts, vec![&old_facets.facets]));
    }
    if !new_reports.ids.is_empty() {
        flight.push((&statements.insert_reports, new_reports.all()));
    }
    if !changed_reports.ids.is_empty() {
        flight.push((&statements.update_reports, changed_reports.all()));
    }
    if !moved_reports.ids.is_empty() {
        flight.push((&statements.move_reports, moved_reports.moving()));
    }
    if !sources.is_empty() {
        flight.push((&statements.insert_references, vec![&sources, &ref_types, &targets]));
    }
    if !kinds.is_empty() {
        flight.push((&statements.change_counts, vec![&kinds, &active, &finalizing, &pending.0, &pending.1]));
    }
    if is_changed {
        flight.push((&statements.insert_changes, changes.all()));
    }
    if !answers.keys.is_empty() {
        flight.push((&statements.keep_answers, answers.all()));
    }

    let client = &session.client;
    let begin = async {
        match feed {
            Feed::Locked { .. } => Ok(()),
            Feed::Expected { .. } => client.batch_execute("begin isolation level read committed").await,
        }
    };
    let writes = try_join_all(flight.iter().map(|(statement, values)| client.execute(*statement, values)));
    let sent = futures_util::try_join!(begin, writes, client.batch_execute("commit"));
    match (sent, feed) {
        (Err(error), Feed::Expected { .. }) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
            Err(outdated())
        }
        (sent, _) => sent.map(drop).map_err(Failure::from),
    }
}
