//! When the faults are over and adapters run, nothing stays finalizing and nothing stays unreconciled.

use super::replay::Replay;
use super::{Check, Findings};
use crate::history::EventKind;

pub(super) fn check(replay: &Replay<'_>, findings: &mut Findings) {
    for change in replay.last.values().filter(|change| change.kind != EventKind::Deleted) {
        let fault = match change {
            _ if change.is_finalizing => "is still finalizing",
            _ if !change.is_reconciled => "is still not reconciled",
            _ => continue,
        };
        findings.add(Check::Deletions, || {
            format!(
                "{} {fault} at generation {}, version {}",
                change.resource, change.generation, change.version
            )
        });
    }
}
