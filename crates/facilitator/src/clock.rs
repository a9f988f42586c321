//! The only reader of the wall clock. Everything else gets `now` as a parameter.

use quittance_protocol::units::UnixSeconds;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}
