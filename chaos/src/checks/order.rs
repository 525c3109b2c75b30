//! Versions respect what clients can observe: what was acknowledged before another request began has a lower version
//! than that request's write, and a list shows it.

use super::replay::Replay;
use super::{Check, Findings};
use crate::history::{Action, History, Micros};

/// A request at a version.
struct Point {
    started: Micros,
    /// When its version became known to a client.
    ended: Option<Micros>,
    version: u64,
    is_read: bool,
    name: String,
}

pub(super) fn check(history: &History, replay: &Replay<'_>, findings: &mut Findings) {
    let writes = history.operations.iter().filter(|operation| operation.action != Action::Delete);
    let writes = writes.filter_map(|operation| {
        Some(Point {
            started: operation.started,
            ended: operation.is_acknowledged().then_some(operation.ended),
            version: *replay.executed.get(&operation.id)?,
            is_read: false,
            name: operation.id.to_string(),
        })
    });
    let reads = history.reads.iter().map(|read| Point {
        started: read.started,
        ended: Some(read.ended),
        version: read.version,
        is_read: true,
        name: "a list".to_owned(),
    });
    let mut by_start: Vec<Point> = writes.chain(reads).collect();
    by_start.sort_unstable_by_key(|point| point.started);
    let mut by_end: Vec<&Point> = by_start.iter().filter(|point| point.ended.is_some()).collect();
    by_end.sort_unstable_by_key(|point| point.ended);

    let mut known = by_end.into_iter().peekable();
    let mut newest: Option<&Point> = None;
    for point in &by_start {
        while let Some(earlier) = known.next_if(|earlier| earlier.ended < Some(point.started)) {
            if newest.is_none_or(|newest| earlier.version > newest.version) {
                newest = Some(earlier);
            }
        }
        let Some(newest) = newest else { continue };
        // A list after a list may show the same version, and a list after a write that write.
        let is_behind =
            if point.is_read { point.version < newest.version } else { point.version <= newest.version };
        if is_behind {
            findings.add(Check::Order, || {
                let (version, before) = (point.version, newest.version);
                format!("{} at version {version} began after {} at version {before}", point.name, newest.name)
            });
        }
    }
}
