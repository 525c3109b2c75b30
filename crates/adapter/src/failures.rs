//! Failures that simulated adapters report, by what the name of the adapter suggests.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    /// Whether the spec was applied and only its result is missing.
    pub(crate) is_applied: bool,
    /// Whether the adapter itself is healthy.
    pub(crate) is_healthy: bool,
}

const fn refused(reason: &'static str, message: &'static str) -> Failure {
    Failure { reason, message, is_applied: false, is_healthy: true }
}

const fn pending(reason: &'static str, message: &'static str) -> Failure {
    Failure { reason, message, is_applied: true, is_healthy: true }
}

const fn broken(reason: &'static str, message: &'static str) -> Failure {
    Failure { reason, message, is_applied: false, is_healthy: false }
}

const NAMES: &[Failure] = &[
    pending("ZoneNotDelegated", "the parent zone has no NS records for this name yet"),
    refused("RecordConflict", "a record of this name belongs to somebody else"),
    broken("NameServerUnreachable", "the name server did not answer an update within 5s"),
];

const NETWORKS: &[Failure] = &[
    refused("SubnetExhausted", "no free range of this size is left in the network"),
    pending("PeeringPending", "the other side has not accepted the peering yet"),
    refused("RouteQuotaExceeded", "the limit of 200 routes is reached"),
];

const MACHINES: &[Failure] = &[
    refused("InsufficientCapacity", "the region has no machines of this type left"),
    pending("BootTimeout", "2 of 3 machines did not come up within 10m"),
    refused("QuotaExceeded", "the limit of 64 cores is reached"),
];

const CHECKS: &[Failure] = &[
    refused("QuotaInsufficient", "the account allows fewer cores than the spec asks for"),
    refused("PermissionMissing", "the account may not create machines in this region"),
    refused("RegionUnavailable", "the region takes no new clusters at present"),
];

const OTHERS: &[Failure] = &[
    broken("BackendUnavailable", "the backend answered 503 three times"),
    refused("RateLimited", "the backend takes no more requests for now"),
    pending("Timeout", "the change was sent, but its result did not show in time"),
];

/// The failure for a random number from 0 up to 1.
pub(crate) fn choose(adapter: &str, draw: f64) -> Failure {
    let mentions = |words: &[&str]| words.iter().any(|word| adapter.contains(word));
    let all = match adapter {
        _ if mentions(&["dns", "name", "domain"]) => NAMES,
        _ if mentions(&["net", "vpc", "route", "peer"]) => NETWORKS,
        _ if mentions(&["machine", "node", "compute", "vm"]) => MACHINES,
        _ if mentions(&["valid", "check", "quota", "policy"]) => CHECKS,
        _ => OTHERS,
    };
    all[((draw * all.len() as f64) as usize).min(all.len() - 1)]
}
