//! The second flight: the differences of a batch, most of them in one statement, and the commit.

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
use super::moved;
use super::report_columns::ReportColumns;
use super::together::{ALL, Write};
use super::writer::Session;
use crate::differences::{Counts, Differences};
use crate::failure::{Failure, FailureKind};
use crate::memory::Mark;
use crate::moved::Moves;

/// What is bound to a statement.
type Values<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// How a batch comes to hold the feed, and where it leaves it.
#[derive(Clone, Copy)]
pub(super) enum Feed {
    /// A transaction is open and has locked it.
    Locked { left: Mark },
    /// No transaction is open yet; the feed must be where the batch was decided. If that was predicted, it must be
    /// there by this session.
    Expected { found: Mark, predicted: bool, left: Mark },
}

/// Writes the differences and commits; with it the bell `rings` for other replicas. Everything is sent before the first
/// answer is awaited; if a statement fails, PostgreSQL turns the commit at the end into a rollback.
pub(super) async fn persist(
    session: &Session,
    catalog: &Catalog,
    set: &WorkingSet,
    feed: Feed,
    rings: bool,
) -> Result<(), Failure> {
    let statements = &session.persist;
    let differences = Differences::of(set)?;
    let Differences {
        inserted, updated, restated, refreshed, facets, removed, unlinked, links, counts, ..
    } = &differences;

    let wide = Columns::of(inserted);
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
    let is_changed = !set.changes().is_empty();
    let frees_names = !inserted.is_empty() && updated.iter().any(|resource| !resource.is_active());
    let answers = AnswerColumns::of(set);

    // Those that free a name are written before.
    let (before_all, together) = if frees_names { (&updated[..], &[][..]) } else { (&[][..], &updated[..]) };
    let (changed_before, changed_together) = (Columns::of(before_all), Columns::of(together));
    let values_of = |write: Write| -> Values<'_> {
        match write {
            Write::NewResources => wide.all(),
            Write::NewStatuses => new_status.all(),
            Write::Resources => changed_together.changing(),
            Write::Statuses => moved_status.changing(),
            Write::Times => refreshed.all(),
            Write::OldFacets => old_facets.all(),
            Write::NewFacets => new_facets.all(),
            Write::FacetCounts => facet_counts.all(),
            Write::Counts => vec![&kinds, &active, &finalizing, &pending.0, &pending.1],
            Write::NewReports => new_reports.all(),
            Write::Reports => changed_reports.all(),
            Write::ReportTimes => moved_reports.moving(),
            Write::References => vec![&sources, &ref_types, &targets],
            Write::Changes => changes.all(),
            Write::Answers => answers.all(),
        }
    };
    let is_needed = |write: &Write| match write {
        Write::NewResources | Write::NewStatuses => !inserted.is_empty(),
        Write::Resources => !updated.is_empty() && !frees_names,
        Write::Statuses => !restated.is_empty(),
        Write::Times => !refreshed.ids.is_empty(),
        Write::OldFacets => !old_facets.facets.is_empty(),
        Write::NewFacets => !new_facets.facets.is_empty(),
        Write::FacetCounts => !facet_counts.facets.is_empty(),
        Write::Counts => !kinds.is_empty(),
        Write::NewReports => !new_reports.ids.is_empty(),
        Write::Reports => !changed_reports.ids.is_empty(),
        Write::ReportTimes => !moved_reports.ids.is_empty(),
        Write::References => !sources.is_empty(),
        Write::Changes => is_changed,
        Write::Answers => !answers.keys.is_empty(),
    };

    // What goes and what frees its name comes before what is new, so that one batch can delete a name
    // and use it again.
    let mut before: Vec<(&Statement, Values<'_>)> = Vec::new();
    if !unlinked.is_empty() {
        before.push((&statements.delete_references, vec![&unlinked]));
    }
    if !removed.is_empty() {
        before.push((&statements.delete_resources, vec![&removed]));
        before.push((&statements.delete_status, vec![&removed]));
        before.push((&statements.delete_reports, vec![&removed]));
    }
    if frees_names {
        before.push((&statements.update_resources, changed_before.changing()));
    }
    // What is done to rows that others have written.
    let mut after: Vec<(&Statement, Values<'_>)> = Vec::new();
    if !set_back.is_empty() {
        after.push((&statements.set_back_reports, vec![&set_back, &reporters]));
    }
    if !old_facets.facets.is_empty() {
        after.push((&statements.delete_facet_counts, vec![&old_facets.facets]));
    }

    let needed: Vec<Write> = ALL.into_iter().filter(is_needed).collect();
    let set_of_writes = statements.together.with(&needed)?;
    let (Feed::Locked { left } | Feed::Expected { left, .. }) = &feed;
    let mut values: Values<'_> = vec![&left.version.0, &left.commits, &rings];
    let together = match &feed {
        Feed::Locked { .. } => &set_of_writes.locked,
        Feed::Expected { found, predicted, .. } => {
            values.extend::<[&(dyn ToSql + Sync); 3]>([&found.version.0, &found.commits, predicted]);
            &set_of_writes.claimed
        }
    };
    values.extend(set_of_writes.writes.iter().flat_map(|write| values_of(*write)));

    let client = &session.client;
    let is_expected = matches!(feed, Feed::Expected { .. });
    // Whoever locks rows before the feed waits for others who wait for it.
    if is_expected && !before.is_empty() {
        return Err(Failure::new(FailureKind::Defect, "what goes needs the lock of the feed"));
    }
    let is_alone = is_expected && after.is_empty();
    let control = async |text: &str, is_needed: bool| match is_needed {
        true => client.batch_execute(text).await,
        false => Ok(()),
    };
    let all = before.into_iter().chain([(together, values)]).chain(after).collect::<Vec<_>>();
    let writes = try_join_all(all.iter().map(|(statement, values)| client.execute(*statement, values)));
    let sent = futures_util::try_join!(
        control("begin isolation level read committed", is_expected && !is_alone),
        writes,
        control("commit", !is_alone),
    );
    match (sent, feed) {
        (Err(error), Feed::Expected { .. }) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
            Err(outdated())
        }
        // Nobody has looked whether names are free: the index tells.
        (Err(error), Feed::Expected { .. }) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            Err(Failure::new(FailureKind::NameTaken, error))
        }
        (sent, _) => sent.map(drop).map_err(Failure::from),
    }
}
