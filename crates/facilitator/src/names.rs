//! Addresses for people: with their chain and a checksum over both, so that one copied to the wrong chain is noticed.

use alloy_primitives::{Address, U256};
use quittance_protocol::{interop::InteropAddress, units::Network};

/// `address@eip155:N#CHECKSUM` (ERC-7828).
pub(crate) fn named(network: Network, address: Address) -> String {
    InteropAddress::evm(U256::from(network.chain_id()), address)
        .map_or_else(|| address.to_checksum(None), |name| name.to_string())
}
