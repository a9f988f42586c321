//! Solana's clusters, by genesis hash.
//!
//! CAIP-2 and with it x402 cut the hash's text to 32 characters, and the cut text decodes to bytes that mean nothing.
//! So it is looked up on the way in, and an unknown one is refused (spec/payee.md §5.1).

use alloy_primitives::{B256, b256};

/// A cluster with a CAIP-2 reference in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cluster {
    /// Mainnet beta.
    Mainnet,
    /// Devnet.
    Devnet,
    /// Testnet.
    Testnet,
}

impl Cluster {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mainnet, Self::Devnet, Self::Testnet];

    /// The genesis hash, in base58.
    pub fn genesis(self) -> &'static str {
        match self {
            Self::Mainnet => "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
            Self::Devnet => "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
            Self::Testnet => "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
        }
    }

    /// The CAIP-2 reference: its first 32 characters.
    pub fn reference(self) -> &'static str {
        &self.genesis()[..32]
    }

    /// The genesis hash.
    pub fn hash(self) -> B256 {
        match self {
            Self::Mainnet => b256!("45296998a6f8e2a784db5d9f95e18fc23f70441a1039446801089879b08c7ef0"),
            Self::Devnet => b256!("ce59db5080fc2c6d3bcf7ca90712d3c2e5e6c28f27f0dfbb9953bdb0894c03ab"),
            Self::Testnet => b256!("3a132ece10305ec1830725502fa2b7e7eb8157e9123d4c1f654a71787161dc21"),
        }
    }

    pub(super) fn by_hash(hash: &[u8; 32]) -> Option<Self> {
        Self::ALL.into_iter().find(|cluster| cluster.hash() == *hash)
    }

    /// By the CAIP-2 reference or the whole hash.
    pub(super) fn by_reference(reference: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cluster| [cluster.reference(), cluster.genesis()].contains(&reference))
    }
}

/// A public key in base58. The alphabet has no second spelling, so 32 bytes have one text.
pub(super) fn parse_key(text: &str) -> Option<[u8; 32]> {
    // The length bounds the work, which grows with its square.
    if !(32..=44).contains(&text.len()) {
        return None;
    }
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}
