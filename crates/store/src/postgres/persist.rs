//! The second flight: the differences of a batch, one statement per table, and the commit.

use futures_util::future::try_join_all;
use hyperfleet_core::ResourceId;
use hyperfleet_core::rules::WorkingSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::columns::{
    AnswerColumns, ChangeColumns, Columns, FacetColumns, FacetCountColumns, RefreshedColumns, StatusColumns,
};
use super::listen::CHANNEL;
use super::load::outdated;
use super::report_columns::ReportColumns;
use super::writer::{Session, prepare};
use crate::differences::{Counts, Differences};
use crate::failure::Failure;
use crate::memory::Mark;

pub(super) struct Statements {
    insert_resources: Statement,
    insert_status: Statement,
    update_resources: Statement,
    update_status: Statement,
    refresh_status: Statement,
    delete_facets: Statement,
    insert_facets: Statement,
    change_facet_counts: Statement,
    delete_facet_counts: Statement,
    insert_reports: Statement,
    update_reports: Statement,
    move_reports: Statement,
    delete_reports: Statement,
    delete_references: Statement,
    insert_references: Statement,
    delete_resources: Statement,
    delete_status: Statement,
    change_counts: Statement,
    insert_changes: Statement,
    keep_answers: Statement,
    advance_feed: Statement,
    claim_feed: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
        let [
            insert_resources,
            insert_status,
            update_resources,
            update_status,
            refresh_status,
            delete_facets,
            insert_facets,
            change_facet_counts,
            delete_facet_counts,
            insert_reports,
            update_reports,
            move_reports,
            delete_reports,
            delete_references,
            insert_references,
            delete_resources,
            delete_status,
            change_counts,
            insert_changes,
            keep_answers,
            advance_feed,
            claim_feed,
        ] = prepare(
            client,
            [
                "insert into resources
                     (id, kind, name, owner_id, ancestors, generation, spec, labels, refs,
                      created_time, created_by, updated_time, updated_by, deleted_time, deleted_by, tenancy)
                 select * from unnest(
                     $1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::bigint[], $7::text[],
                     $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::text[],
                     $14::timestamptz[], $15::text[], $16::text[])"
                    .to_owned(),
                "insert into resource_status (resource_id, version, conditions, pending_since, confirmed_after)
                 select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[],
                                      $5::timestamptz[])"
                    .to_owned(),
                "update resources r
                 set generation = n.generation, spec = n.spec, labels = n.labels, refs = n.refs,
                     updated_time = n.updated_time, updated_by = n.updated_by,
                     deleted_time = n.deleted_time, deleted_by = n.deleted_by
                 from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                             $6::timestamptz[], $7::text[], $8::timestamptz[], $9::text[])
                     n (id, generation, spec, labels, refs, updated_time, updated_by, deleted_time, deleted_by)
                 where r.id = n.id"
                    .to_owned(),
                "update resource_status s
                 set version = n.version, conditions = n.conditions, refreshed = '{}',
                     pending_since = n.pending_since, confirmed_after = n.confirmed_after
                 from unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[])
                     n (id, version, conditions, pending_since, confirmed_after)
                 where s.resource_id = n.id"
                    .to_owned(),
                // An array of arrays cannot be unnested by rows, so each is cut out of one for all.
                "update resource_status s
                 set confirmed_after = n.confirmed_after,
                     refreshed = ($3::bigint[])[n.last - n.count + 1 : n.last]
                 from unnest($1::uuid[], $2::timestamptz[], $4::integer[], $5::integer[])
                     n (id, confirmed_after, last, count)
                 where s.resource_id = n.id"
                    .to_owned(),
                "delete from resource_facets f
                 using unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) n (facet, created_time, id)
                 where f.facet = n.facet and f.created_time = n.created_time and f.resource_id = n.id"
                    .to_owned(),
                "insert into resource_facets (facet, created_time, resource_id)
                 select * from unnest($1::uuid[], $2::timestamptz[], $3::uuid[])"
                    .to_owned(),
                "insert into facet_counts (facet, active, finalizing)
                 select * from unnest($1::uuid[], $2::bigint[], $3::bigint[])
                 on conflict (facet) do update
                 set active = facet_counts.active + excluded.active,
                     finalizing = facet_counts.finalizing + excluded.finalizing"
                    .to_owned(),
                "delete from facet_counts where facet = any($1) and active = 0 and finalizing = 0".to_owned(),
                "insert into reports
                     (resource_id, adapter, observed_generation, last_report_time, available, finalized,
                      reason, message, created_time, conditions, data, metadata)
                 select * from unnest(
                     $1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[], $5::text[], $6::boolean[],
                     $7::text[], $8::text[], $9::timestamptz[], $10::text[], $11::text[], $12::text[])"
                    .to_owned(),
                "update reports r
                 set observed_generation = n.observed_generation, last_report_time = n.last_report_time,
                     available = n.available, finalized = n.finalized, reason = n.reason,
                     message = n.message, conditions = n.conditions, data = n.data, metadata = n.metadata
                 from unnest(
                     $1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[], $5::text[], $6::boolean[],
                     $7::text[], $8::text[], $9::timestamptz[], $10::text[], $11::text[], $12::text[])
                     n (id, adapter, observed_generation, last_report_time, available, finalized, reason,
                        message, created_time, conditions, data, metadata)
                 where r.resource_id = n.id and r.adapter = n.adapter"
                    .to_owned(),
                "update reports r set last_report_time = n.last_report_time
                 from unnest($1::uuid[], $2::text[], $3::timestamptz[]) n (id, adapter, last_report_time)
                 where r.resource_id = n.id and r.adapter = n.adapter"
                    .to_owned(),
                "delete from reports where resource_id = any($1)".to_owned(),
                "delete from resource_references where source_id = any($1)".to_owned(),
                "insert into resource_references (source_id, ref_type, target_id)
                 select * from unnest($1::uuid[], $2::text[], $3::uuid[])"
                    .to_owned(),
                "delete from resources where id = any($1)".to_owned(),
                "delete from resource_status where resource_id = any($1)".to_owned(),
                "insert into kind_counts (kind, active, finalizing, pending_active, pending_finalizing)
                 select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
                 on conflict (kind) do update
                 set active = kind_counts.active + excluded.active,
                     finalizing = kind_counts.finalizing + excluded.finalizing,
                     pending_active = kind_counts.pending_active + excluded.pending_active,
                     pending_finalizing = kind_counts.pending_finalizing + excluded.pending_finalizing"
                    .to_owned(),
                // Every replica hears of it once it is committed.
                format!(
                    "with added as (
                         insert into changes
                             (version, resource_id, kind, at, actor, request_id, entries, size, undo, last,
                              tenancy, touched)
                         select * from unnest(
                             $1::bigint[], $2::uuid[], $3::text[], $4::timestamptz[], $5::text[], $6::text[],
                             $7::text[], $8::integer[], $9::text[], $10::text[], $11::text[],
                             $12::integer[])
                         returning version
                     )
                     select pg_notify('{CHANNEL}', max(version)::text) from added"
                ),
                // One that is there is too old to count.
                "insert into retries (key, body, at, answer)
                 select * from unnest($1::bytea[], $2::bytea[], $3::timestamptz[], $4::text[])
                 on conflict (key) do update
                 set body = excluded.body, at = excluded.at, answer = excluded.answer"
                    .to_owned(),
                "update feed set version = $1, commits = $2".to_owned(),
                // Fails unless the feed is where it is expected, and with it everything behind it in the
                // flight: a division by zero is the one error that a plain statement can raise at will.
                format!(
                    "with advanced as (
                         update feed set version = $1, commits = $2
                         where version = $3 and commits = $4 and ({OURS} or not $5)
                         returning set_config('hyperfleet.commits', commits::text, false)
                     )
                     select 1 / count(*) from advanced"
                ),
            ],
        )
        .await?;
        Ok(Self {
            insert_resources,
            insert_status,
            update_resources,
            update_status,
            refresh_status,
            delete_facets,
            insert_facets,
            change_facet_counts,
            delete_facet_counts,
            insert_reports,
            update_reports,
            move_reports,
            delete_reports,
            delete_references,
            insert_references,
            delete_resources,
            delete_status,
            change_counts,
            insert_changes,
            keep_answers,
            advance_feed,
            claim_feed,
        })
    }
}

/// Whether this session itself brought the feed to where it is. Each commit that claims the feed notes down in the
/// session where it left it; PostgreSQL forgets the note if the commit fails. By its numbers alone, another
/// replica's commit could look like one of ours that failed.
pub(super) const OURS: &str = "coalesce(current_setting('hyperfleet.commits', true) = commits::text, false)";

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
pub(super) async fn persist(session: &Session, set: &WorkingSet, feed: Feed) -> Result<(), Failure> {
    let statements = &session.persist;
    let differences = Differences::of(set)?;
    let (Feed::Locked { left } | Feed::Expected { left, .. }) = &feed;
    let mut position: Vec<&(dyn ToSql + Sync)> = vec![&left.version.0, &left.commits];
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
    let refreshed = RefreshedColumns::of(refreshed);
    let (old_facets, new_facets) = (FacetColumns::of(&facets.gone), FacetColumns::of(&facets.new));
    let facet_counts = FacetCountColumns::of(&facets.counts);
    let new_reports = ReportColumns::of(&differences.new_reports);
    let changed_reports = ReportColumns::of(&differences.changed_reports);
    let moved_reports = ReportColumns::times_of(&differences.moved_reports);
    let changes = ChangeColumns::of(set);
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
        flight.push((&statements.update_status, moved_status.all()));
    }
    if !refreshed.ids.is_empty() {
        flight.push((&statements.refresh_status, refreshed.all()));
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
    if !set.changes().is_empty() {
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
