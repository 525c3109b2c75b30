//! File descriptors. Every connection takes one, and a process is often given fewer than it may take: 1,024 by most
//! systems, where the limit of connections is ten times that.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For files, other listeners and whatever else is open.
const OTHERS: u64 = 1_024;

/// Takes as many as `connections`, accepted and made, need, and warns if that is not allowed. Takes no more than that:
/// whatever this process starts is given as many, and some programs go through all that they could have.
pub fn provide_for(connections: usize) {
    let needed = OTHERS.saturating_add(connections as u64);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let suffices = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if suffices(current) {
        return;
    }
    let wanted = if suffices(maximum) { Some(needed) } else { maximum };
    let raised = setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum }).is_ok();
    if !raised || !suffices(wanted) {
        tracing::warn!(
            connections,
            descriptors = if raised { wanted } else { current },
            remedy = format!(
                "allow {needed} open files (LimitNOFILE, ulimit -n), or lower server.limits.connections"
            ),
            "fewer connections than the limit can be open"
        );
    }
}
