//! `waitFor` and `timeout`: what a read of one resource waits for, and for how long.

use std::time::Duration;

use hyperfleet_core::{Fault, FaultKind, Status, echo};
use hyperfleet_service::settings::parse_duration;

use super::Query;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// What to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The condition or the deletion to wait for.
    pub(crate) awaited: Awaited,
    /// For how long.
    pub(crate) timeout: Duration,
}

/// The condition to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A condition with a status.
    Condition(String, Status),
    /// The removal of the resource.
    Deleted,
}

/// Reads them.
pub(super) fn wait(query: &mut Query) -> Option<Wait> {
    let awaited = query.take("waitFor").and_then(|text| {
        let awaited = awaited(&text);
        if awaited.is_none() {
            let message = format!(
                "waitFor must be a condition with its status such as Reconciled=True, or deleted, not '{}'",
                echo(&text)
            );
            query.fault("waitFor", message, Some(&text), "format");
        }
        awaited
    });
    let timeout = query.take("timeout").map(|text| (parse_duration(&text), text));
    let timeout = match timeout {
        None => DEFAULT_TIMEOUT,
        Some((Some(timeout), _)) if timeout <= MAX_TIMEOUT => timeout,
        Some((_, text)) => {
            let message = format!("timeout must be a duration such as 30s, up to 10m, not '{}'", echo(&text));
            let fault = Fault::new(FaultKind::Parameter, "timeout", message).given(&text.into());
            query.faults.push(fault.rule("format"));
            return None;
        }
    };
    Some(Wait { awaited: awaited?, timeout })
}

fn awaited(text: &str) -> Option<Awaited> {
    if text == "deleted" {
        return Some(Awaited::Deleted);
    }
    let (kind, status) = text.split_once('=')?;
    let status = [Status::True, Status::False].into_iter().find(|known| known.name() == status)?;
    (!kind.is_empty()).then(|| Awaited::Condition(kind.to_owned(), status))
}
