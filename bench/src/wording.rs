//! What is said to and about the clusters of a fleet, as bytes ready to send.

use std::io::{Result, Write as _};

use hyperfleet_core::Timestamp;

use crate::questions::FEW;
use crate::workload::{CLUSTERS, write_body};

/// What an adapter says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Says {
    Done,
    Failed,
    CleanedUp,
}

/// One report.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) adapter: &'a str,
    pub(crate) says: Says,
    pub(crate) generation: u64,
    /// Which of its reports it is.
    pub(crate) round: i64,
    pub(crate) time: Timestamp,
}

/// A new cluster. Its number in a fleet of `clusters` decides its labels: a quarter is in production, ten are of the
/// team of few.
pub(crate) fn create(bytes: &mut Vec<u8>, name: &str, number: usize, clusters: usize) -> Result<()> {
    let environment = if number.is_multiple_of(4) { "production" } else { "staging" };
    let team = if number % (clusters / FEW).max(1) == 1 { "few" } else { "fleet" };
    let body = format!(
        r#"{{"kind":"Cluster","name":"{name}","spec":{{"region":"eu-west-1","version":"4.17","nodes":3,"network":{{"pod_cidr":"10.128.0.0/14"}}}},"labels":{{"environment":"{environment}","team":"{team}"}}}}"#
    );
    write_body(bytes, format_args!("POST {CLUSTERS}"), "application/json", &body)
}

/// Another number of nodes.
pub(crate) fn patch(bytes: &mut Vec<u8>, id: &str, nodes: u64) -> Result<()> {
    let body = format!(r#"{{"spec":{{"nodes":{nodes}}}}}"#);
    write_body(bytes, format_args!("PATCH {CLUSTERS}/{id}"), "application/merge-patch+json", &body)
}

pub(crate) fn delete(bytes: &mut Vec<u8>, id: &str) -> Result<()> {
    write!(bytes, "DELETE {CLUSTERS}/{id} HTTP/1.1\r\nhost: bench\r\n\r\n")
}

/// The same words as long as nothing changes, so that most reports only move times.
pub(crate) fn report(bytes: &mut Vec<u8>, id: &str, report: &Report<'_>) -> Result<()> {
    let Report { adapter, says, generation, round, time } = report;
    let (available, reason, message) = match says {
        Says::Done => ("True", "JobSucceeded", format!("Generation {generation} is applied")),
        Says::Failed => ("False", "QuotaExceeded", format!("Attempt {round} failed: no quota left")),
        Says::CleanedUp => ("False", "CleanedUp", "Nothing is left".to_owned()),
    };
    let more = match says {
        Says::CleanedUp => r#",{"type":"Finalized","status":"True","reason":"CleanedUp"}"#,
        Says::Done | Says::Failed => "",
    };
    let body = format!(
        r#"{{"adapter":"{adapter}","observed_generation":{generation},"observed_time":"{time}","conditions":[{{"type":"Available","status":"{available}","reason":"{reason}","message":"{message}"}},{{"type":"Applied","status":"True","reason":"ManifestsApplied","message":"All manifests were applied to the management cluster"}},{{"type":"Health","status":"True","reason":"Healthy","message":"The adapter works without errors"}}{more}],"data":{{"job":"{adapter}-job","region":"eu-west-1","checks":{{"quota":"passed","permissions":"passed","network":"passed"}},"duration_seconds":42}}}}"#
    );
    write_body(bytes, format_args!("PUT {CLUSTERS}/{id}/statuses"), "application/json", &body)
}
