//! Waiting until one resource is where somebody wants it. The server is asked to answer when it is; a server that
//! cannot is asked again and again.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::path::ItemPath;
use crate::request::Request;
use crate::resource::Resource;

/// How long one request waits: short enough for whatever cuts quiet connections on the way.
const SLICE: Duration = Duration::from_secs(30);
/// How often a server that cannot wait is asked.
const PACE: Duration = Duration::from_secs(1);

/// What came of waiting.
#[derive(Debug, Clone, PartialEq)]
pub enum Waited {
    /// What was awaited holds.
    Holds(Resource),
    /// There is no such resource, or none any more.
    Gone,
    /// It does not hold, and the time is over.
    TimedOut(Resource),
}

impl Request {
    /// Reads a resource once `awaited` holds, or when the time is over.
    pub fn wait(item: &ItemPath, awaited: &str, timeout: Duration) -> Self {
        let timeout = format!("{}ms", timeout.as_millis().max(1));
        Self::get(item.to_string()).param("waitFor", awaited).param("timeout", &timeout)
    }
}

impl Client {
    /// Waits until a condition has a status (`Reconciled=True`), or until the resource is gone (`deleted`).
    pub async fn get_waiting(
        &self,
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
            let slice = SLICE.min(deadline.saturating_duration_since(Instant::now()));
            let request = Request::wait(item, awaited, slice);
            let answer = self.send_within(&request, slice.saturating_add(self.shared.timeout)).await?;
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
            // A server that stops ends all waiting early, and one that knows no waiting answers at once.
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::TimedOut(resource));
            }
            tokio::time::sleep(PACE.min(left)).await;
        }
    }
}
