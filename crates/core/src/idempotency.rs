//! Idempotent requests. A client that names an idempotency key may send the same request again and gets the response
//! of the first execution. The response is recorded in the transaction of the command itself.

use std::time::Duration;

use crate::{Snapshot, Timestamp};

/// A SHA-256.
pub type Fingerprint = [u8; 32];

/// How long a response is recorded: a day.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Identifies a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Fingerprint of the caller, the path and the key.
    pub key: Fingerprint,
    /// Fingerprint of the request's content.
    pub body: Fingerprint,
    /// Where the caller gave the key, for its faults.
    pub field: &'static str,
}

/// The recorded response of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq)]
pub struct IdempotencyRecord {
    /// Fingerprint of the request's content.
    pub body: Fingerprint,
    /// When the request was executed.
    pub at: Timestamp,
    /// The resource in the response.
    pub response: Box<Snapshot>,
}
