//! The end of a check's time.

use quittance_protocol::payee::{Fact, UnreadReason};
use std::{fmt, future::Future};
use tokio::time::Instant;

/// What is read before the deadline; `late` says what was not.
pub(super) async fn in_time<T, E: fmt::Display>(
    deadline: Instant,
    late: &'static str,
    read: impl Future<Output = Result<T, E>>,
) -> Fact<T> {
    match tokio::time::timeout_at(deadline, read).await {
        Ok(result) => Fact::from_result(result),
        Err(_) => Fact::Unread(UnreadReason::new(late)),
    }
}
