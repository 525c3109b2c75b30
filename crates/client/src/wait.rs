//! Waiting for a condition of one resource, by `waitFor`, or by polling a server without it.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::path::ItemPath;
use crate::request::Request;
use crate::resource::Resource;
use crate::send;

/// How long one request waits, because proxies cut silent connections.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often a server without `waitFor` is polled.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The outcome of a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Waited {
    /// The condition holds.
    Holds(Resource),
    /// The resource does not exist.
    Gone,
    /// The condition does not hold at the deadline.
    TimedOut(Resource),
}

/// Waits until a condition has a status (`Reconciled=True`), or until the resource is gone (`deleted`).
pub(crate) async fn wait(
    client: &Client,
    item: &ItemPath,
    awaited: &str,
    timeout: Duration,
) -> Result<Waited, Error> {
    let condition = match awaited.split_once('=') {
        Some((kind, status)) => Some((kind, status)),
        None if awaited == "deleted" => None,
        None => {
            return Err(Error::Invalid(format!("{awaited:?} is neither Condition=Status nor deleted")));
        }
    };
    let deadline = Instant::now() + timeout;
    loop {
        let slice = MAX_WAIT.min(deadline.saturating_duration_since(Instant::now()));
        let request = Request::wait(item, awaited, slice);
        let answer = send::within(client, &request, slice.saturating_add(client.shared.timeout)).await?;
        if matches!(answer.status, StatusCode::NO_CONTENT | StatusCode::NOT_FOUND) {
            return Ok(Waited::Gone);
        }
        let answer = answer.accepted()?;
        let resource = answer.resource()?;
        let holds = |(kind, status): (&str, &str)| {
            resource.condition(kind).is_some_and(|condition| condition.status.name() == status)
        };
        if condition.is_some_and(holds) {
            return Ok(Waited::Holds(resource));
        }
        // A stopping server answers early, and one without `waitFor` at once.
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Waited::TimedOut(resource));
        }
        tokio::time::sleep(POLL_INTERVAL.min(left)).await;
    }
}
