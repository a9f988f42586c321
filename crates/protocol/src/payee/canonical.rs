//! Where ERC-8004's authors put their registries (spec/payee.md §1.3).
//!
//! A list of addresses is no proof that code is there: a chain is trusted once its registry has answered there.

use super::RegistryId;
use alloy_primitives::{Address, U256, address};

/// The identity registry of every main network.
pub const MAINNET_REGISTRY: Address = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
/// The identity registry of every test network.
pub const TESTNET_REGISTRY: Address = address!("8004A818BFB912233c491871b3d84c89A494BD9e");

const MAINNETS: [u64; 26] = [
    1, 10, 56, 100, 137, 143, 196, 295, 360, 1088, 1776, 1868, 2345, 2741, 4326, 4663, 5000, 8453, 16661,
    42161, 42220, 43114, 59144, 167000, 534352, 1187947933,
];

const TESTNETS: [u64; 27] = [
    97, 296, 1439, 1946, 1952, 5003, 6343, 6913, 10143, 11011, 11124, 16602, 43113, 46630, 48816, 59141,
    59902, 80002, 84532, 167013, 421614, 534351, 5042002, 11142220, 11155111, 11155420, 324705682,
];

impl RegistryId {
    /// The registry of ERC-8004's authors on a chain, if they are known to have one there.
    pub fn canonical(chain_id: u64) -> Option<Self> {
        let address = if MAINNETS.contains(&chain_id) {
            MAINNET_REGISTRY
        } else if TESTNETS.contains(&chain_id) {
            TESTNET_REGISTRY
        } else {
            return None;
        };
        Self::new(U256::from(chain_id), address)
    }
}
