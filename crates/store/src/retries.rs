//! Kept answers as both stores keep them.

use hyperfleet_core::{Fingerprint, KeptAnswer, Timestamp};

use crate::failure::{Failure, FailureKind};

/// Reads a row.
pub(crate) fn read(
    key: &[u8],
    body: &[u8],
    at: Timestamp,
    answer: &str,
) -> Result<(Fingerprint, KeptAnswer), Failure> {
    let defect = |what: &str| Failure::new(FailureKind::Defect, format!("a kept answer has no good {what}"));
    let fingerprint = |bytes: &[u8], what| Fingerprint::try_from(bytes).map_err(|_| defect(what));
    let answer = serde_json::from_str(answer).map_err(|_| defect("text"))?;
    Ok((fingerprint(key, "key")?, KeptAnswer { body: fingerprint(body, "body")?, at, answer }))
}
