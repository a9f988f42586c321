//! The identity a payment requirement names, or the payer knows: (registry, agent id).

use super::json::uint;
use crate::{units::parse_decimal_u256, wire::parse_address};
use alloy_primitives::{Address, U256};
use serde_json::Value;
use std::{fmt, str::FromStr};

/// An ERC-8004 identity registry; written as a CAIP-10 account, `eip155:8453:0x8004…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegistryId {
    chain_id: U256,
    address: Address,
}

impl RegistryId {
    /// CAIP-2 leaves 32 digits.
    const CHAIN_ID_DIGITS_MAX: usize = 32;

    /// A registry; `None` for chain 0, which means "any chain" and so names none.
    pub fn new(chain_id: U256, address: Address) -> Option<Self> {
        (!chain_id.is_zero()).then_some(Self { chain_id, address })
    }

    /// Its chain.
    pub fn chain_id(&self) -> U256 {
        self.chain_id
    }

    /// Its address.
    pub fn address(&self) -> Address {
        self.address
    }
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}:{}", self.chain_id, self.address)
    }
}

/// Not a CAIP-10 account on an EVM chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CAIP-10 account on an EVM chain (eip155:<chain id>:0x<40 hex digits>)")]
pub struct NotARegistry;

impl FromStr for RegistryId {
    type Err = NotARegistry;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (network, address) = s.rsplit_once(':').ok_or(NotARegistry)?;
        let chain_id = evm_chain_id(network).ok_or(NotARegistry)?;
        let address = parse_address(address).ok_or(NotARegistry)?;
        Ok(Self { chain_id, address })
    }
}

/// The chain of a CAIP-2 `eip155` network, canonical and not 0.
pub(super) fn evm_chain_id(network: &str) -> Option<U256> {
    let digits =
        network.strip_prefix("eip155:").filter(|digits| digits.len() <= RegistryId::CHAIN_ID_DIGITS_MAX)?;
    parse_decimal_u256(digits).filter(|id| !id.is_zero())
}

/// An agent in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Where it is registered.
    pub registry: RegistryId,
    /// Its token id; ids start at 0.
    pub agent_id: U256,
}

impl Identity {
    /// From `registry` and `agentId` as JSON writes them.
    fn read(registry: Option<&Value>, agent_id: Option<&Value>) -> Result<Self, &'static str> {
        let registry = registry.and_then(Value::as_str).and_then(|text| text.parse().ok());
        Ok(Self {
            registry: registry.ok_or("registry must be eip155:<chain id>:0x<40 hex digits>")?,
            agent_id: agent_id
                .and_then(uint)
                .ok_or("agentId must be a decimal uint256 without leading zeros")?,
        })
    }

    /// From an entry of a registration file's `registrations`.
    pub(super) fn from_back_reference(entry: &Value) -> Option<Self> {
        Self::read(entry.get("agentRegistry"), entry.get("agentId")).ok()
    }
}

/// What somebody says about an identity. Saying something unusable is not the same as saying nothing: if it were, a 402
/// could turn itself into one of a legacy seller by a typo (spec/payee.md §2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Named {
    /// Nothing.
    #[default]
    Nothing,
    /// Something that names no identity, and why.
    Malformed(&'static str),
    /// An identity.
    Identity(Identity),
}

impl Named {
    /// From `registry` and `agentId` as the payer gives them; an identity needs both.
    pub fn read(registry: Option<&Value>, agent_id: Option<&Value>) -> Self {
        let present = |value: &&Value| !value.is_null();
        match (registry.filter(present), agent_id.filter(present)) {
            (None, None) => Self::Nothing,
            (registry, agent_id) => {
                Identity::read(registry, agent_id).map_or_else(Self::Malformed, Self::Identity)
            }
        }
    }

    /// From `extra.erc8004`.
    pub(super) fn in_extra(erc8004: Option<&Value>) -> Self {
        match erc8004 {
            None | Some(Value::Null) => Self::Nothing,
            Some(Value::Object(named)) => Identity::read(named.get("registry"), named.get("agentId"))
                .map_or_else(Self::Malformed, Self::Identity),
            Some(_) => Self::Malformed("extra.erc8004 must be an object"),
        }
    }
}

words! {
    /// Who named the identity that was checked.
    Source {
        /// The payment requirement.
        Requirement = "requirement",
        /// The payer.
        Payer = "payer",
    }
}
