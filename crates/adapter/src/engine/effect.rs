//! What the machine asks for, and what it is told.

use std::time::Duration;

use serde_json::Value;

use crate::targets::{ApplyOptions, Observation, Operation, Ownership, Propagation, Query, TargetError};
use crate::task::{Backoff, TargetClient};

/// An effect on the world, or a question to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Read the resource, after a pause. Answered by [`Answer::Read`].
    Read {
        /// The pause.
        after: Duration,
    },
    /// Read what this adapter last reported on it. Answered by [`Answer::LastReport`].
    LastReport,
    /// Call the API. Answered by [`Answer::Called`].
    Call(Call),
    /// Read a file. Answered by [`Answer::File`].
    File {
        /// Its path.
        path: String,
    },
    /// Look for objects. Answered by [`Answer::Observed`], in the order of the lookups.
    Observe(Vec<Lookup>),
    /// Look for objects with our labels of this resource, of every type that the task names. Answered by
    /// [`Answer::Observed`] with one observation.
    Owned,
    /// Apply a manifest. Answered by [`Answer::Applied`].
    Apply(Box<Apply>),
    /// Delete an object. Answered by [`Answer::Deleted`].
    Delete(Box<Delete>),
    /// Send a report on the resource. Answered by [`Answer::Reported`].
    Report(Value),
}

/// The answer to an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The resource; nothing when it is not there.
    Read(Result<Option<Value>, TargetError>),
    /// The report; nothing when there is none.
    LastReport(Result<Option<Value>, TargetError>),
    /// The answer of the API, whatever its status.
    Called(Result<Reply, TargetError>),
    /// The text of the file.
    File(Result<String, String>),
    /// What is known of the objects.
    Observed(Vec<Observation>),
    /// What the apply did, and the object after it.
    Applied(Result<(Operation, Value), TargetError>),
    /// Whether the deletion was accepted.
    Deleted(Result<(), TargetError>),
    /// What became of the report.
    Reported(Result<Stored, TargetError>),
    /// Nothing: the driver could not answer.
    None,
}

/// A request of a task to the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: &'static str,
    /// Path and query, from `/`.
    pub path: String,
    /// Headers besides the configured ones.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
    /// Time for one attempt, if the task says so.
    pub timeout: Option<Duration>,
    /// Further attempts, if the task says so.
    pub retries: Retries,
}

/// How often and how far apart a call is tried again; what is left out is configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    /// Attempts, the first included.
    pub attempts: Option<u32>,
    /// How pauses grow.
    pub backoff: Option<Backoff>,
}

/// An answer of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// A question for objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The target.
    pub client: TargetClient,
    /// The cluster of the target.
    pub cluster: Option<String>,
    /// Which objects.
    pub query: Query,
}

/// A manifest to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Apply {
    /// The target.
    pub client: TargetClient,
    /// The cluster of the target.
    pub cluster: Option<String>,
    /// The manifest.
    pub manifest: Value,
    /// Whose it is.
    pub ownership: Ownership,
    /// How it is applied.
    pub options: ApplyOptions,
}

/// An object to delete.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// The target.
    pub client: TargetClient,
    /// The cluster of the target.
    pub cluster: Option<String>,
    /// The object as it was observed.
    pub object: Value,
    /// What happens to what the object owns.
    pub propagation: Propagation,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The server stored it.
    Stored,
    /// The server has a newer one, or cannot use it.
    Discarded,
    /// The resource is not there.
    Gone,
}
