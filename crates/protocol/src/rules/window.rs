//! Rule 3: refuse when `now <= validAfter` or `now >= validBefore`, with a margin before the end.
//!
//! The token is strict on both sides. Each is asked twice: of the wall clock and of the block's own time.

use super::Policy;
use crate::{code::Code, payment::Authorization, units::UnixSeconds, wire::Refusal};
use alloy_primitives::U256;

pub(super) fn before(a: &Authorization, policy: &Policy, now: UnixSeconds) -> Result<(), Refusal> {
    let earliest_end = now.saturating_add(policy.validity_margin_seconds).to_u256();
    if a.valid_before > now.to_u256() && a.valid_before >= earliest_end {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ValidBefore,
        format!(
            "authorization.validBefore is {}, must be at least {} seconds after {} (rule 3)",
            a.valid_before, policy.validity_margin_seconds, now.0
        ),
    ))
}

pub(super) fn after(a: &Authorization, now: UnixSeconds) -> Result<(), Refusal> {
    if now.to_u256() > a.valid_after {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ValidAfter,
        format!("authorization.validAfter is {}, must be before {} (rule 3)", a.valid_after, now.0),
    ))
}

pub(super) fn lifetime(a: &Authorization, policy: &Policy, now: UnixSeconds) -> Result<(), Refusal> {
    let max = policy.authorization_lifetime_seconds_max;
    if max == 0 || a.valid_before.saturating_sub(now.to_u256()) <= U256::from(max) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::ValidBefore,
        format!("authorization.validBefore is more than {max} seconds ahead, the operator's bound"),
    ))
}
