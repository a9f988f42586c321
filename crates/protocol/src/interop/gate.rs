//! The gate at the door: a network and an address in one requirement must fit together.

use super::{InteropAddress, InteropError};
use crate::{code::Code, wire::Refusal};

/// The canonical form of (`network`, `field`) of a payment requirement, or the refusal that names the pair. `None` where
/// nobody here can judge the pair; that is to be logged, not refused.
///
/// `network` is CAIP-2. A wrong mixed-case checksum does not close the gate: x402 takes addresses of any case
/// (spec/x402.md §7, 27), and the canonical form is of the bytes.
pub fn coherent(network: &str, field: &str, address: &str) -> Result<Option<InteropAddress>, Refusal> {
    let payee = match InteropAddress::payee(network, address) {
        Err(InteropError::AddressChecksum) => InteropAddress::payee(network, &address.to_ascii_lowercase()),
        other => other,
    };
    match payee {
        Ok(payee) => Ok(Some(payee)),
        Err(error) if error.needs_profile() => Ok(None),
        Err(error) => Err(Refusal::new(
            Code::InvalidPaymentRequirements,
            format!(
                "paymentRequirements.network and paymentRequirements.{field} do not fit together: the pair {error}"
            ),
        )),
    }
}
