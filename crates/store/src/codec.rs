//! The stored form of values, the same for both stores.

pub(crate) mod columns;
pub(crate) mod compression;
pub(crate) mod conditions;
pub(crate) mod report;

use hyperfleet_core::{Fingerprint, IdempotencyRecord, Resource, ResourceId, Timestamp};

use crate::failure::{Failure, FailureKind};

/// Reads the column `ancestors`: ids from the root down, joined by `/`. They never change, so a nested path is checked
/// without another query.
pub(crate) fn parse_ancestors(text: &str) -> Result<Vec<ResourceId>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let defect = |id| Failure::new(FailureKind::Defect, format!("'{id}' is no id in resources.ancestors"));
    text.split('/').map(|id| ResourceId::parse(id).ok_or_else(|| defect(id))).collect()
}

/// The column `ancestors`.
pub(crate) fn print_ancestors(resource: &Resource) -> String {
    resource.ancestors.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")
}

/// An idempotency record put together from its columns.
pub(crate) fn idempotency_record(
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
