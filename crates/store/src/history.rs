//! History: timelines, and past generations of a resource. Both stores share the statements and what is made of the
//! rows.

use hyperfleet_core::{
    Catalog, Change, PageBytes, RawJson, Resource, Snapshot, Timestamp, Undo, Version, json_text,
};

use crate::codec::compression::{compress, decompress};
use crate::failure::Failure;

/// The body of a change: its entries, the undo, and what was left of the resource.
pub(crate) fn body(change: &Change) -> Result<Vec<u8>, Failure> {
    let entries = json_text(&change.entries);
    let (undo, last) = (change.undo.as_ref().map(json_text), change.last.as_ref().map(json_text));
    compress([Some(&entries), undo.as_deref(), last.as_deref()])
}

/// How many changes one read fetches on the way back to a past generation.
pub(crate) const UNDO_BATCH: i64 = 200;

/// Which part of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineQuery {
    /// Where the slice begins.
    pub start: TimelineStart,
    /// How many entries to return.
    pub limit: u64,
    /// Whether to count the whole timeline.
    pub count: bool,
}

/// Where a slice of a timeline begins, counted from the newest entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimelineStart {
    /// After this many entries.
    Offset(u64),
    /// Before an entry: the one with this number among those of a version.
    Before(Version, u64),
}

/// A slice of a timeline, newest entry first, from one snapshot.
#[derive(Debug, PartialEq)]
pub struct TimelinePage {
    /// The newest version in the snapshot.
    pub version: Version,
    /// How many entries are kept, if that was asked for.
    pub total: Option<u64>,
    /// The slice.
    pub items: Vec<TimelineEntry>,
    /// Whether the timeline goes on behind it.
    pub more: bool,
}

/// One entry of a timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineEntry {
    /// The version that the resource got.
    pub version: Version,
    /// Its index among the entries of its version.
    pub index: u64,
    /// The time of the change.
    pub at: Timestamp,
    /// The identity of the caller.
    pub actor: String,
    /// The id of the request.
    pub request_id: String,
    /// A stored [`hyperfleet_core::Entry`].
    pub entry: RawJson,
}

/// A resource at the ends of past generations.
#[derive(Debug)]
pub struct PastGenerations {
    /// Its newest state, or its last one.
    pub newest: Resource,
    /// Its state at the end of each requested generation, or else the oldest generation that history still has.
    pub at: Vec<Result<Resource, i64>>,
}

impl PastGenerations {
    pub(crate) fn new(newest: Resource) -> Self {
        Self { newest, at: Vec::new() }
    }

    /// Adds the state that undoing changes reached.
    pub(crate) fn reached(&mut self, state: &Resource, generation: i64) {
        let found = state.generation == generation;
        self.at.push(if found { Ok(state.clone()) } else { Err(state.generation) });
    }
}

/// The statement for the changes of a slice. Its parameters are the resource and those of [`Bounds`]. `up_to` is the
/// store's condition for the changes of a resource up to a version, by changes_by_resource. Changes without entries are
/// in no timeline. `body` is a further column, an expression with the column of this name.
pub(crate) fn slice_statement(mark: char, (up_to, newest_first): (&str, &str), body: Option<&str>) -> String {
    let slice = "select version, changed_time, actor, request_id, visible, uptoBODY from (
            select *, cast(sum(visible) over (order by version desc) as bigint) as upto from (
                select version, changed_time, actor, request_idCOLUMN,
                       case when version = ?2 and entry_count > cast(?3 as bigint) then ?3 else entry_count end as visible
                from changes where UP_TO and entry_count > 0 order by NEWEST_FIRST limit ?4
            ) newest
        ) counted
        where upto > ?5 and upto - visible <= ?6";
    let (body, column) = body.map_or(Default::default(), |body| (format!(", {body} as body"), ", body"));
    let slice = slice.replace("BODY", &body).replace("COLUMN", column).replace('?', &mark.to_string());
    slice.replace("UP_TO", up_to).replace("NEWEST_FIRST", newest_first)
}

/// The parameters of a slice after the resource, in this order.
pub(crate) struct Bounds {
    /// The entry before which the slice begins: its version and index.
    pub(crate) version: i64,
    pub(crate) index: i64,
    /// The most changes that a slice can need.
    pub(crate) changes: i64,
    /// The first entry and the one behind the last, counted from there.
    pub(crate) first: i64,
    pub(crate) behind: i64,
}

impl Bounds {
    pub(crate) fn of(query: &TimelineQuery) -> Self {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let (version, index, first) = match query.start {
            TimelineStart::Offset(offset) => (i64::MAX, 0, number(offset)),
            TimelineStart::Before(version, index) => (version.0, number(index), 0),
        };
        let behind = first.saturating_add(number(query.limit));
        // Each has at least one entry, except the one in which the slice begins.
        Self { version, index, changes: behind.saturating_add(2), first, behind }
    }
}

/// A change with entries of a slice.
pub(crate) struct TimelineRow<'a> {
    pub(crate) version: i64,
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) body: &'a [u8],
    /// How many of its entries are not newer than the start of the slice.
    pub(crate) visible: i64,
    /// The same, with those of newer changes.
    pub(crate) upto: i64,
}

impl TimelinePage {
    pub(crate) fn new(version: i64, total: Option<i64>) -> Self {
        let total = total.map(|total| total as u64);
        Self { version: Version(version), total, items: Vec::new(), more: false }
    }

    /// Adds the next older change; false if the page ends in it or before it.
    pub(crate) fn take(
        &mut self,
        bounds: &Bounds,
        bytes: &mut PageBytes<'_>,
        row: &TimelineRow<'_>,
    ) -> Result<bool, Failure> {
        let [entries, _, _] = decompress(row.body)?;
        let entries: Vec<RawJson> = RawJson::from_stored(entries.unwrap_or_default()).parse()?;
        let visible = usize::try_from(row.visible).unwrap_or_default();
        let newest_first =
            entries.into_iter().enumerate().take(visible).collect::<Vec<_>>().into_iter().rev();
        for (position, (index, entry)) in (row.upto - row.visible..).zip(newest_first) {
            if position < bounds.first {
                continue;
            }
            if position == bounds.behind || !bytes.takes(entry.as_str().len() + row.head_size()) {
                self.more = true;
                return Ok(false);
            }
            self.items.push(TimelineEntry {
                version: Version(row.version),
                index: index as u64,
                at: row.at,
                actor: row.actor.to_owned(),
                request_id: row.request_id.to_owned(),
                entry,
            });
        }
        Ok(true)
    }
}

impl TimelineRow<'_> {
    /// Roughly the size of what each entry shows besides itself.
    fn head_size(&self) -> usize {
        self.actor.len() + self.request_id.len() + 256
    }
}

/// Undoes one change of a resource; false if it cannot be undone. Changes are immutable, so they may be read in batches.
pub(crate) fn step_back(state: &mut Resource, version: i64, body: &[u8]) -> Result<bool, Failure> {
    if version != state.version.0 {
        return Ok(false);
    }
    let [_, undo, _] = decompress(body)?;
    let Some(undo) = undo else { return Ok(false) };
    *state = RawJson::from_stored(undo).parse::<Undo>()?.apply(state);
    Ok(true)
}

/// The last state of a deleted resource, from its last change.
pub(crate) fn last(catalog: &Catalog, body: &[u8]) -> Result<Option<Resource>, Failure> {
    let [_, _, last] = decompress(body)?;
    let Some(last) = last else { return Ok(None) };
    Ok(RawJson::from_stored(last).parse::<Snapshot>()?.into_resource(catalog))
}
