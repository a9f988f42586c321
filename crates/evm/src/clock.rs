//! The only reader of the clocks.

use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// For the ages of what endpoints did.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Seconds since the epoch: how far blocks are from our own time.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
