//! What the tests build payments and chains from. Nothing here uses the code under test to produce what it is tested with:
//! digests, wrappers, signatures and tokens are made a second time.

pub mod cases;
pub mod chain;
pub mod eip712;
pub mod keys;
pub mod sig;
pub mod steps;
pub mod terms;

use alloy_primitives::{Address, keccak256};
use quittance_protocol::{rules::Policy, units::Network, wire::Served};

/// The chain of all tests.
pub const CHAIN_ID: u64 = 84532;
/// Its name in version 1.
pub const V1_NETWORK: &str = "base-sepolia";
/// Its name in version 2.
pub const V2_NETWORK: &str = "eip155:84532";
/// The second in which all tests play.
pub const NOW: u64 = 1_800_000_000;
/// The default margin.
pub const MARGIN: u64 = 6;

/// An address nobody has a key of.
pub fn address(name: &str) -> Address {
    Address::from_word(keccak256(name))
}

/// The chain as the code under test names it.
pub fn network() -> Network {
    Network::from_chain_id(CHAIN_ID).expect("a chain id")
}

/// One chain, by both names.
pub fn served() -> Served {
    Served {
        v1: [(V1_NETWORK.to_owned(), network())].into(),
        v2: [(V2_NETWORK.to_owned(), network())].into(),
    }
}

/// The policy the data assumes: every factory of the kit is listed except those called "unlisted".
pub fn policy() -> Policy {
    Policy {
        validity_margin_seconds: MARGIN,
        authorization_lifetime_seconds_max: 0,
        gas_per_settlement_max: 3_000_000,
        wallet_factories: chain::Factory::LISTED.iter().map(|f| f.address()).collect(),
        forbidden_payers: vec![address("facilitator signer")],
    }
}
