//! Who signed a delegation.

use crate::signature::Ecdsa;
use alloy_primitives::{Address, B256};

/// The address whose key made these 65 bytes; `v` may be 0, 1, 27 or 28.
///
/// High `s` counts: the text asks only that the signature recovers, and nothing is keyed on signature bytes, so the
/// second spelling harms nobody (spec/payee.md §2.4). Payments are stricter, see rule 1.
pub fn recover(signature: &[u8], digest: B256) -> Option<Address> {
    let parts = Ecdsa::from_bytes(signature)?;
    // The twin normalises `v`, so it has to be judged before.
    parts.legacy_v()?;
    let canonical = if parts.is_canonical() { parts } else { parts.high_s_twin() };
    canonical.recover(digest)
}
