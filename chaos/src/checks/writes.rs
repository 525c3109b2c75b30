//! Every acknowledged write is in the feed at the version that its answer told, and no refused one is.

use super::replay::Replay;
use super::{Check, Findings};
use crate::history::{Action, History, Outcome};

pub(super) fn check(history: &History, replay: &Replay<'_>, findings: &mut Findings) {
    for operation in &history.operations {
        let executed = match operation.action {
            Action::Delete => operation.resource.and_then(|id| replay.deletions.get(&id)),
            _ => replay.executed.get(&operation.id),
        };
        let fault = match (operation.outcome, executed) {
            (Outcome::Acknowledged { .. }, None) => "is acknowledged, and not in the feed".to_owned(),
            // A repeated DELETE is answered with the resource as it has become.
            (Outcome::Acknowledged { version: Some(told) }, Some(version))
                if told != *version && (operation.action != Action::Delete || told < *version) =>
            {
                format!("was told version {told}, and is at {version}")
            }
            (Outcome::Refused, Some(version)) if operation.action != Action::Delete => {
                format!("was refused, and is at version {version}")
            }
            _ => continue,
        };
        findings.add(Check::Writes, || format!("{} {:?} {fault}", operation.id, operation.action));
    }
}
