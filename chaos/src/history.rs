//! What clients recorded, as plain data. Checks compare it with the feed when the load has ended. Times are microseconds
//! since the run began, by one monotonic clock.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// Microseconds since the run began.
pub(crate) type Micros = u64;

/// Names one operation. The resource that it changes carries the name, so the feed tells which operation did what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OperationId {
    pub(crate) client: u16,
    pub(crate) number: u32,
}

impl fmt::Display for OperationId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "c{}-{}", self.client, self.number)
    }
}

impl FromStr for OperationId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (client, number) = text.strip_prefix('c').and_then(|text| text.split_once('-')).ok_or(())?;
        Ok(Self { client: client.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}

/// The value of a label that a watch selects by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Red,
    Blue,
}

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// POST with an idempotency key, repeated with the same key until it is answered.
    Create,
    /// PATCH with `If-Match` that sets the counter to the value read plus one.
    Increment { to: u64 },
    /// PATCH without `If-Match` that writes the client's own member of the spec.
    Mark,
    /// PATCH of labels.
    Label(Tone),
    /// DELETE, repeated until it is answered.
    Delete,
}

/// What the client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done; the version is that of the ETag.
    Acknowledged { version: Option<u64> },
    /// It was not done and never will be.
    Refused,
    /// No answer, or one that leaves it open: it may be done, once, now or later.
    Unknown,
}

/// A write and its outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) id: OperationId,
    pub(crate) action: Action,
    /// Unknown for a creation that was never answered.
    pub(crate) resource: Option<Uuid>,
    pub(crate) started: Micros,
    pub(crate) ended: Micros,
    pub(crate) outcome: Outcome,
}

impl Operation {
    pub(crate) fn is_acknowledged(&self) -> bool {
        matches!(self.outcome, Outcome::Acknowledged { .. })
    }
}

/// Reports of one adapter on one resource, sent one after the other and numbered from 1.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) adapter: String,
    pub(crate) resource: Uuid,
    /// Whether its reports carry `observed_time`.
    pub(crate) is_timed: bool,
}

/// What a reporter was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    Stored,
    Discarded,
    Refused,
    Unknown,
}

/// One report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// Which of [`History::streams`].
    pub(crate) stream: usize,
    pub(crate) number: u64,
    pub(crate) outcome: Reported,
}

/// A list read page by page, ordered by name.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) started: Micros,
    pub(crate) ended: Micros,
    pub(crate) ids: Vec<Uuid>,
}

/// The version that a list was read at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) started: Micros,
    pub(crate) ended: Micros,
    pub(crate) version: u64,
}

/// What a watch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything, finalizing resources included.
    Everything,
    /// Resources that are not finalizing.
    Active,
    /// Active clusters with the label `tone=red`.
    Red,
    /// NodePools, finalizing ones included.
    NodePools,
}

/// What an event of a watch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// An event that a watcher received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: EventKind,
    pub(crate) digest: u64,
}

/// How a watch began.
#[derive(Clone, Debug)]
pub(crate) enum Beginning {
    /// After a version.
    After(u64),
    /// With the present state, as id and digest of each object, completed by a bookmark.
    Present { objects: Vec<(Uuid, u64)>, bookmark: u64 },
}

impl Beginning {
    /// Changes come from behind this version.
    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::After(version) | Self::Present { bookmark: version, .. } => *version,
        }
    }
}

/// What one watcher received, over all of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) view: View,
    pub(crate) beginning: Beginning,
    pub(crate) events: Vec<Event>,
    /// It has everything up to this version.
    pub(crate) upto: u64,
}

/// All that clients recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) operations: Vec<Operation>,
    /// The resource in each answer to a POST with a key, of repeated ones too.
    pub(crate) keys: Vec<(OperationId, Uuid)>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) reports: Vec<Report>,
    pub(crate) walks: Vec<Walk>,
    pub(crate) reads: Vec<Read>,
    pub(crate) watches: Vec<Watch>,
    /// When writes and reports were acknowledged.
    pub(crate) acknowledged: Vec<Micros>,
    /// Answers by their status; 0 counts those that did not come.
    pub(crate) answers: BTreeMap<u16, u64>,
    /// Answers that no fault explains.
    pub(crate) unexpected: Vec<String>,
}
