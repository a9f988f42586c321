//! Waiting for something to become true, never for time to pass.

use std::{
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// The time.
#[allow(clippy::disallowed_methods, reason = "a test's own clock")]
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Longer than anything a test waits for takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Looks until there is something to see, and fails at the deadline.
pub(crate) async fn until<T, F>(what: &str, deadline: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    #[allow(clippy::disallowed_methods, reason = "a test's own deadline")]
    let end = Instant::now() + deadline;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        #[allow(clippy::disallowed_methods, reason = "a test's own deadline")]
        let over = Instant::now() >= end;
        assert!(!over, "not within {deadline:?}: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
