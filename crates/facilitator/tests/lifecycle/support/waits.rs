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

/// Looks until a count has come to `n`. Each step there is given the whole time anew: a busy machine is slow, a broken promise stands still.
pub(crate) async fn until_counted<F>(what: &str, n: u64, mut look: impl FnMut() -> F)
where
    F: Future<Output = u64>,
{
    let mut have = 0;
    while have < n {
        let more = format!("{what}: {n}, and not only {have}");
        have = until(&more, DEADLINE, || {
            let count = look();
            async move { Some(count.await).filter(|count| *count > have) }
        })
        .await;
    }
}
