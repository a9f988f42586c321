//! The only reader of the clocks. Everything else gets `now` as a parameter, or asks how long ago something was.

use quittance_protocol::units::UnixSeconds;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Seconds since the epoch.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs()))
}

/// How long ago a time of the store was, in Unix seconds; wrong by what the two clocks differ. Of what is open the store itself says how
/// old it is ([`quittance_store::model::OpenSlot::signed_ago`]).
pub(crate) fn since(unix_seconds: i64) -> Duration {
    Duration::from_secs(now().0.saturating_sub(u64::try_from(unix_seconds).unwrap_or_default()))
}

/// For the ages of what this process did or saw.
#[allow(clippy::disallowed_methods)] // the edge
pub(crate) fn instant() -> Instant {
    Instant::now()
}
