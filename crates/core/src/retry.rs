//! Safe retries. A caller that names a key may send the same request again and gets the first answer, whatever became
//! of the connection in between. Answers are kept in the transaction of what they answer.

use crate::{Snapshot, Timestamp};

/// A SHA-256.
pub type Fingerprint = [u8; 32];

/// How long an answer is kept, in microseconds: a day.
pub const KEPT_FOR: i64 = 24 * 3600 * 1_000_000;

/// A request that may come again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Of the caller, the path and the key that the caller named.
    pub key: Fingerprint,
    /// Of what is asked for.
    pub body: Fingerprint,
}

/// What was answered to a request that may come again.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptAnswer {
    /// Of what was asked for.
    pub body: Fingerprint,
    /// When.
    pub at: Timestamp,
    /// The resource as it was answered.
    pub answer: Box<Snapshot>,
}
