//! Raises the limit of open files. Every connection takes a file descriptor, and most systems allow a process 1,024 by
//! default, a tenth of the connections that a listener accepts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For files, other listeners and everything else that is open.
const OTHERS: u64 = 1_024;

/// Raises the limit to what `connections`, incoming and outgoing, need, and warns if that is not allowed. It is not raised
/// further, because child processes inherit it, and some programs iterate over every possible descriptor.
pub(crate) fn raise_limit(connections: usize) {
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
