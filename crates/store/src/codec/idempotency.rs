//! Idempotency records as both stores keep them.

use hyperfleet_core::{Fingerprint, IdempotencyRecord, Timestamp};

use crate::failure::{Failure, FailureKind};

/// A record put together from its columns.
pub(crate) fn record(
    key: &[u8],
    request: &[u8],
    at: Timestamp,
    response: &str,
) -> Result<(Fingerprint, IdempotencyRecord), Failure> {
    let defect =
        |what: &str| Failure::new(FailureKind::Defect, format!("an idempotency record has no good {what}"));
    let fingerprint = |bytes: &[u8], what| Fingerprint::try_from(bytes).map_err(|_| defect(what));
    let response = serde_json::from_str(response).map_err(|_| defect("response"))?;
    Ok((fingerprint(key, "key")?, IdempotencyRecord { body: fingerprint(request, "request")?, at, response }))
}
