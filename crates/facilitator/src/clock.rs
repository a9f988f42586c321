//! The only reader of the clocks. Everything else gets `now` as a parameter.

use quittance_protocol::units::UnixSeconds;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Seconds since the epoch.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}

/// For the ages of what this process did or saw.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn instant() -> Instant {
    Instant::now()
}
