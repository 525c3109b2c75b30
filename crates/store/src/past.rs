//! The past as the store reads it: pages of a timeline, and the states that a resource had before. Both stores keep
//! changes the same way, so what is asked of them and what is made of the rows is here; how rows are fetched is not.

use hyperfleet_core::{Catalog, Change, RawJson, Resource, Snapshot, Timestamp, Undo, Version, json_text};

use crate::failure::Failure;
use crate::packed::Dictionaries;

/// What a change tells and keeps, packed: its entries, the way back, and what was left.
pub(crate) fn pack(dictionaries: &Dictionaries, change: &Change) -> Result<Vec<u8>, Failure> {
    let entries = json_text(&change.entries);
    let (undo, last) = (change.undo.as_ref().map(json_text), change.last.as_ref().map(json_text));
    dictionaries.pack([Some(&entries), undo.as_deref(), last.as_deref()])
}

/// How many changes a step back through time reads.
pub(crate) const STRIDE: i64 = 200;

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
    pub items: Vec<Happening>,
    /// Whether the timeline goes on behind it.
    pub more: bool,
}

/// One entry of a timeline, with its circumstances.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// The version that the resource got.
    pub version: Version,
    /// The place of the entry among those of its version.
    pub index: u64,
    /// When.
    pub at: Timestamp,
    /// Who asked.
    pub actor: String,
    /// The request it came with.
    pub request_id: String,
    /// What happened: a [`hyperfleet_core::Entry`] as it is kept.
    pub entry: RawJson,
}

/// What a resource was at the ends of generations.
#[derive(Debug)]
pub struct Past {
    /// What it is, or was when it went.
    pub newest: Resource,
    /// What it was at the end of each generation asked for; or else the oldest generation of which that is still known.
    pub at: Vec<Result<Resource, i64>>,
}

impl Past {
    pub(crate) fn new(newest: Resource) -> Self {
        Self { newest, at: Vec::new() }
    }

    /// Takes in how far back the way to a generation led.
    pub(crate) fn reached(&mut self, state: &Resource, generation: i64) {
        let found = state.generation == generation;
        self.at.push(if found { Ok(state.clone()) } else { Err(state.generation) });
    }
}

/// The changes of a resource that hold a slice. Of the parameters the first is the resource, then come those of
/// [`Bounds`]. `up_to` is how a store finds the changes of a resource up to a version, newest first, by
/// changes_by_resource. What a change without entries did is told by no timeline.
pub(crate) fn slice_statement(mark: char, (up_to, newest_first): (&str, &str)) -> String {
    let slice = "select version, at, actor, request_id, packed, entries, visible, upto from (
            select *, cast(sum(visible) over (order by version desc) as bigint) as upto from (
                select version, at, actor, request_id, packed, entries,
                       case when version = ?2 and size > cast(?3 as bigint) then ?3 else size end as visible
                from changes where UP_TO and size > 0 order by NEWEST_FIRST limit ?4
            ) newest
        ) counted
        where upto > ?5 and upto - visible <= ?6";
    slice.replace('?', &mark.to_string()).replace("UP_TO", up_to).replace("NEWEST_FIRST", newest_first)
}

/// What is bound to the statement of a slice, besides the resource, in this order.
pub(crate) struct Bounds {
    /// The entry before which the slice begins: its version, and its place there.
    pub(crate) version: i64,
    pub(crate) index: i64,
    /// How many changes can matter.
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
        // Each holds an entry at least, but for the one that the slice begins in.
        Self { version, index, changes: behind.saturating_add(2), first, behind }
    }
}

/// A change that holds entries of a slice.
pub(crate) struct TimelineRow<'a> {
    pub(crate) version: i64,
    pub(crate) at: Timestamp,
    pub(crate) actor: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) packed: Option<&'a [u8]>,
    /// Where they are not packed.
    pub(crate) entries: Option<&'a str>,
    /// How many of its entries are at or behind where the slice begins.
    pub(crate) visible: i64,
    /// The same with all newer changes.
    pub(crate) upto: i64,
}

impl TimelinePage {
    pub(crate) fn new(version: i64, total: Option<i64>) -> Self {
        let total = total.map(|total| total as u64);
        Self { version: Version(version), total, items: Vec::new(), more: false }
    }

    /// Takes in the next older change.
    pub(crate) fn take(
        &mut self,
        dictionaries: &Dictionaries,
        bounds: &Bounds,
        row: &TimelineRow<'_>,
    ) -> Result<(), Failure> {
        let [entries, _, _] = dictionaries.texts(row.packed, [row.entries, None, None])?;
        let entries: Vec<RawJson> = RawJson::from_stored(entries.unwrap_or_default()).parse()?;
        let visible = usize::try_from(row.visible).unwrap_or_default();
        let newest_first =
            entries.into_iter().enumerate().take(visible).collect::<Vec<_>>().into_iter().rev();
        for (position, (index, entry)) in (row.upto - row.visible..).zip(newest_first) {
            if position < bounds.first {
                continue;
            }
            if position == bounds.behind {
                self.more = true;
                break;
            }
            self.items.push(Happening {
                version: Version(row.version),
                index: index as u64,
                at: row.at,
                actor: row.actor.to_owned(),
                request_id: row.request_id.to_owned(),
                entry,
            });
        }
        Ok(())
    }
}

/// Undoes one change of a resource; whether there was a way back. Changes never change, so the way may be read in
/// steps: each leads on from the version that the one before ended at.
pub(crate) fn step_back(
    dictionaries: &Dictionaries,
    state: &mut Resource,
    version: i64,
    packed: Option<&[u8]>,
    undo: Option<&str>,
) -> Result<bool, Failure> {
    if version != state.version.0 {
        return Ok(false);
    }
    let [_, undo, _] = dictionaries.texts(packed, [None, undo, None])?;
    let Some(undo) = undo else { return Ok(false) };
    *state = RawJson::from_stored(undo).parse::<Undo>()?.of(state);
    Ok(true)
}

/// What was left of a resource, by its last change.
pub(crate) fn last(
    catalog: &Catalog,
    dictionaries: &Dictionaries,
    packed: Option<&[u8]>,
    last: Option<&str>,
) -> Result<Option<Resource>, Failure> {
    let [_, _, last] = dictionaries.texts(packed, [None, None, last])?;
    let Some(last) = last else { return Ok(None) };
    Ok(RawJson::from_stored(last).parse::<Snapshot>()?.into_resource(catalog))
}
