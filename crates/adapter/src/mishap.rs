//! What can go wrong with somebody's work, in words that people know from the real thing. The words of an adapter fit
//! what its name says that it does.

/// A failure as it is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mishap {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    /// Whether the wish was carried out and only its result is not there yet.
    pub(crate) is_applied: bool,
    /// Whether the adapter itself can do its work.
    pub(crate) is_healthy: bool,
}

const fn refused(reason: &'static str, message: &'static str) -> Mishap {
    Mishap { reason, message, is_applied: false, is_healthy: true }
}

const fn pending(reason: &'static str, message: &'static str) -> Mishap {
    Mishap { reason, message, is_applied: true, is_healthy: true }
}

const fn broken(reason: &'static str, message: &'static str) -> Mishap {
    Mishap { reason, message, is_applied: false, is_healthy: false }
}

const NAMES: &[Mishap] = &[
    pending("ZoneNotDelegated", "the parent zone has no NS records for this name yet"),
    refused("RecordConflict", "a record of this name belongs to somebody else"),
    broken("NameServerUnreachable", "the name server did not answer an update within 5s"),
];

const NETWORKS: &[Mishap] = &[
    refused("SubnetExhausted", "no free range of this size is left in the network"),
    pending("PeeringPending", "the other side has not accepted the peering yet"),
    refused("RouteQuotaExceeded", "the limit of 200 routes is reached"),
];

const MACHINES: &[Mishap] = &[
    refused("InsufficientCapacity", "the region has no machines of this type left"),
    pending("BootTimeout", "2 of 3 machines did not come up within 10m"),
    refused("QuotaExceeded", "the limit of 64 cores is reached"),
];

const CHECKS: &[Mishap] = &[
    refused("QuotaInsufficient", "the account allows fewer cores than the spec asks for"),
    refused("PermissionMissing", "the account may not create machines in this region"),
    refused("RegionUnavailable", "the region takes no new clusters at present"),
];

const OTHERS: &[Mishap] = &[
    broken("BackendUnavailable", "the backend answered 503 three times"),
    refused("RateLimited", "the backend takes no more requests for now"),
    pending("Timeout", "the change was sent, but its result did not show in time"),
];

/// The mishap of a draw from 0 up to 1.
pub(crate) fn drawn(adapter: &str, draw: f64) -> Mishap {
    let speaks_of = |words: &[&str]| words.iter().any(|word| adapter.contains(word));
    let all = match adapter {
        _ if speaks_of(&["dns", "name", "domain"]) => NAMES,
        _ if speaks_of(&["net", "vpc", "route", "peer"]) => NETWORKS,
        _ if speaks_of(&["machine", "node", "compute", "vm"]) => MACHINES,
        _ if speaks_of(&["valid", "check", "quota", "policy"]) => CHECKS,
        _ => OTHERS,
    };
    all[((draw * all.len() as f64) as usize).min(all.len() - 1)]
}
