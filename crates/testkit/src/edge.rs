//! The only place of this crate that reads the environment or the clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970 by the wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "an edge: payments are dated here, the product takes `now` as a parameter"
)]
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A non-empty environment variable.
#[allow(
    clippy::disallowed_methods,
    reason = "an edge: where to find test tools is not configuration of the product"
)]
pub(crate) fn env_var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
