//! Addresses for people: with their chain and a checksum over both, so that one copied to the wrong chain is noticed.

use alloy_primitives::{Address, U256};
use quittance_protocol::{
    interop::{InteropAddress, InteropError},
    units::Network,
};

/// `address@eip155:N#CHECKSUM` (ERC-7828).
pub(crate) fn named(network: Network, address: Address) -> String {
    named_on(U256::from(network.chain_id()), address)
}

/// The same on any EVM chain, served or not.
pub(crate) fn named_on(chain_id: U256, address: Address) -> String {
    InteropAddress::evm(chain_id, address).map_or_else(|| address.to_checksum(None), |name| name.to_string())
}

/// Leaves a line in the log if nobody here can tell whether an address belongs on this network. That is no reason to refuse it
/// (spec/payee.md §5.1); only the namespace, which is short and plain, is shown.
pub(crate) fn log_unjudged(network: &str) {
    if InteropAddress::from_pair(network, "").is_err_and(InteropError::needs_profile) {
        let namespace = network.split(':').next().unwrap_or_default();
        tracing::info!(namespace, "addresses of this kind of network cannot be judged here");
    }
}
