//! Every stored report is in the timeline once, in the order in which it was sent, and the newest is what is stored.

use std::collections::HashMap;

use super::{Check, Evidence, Findings, StoredReports};
use crate::history::{Report, Reported, Stream};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut reports = vec![Vec::new(); evidence.history.streams.len()];
    for report in &evidence.history.reports {
        reports[report.stream].push(report);
    }
    for ((stream, stored), reports) in evidence.history.streams.iter().zip(&evidence.stored).zip(&reports) {
        for fault in faults(stream, stored, reports) {
            findings.add(Check::Reports, || format!("{} on {}: {fault}", stream.adapter, stream.resource));
        }
    }
}

fn faults(stream: &Stream, stored: &StoredReports, reports: &[&Report]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for (place, number) in stored.timeline.iter().enumerate() {
        if places.insert(*number, place).is_some() {
            faults.push(format!("report {number} is in the timeline twice"));
        }
    }
    let mut acknowledged = None;
    for report in reports {
        let number = report.number;
        match (report.outcome, places.get(&number)) {
            (Reported::Stored, None) => faults.push(format!("report {number} was stored, and is lost")),
            (Reported::Stored, Some(place)) => {
                if acknowledged.is_some_and(|before| before > *place) {
                    faults.push(format!("report {number} stands before one that was stored before it"));
                }
                acknowledged = Some(*place);
            }
            (Reported::Discarded, _) => {
                faults.push(format!("report {number} is newer than all before it, and was discarded"));
            }
            (Reported::Refused, Some(_)) => {
                faults.push(format!("report {number} was refused, and is stored"));
            }
            (Reported::Refused, None) | (Reported::Unknown, _) => {}
        }
    }
    // A late report with an older time is discarded; without a time it counts as of its arrival.
    if stream.is_timed && !stored.timeline.is_sorted() {
        faults.push("an older report was stored over a newer one".to_owned());
    }
    if stored.last != stored.timeline.last().copied() {
        let (last, told) = (stored.last, stored.timeline.last());
        faults.push(format!("report {last:?} is stored, but the last in the timeline is {told:?}"));
    }
    faults
}
