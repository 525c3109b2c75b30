//! Writes that leave together, as one statement that advances the feed too: a statement takes PostgreSQL tens of
//! microseconds beside its rows, and where there is one only it is a transaction by itself, without `begin` and `commit`.
//!
//! No two of them may touch the same row, because each sees the tables as they were before the statement. All are carried
//! out or none, and the claim of the feed first, for the rest depends on it.

use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement};

use Write::*;

use super::statements::{OURS, REPORT, insert, ring, rows};
use super::writer::prepare;
use crate::failure::{Failure, FailureKind};

/// What a batch writes, one for each table and way of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    NewResources,
    NewStatuses,
    Resources,
    Statuses,
    Times,
    OldFacets,
    NewFacets,
    FacetCounts,
    Counts,
    NewReports,
    Reports,
    ReportTimes,
    References,
    Changes,
    Answers,
}

/// All of them.
pub(super) const ALL: [Write; 15] = [
    NewResources,
    NewStatuses,
    Resources,
    Statuses,
    Times,
    OldFacets,
    NewFacets,
    FacetCounts,
    Counts,
    NewReports,
    Reports,
    ReportTimes,
    References,
    Changes,
    Answers,
];

/// Which are prepared together, the smaller first: a batch takes the first that has all of its writes, and leaves the
/// others empty. So one that fits costs next to nothing, and any mixture can be written.
const SETS: [&[Write]; 8] = [
    // Reports that only move times, or that say something new.
    &[Times],
    &[Statuses, Reports, Changes],
    // Patches.
    &[Resources, Statuses, Changes],
    // Reports of both sorts.
    &[Times, Statuses, Reports, Changes],
    // Creations.
    &[NewResources, NewStatuses, NewFacets, FacetCounts, Counts, Changes],
    // Patches of what was reconciled.
    &[Resources, Statuses, Changes, OldFacets, NewFacets, FacetCounts, Counts],
    // Reports of every sort: first ones, and such that turn a status.
    &[Times, Statuses, NewReports, Reports, Changes, OldFacets, NewFacets, FacetCounts, Counts],
    &ALL,
];

impl Write {
    pub(super) fn text(self) -> String {
        match self {
            NewResources => insert(
        "resources",
        "id uuid, kind text, name text, owner_id uuid, ancestors text, generation bigint, spec text, labels text,
         refs text, created_time timestamptz, created_by text, updated_time timestamptz, updated_by text,
         deleted_time timestamptz, deleted_by text, tenancy text",
    ),
            NewStatuses => insert(
        "resource_status",
        "resource_id uuid, version bigint, conditions text, pending_since timestamptz, confirmed_after timestamptz,
         tenancy text",
    ),
            Resources => format!(
        "update resources r
         set generation = n.generation, spec = n.spec, labels = n.labels, refs = n.refs,
             updated_time = n.updated_time, updated_by = n.updated_by,
             deleted_time = n.deleted_time, deleted_by = n.deleted_by
         from ({}) n where r.id = n.id",
        rows(
            "id uuid, generation bigint, spec text, labels text, refs text, updated_time timestamptz,
             updated_by text, deleted_time timestamptz, deleted_by text",
        )
    ),
            Statuses => format!(
        "update resource_status s
         set version = n.version, conditions = n.conditions, refreshed = '{{}}',
             pending_since = n.pending_since, confirmed_after = n.confirmed_after
         from ({}) n where s.resource_id = n.id",
        rows(
            "id uuid, version bigint, conditions text, pending_since timestamptz, confirmed_after timestamptz"
        )
    ),
            // An array of arrays cannot be unnested by rows, so each is cut out of one for all.
            Times => format!(
        "update resource_status s
         set confirmed_after = n.confirmed_after, refreshed = ($6::bigint[])[n.last - n.count + 1 : n.last],
             moved = coalesce(s.moved || n.moved::jsonb, n.moved::jsonb, s.moved)
         from ({}) n where s.resource_id = n.id",
        rows("id uuid, confirmed_after timestamptz, moved text, last integer, count integer")
    ),
            OldFacets => format!(
        "delete from resource_facets f using ({}) n
         where f.facet = n.facet and f.created_time = n.created_time and f.resource_id = n.id",
        rows("facet uuid, created_time timestamptz, id uuid")
    ),
            NewFacets => insert("resource_facets", "facet uuid, created_time timestamptz, resource_id uuid"),
            FacetCounts => format!(
        "{} on conflict (facet) do update
         set active = facet_counts.active + excluded.active,
             finalizing = facet_counts.finalizing + excluded.finalizing",
        insert("facet_counts", "facet uuid, active bigint, finalizing bigint")
    ),
            Counts => format!(
        "{} on conflict (kind) do update
         set active = kind_counts.active + excluded.active,
             finalizing = kind_counts.finalizing + excluded.finalizing,
             pending_active = kind_counts.pending_active + excluded.pending_active,
             pending_finalizing = kind_counts.pending_finalizing + excluded.pending_finalizing",
        insert(
            "kind_counts",
            "kind text, active bigint, finalizing bigint, pending_active bigint, pending_finalizing bigint",
        )
    ),
            NewReports => insert("reports", REPORT),
            Reports => format!(
        "update reports r
         set observed_generation = n.observed_generation, last_report_time = n.last_report_time,
             available = n.available, finalized = n.finalized, reason = n.reason,
             message = n.message, packed = n.packed, conditions = '', data = n.data, metadata = n.metadata
         from ({}) n where r.resource_id = n.resource_id and r.adapter = n.adapter",
        rows(REPORT)
    ),
            ReportTimes => format!(
        "update reports r set last_report_time = n.last_report_time
         from ({}) n where r.resource_id = n.id and r.adapter = n.adapter",
        rows("id uuid, adapter text, last_report_time timestamptz")
    ),
            References => insert("resource_references", "source_id uuid, ref_type text, target_id uuid"),
            Changes => insert(
        "changes",
        "version bigint, resource_id uuid, kind text, at timestamptz, actor text, request_id text, packed bytea,
         size integer, tenancy text, touched integer",
    ),
            // One that is there is too old to count.
            Answers => format!(
        "{} on conflict (key) do update
         set body = excluded.body, at = excluded.at, answer = excluded.answer",
        insert("retries", "key bytea, body bytea, at timestamptz, answer text")
    ),
        }
    }
}

/// The sets, prepared on one connection.
pub(super) struct Together(Vec<Set>);

/// Writes that are prepared together.
pub(super) struct Set {
    pub(super) writes: &'static [Write],
    /// For a transaction that has locked the feed: its parameters are where the feed goes, and whether the bell rings.
    pub(super) locked: Statement,
    /// For one that expects to find it somewhere. Three more: where, and whether this session must have brought it there.
    pub(super) claimed: Statement,
}

impl Together {
    pub(super) async fn prepare(client: &Client) -> Result<Self, Failure> {
        let texts = SETS.map(|writes| [statement(writes, ADVANCE, 3), statement(writes, &claim(), 6)]);
        let prepared = try_join_all(texts.map(|texts| prepare(client, texts))).await?;
        let set = |(writes, [locked, claimed]): (_, [Statement; 2])| Set { writes, locked, claimed };
        Ok(Self(SETS.into_iter().zip(prepared).map(set).collect()))
    }

    /// The smallest set that has all of these.
    pub(super) fn with(&self, needed: &[Write]) -> Result<&Set, Failure> {
        let fits = |set: &&Set| needed.iter().all(|write| set.writes.contains(write));
        let none = || Failure::new(FailureKind::Defect, "a batch that no set of writes has room for");
        self.0.iter().find(fits).ok_or_else(none)
    }
}

/// Brings the feed where it goes.
const ADVANCE: &str = "update feed set version = $1, commits = $2";

/// The same, if it is where it is expected.
fn claim() -> String {
    format!("{ADVANCE} where version = $4 and commits = $5 and ({OURS} or not $6)")
}

/// One statement that advances the feed, by the first `taken` parameters, and writes. It fails, and with it everything
/// behind it in the flight, unless the feed is advanced: a division by zero is the one error that a plain statement can
/// raise at will.
fn statement(writes: &[Write], advance: &str, taken: usize) -> String {
    let note = "set_config('hyperfleet.commits', commits::text, false)";
    let ring = ring("version::text");
    let mut text = format!("with advanced as ({advance} returning {note}, case when $3 then {ring} end)");
    let mut taken = taken;
    for (number, write) in writes.iter().enumerate() {
        let (shifted, count) = behind(&write.text(), taken);
        text.push_str(&format!(", write{number} as ({shifted})"));
        taken += count;
    }
    text + " select 1 / count(*) from advanced"
}

/// A statement with its parameters behind so many others, and the number of its own.
fn behind(text: &str, taken: usize) -> (String, usize) {
    let mut pieces = text.split('$');
    let mut shifted = pieces.next().unwrap_or_default().to_owned();
    let mut most = 0;
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = piece[..digits].parse().unwrap_or_default();
        most = most.max(number);
        shifted.push_str(&format!("${}{}", number + taken, &piece[digits..]));
    }
    (shifted, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_sets_come_first_and_the_last_has_every_write() {
        let [.., all] = SETS;
        assert!(SETS.iter().all(|set| set.iter().all(|write| all.contains(write))));
        assert!(SETS.is_sorted_by_key(|set| set.len()));
    }

    #[test]
    fn parameters_move_behind_those_that_are_taken() {
        assert_eq!(behind("a $1 b $12::uuid[], $2", 3), ("a $4 b $15::uuid[], $5".to_owned(), 12));
        assert_eq!(behind("nothing", 3), ("nothing".to_owned(), 0));
    }
}
