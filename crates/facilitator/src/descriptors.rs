//! How many connections the system lets this process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// So many of `wanted` connections as there are file descriptors for. Half of the descriptors are left to RPC endpoints, the
/// store and files: a request in work needs one there for the one it has here. The soft limit is raised for them as far as
/// the hard one allows.
pub(crate) fn room_for(wanted: usize) -> usize {
    let needed = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_mul(2);
    let limit = getrlimit(Resource::Nofile);
    let possible = limit.maximum.map_or(needed, |hard| hard.min(needed));
    let raised = Rlimit { current: Some(possible), maximum: limit.maximum };
    let descriptors = match limit.current {
        Some(soft) if soft < possible && setrlimit(Resource::Nofile, raised).is_ok() => possible,
        Some(soft) => soft,
        None => needed,
    };
    let room = usize::try_from(descriptors / 2).unwrap_or(usize::MAX).clamp(1, wanted);
    if room < wanted {
        tracing::warn!(
            descriptors,
            connections = room,
            "too few file descriptors for server.connections_max; raise the limit (ulimit -n)"
        );
    }
    room
}
