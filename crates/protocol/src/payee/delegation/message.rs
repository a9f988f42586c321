//! The signed message and its digest.

use crate::{
    payee::{Identity, json::uint},
    wire::parse_address,
};
use alloy_primitives::{Address, B256, U256, hex, keccak256};
use alloy_sol_types::{Eip712Domain, SolStruct, sol};
use serde_json::{Map, Value, json};

sol! {
    struct PayeeDelegation {
        uint256 chainId; address registry; uint256 agentId; address agentWallet; string network; string payTo; string asset; string origin; uint64 validAfter; uint64 validUntil; bytes32 nonce;
    }
}

/// What the agent wallet signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chain of the identity registry.
    pub chain_id: U256,
    /// The identity registry.
    pub registry: Address,
    /// The agent.
    pub agent_id: U256,
    /// The signer.
    pub agent_wallet: Address,
    /// CAIP-2 network of the payment.
    pub network: String,
    /// The payee, as the payment requirement writes it.
    pub pay_to: String,
    /// The asset, as the payment requirement writes it, or `*`.
    pub asset: String,
    /// `https://host[:port]`, or `*`.
    pub origin: String,
    /// First second of its validity.
    pub valid_after: u64,
    /// First second after its validity.
    pub valid_until: u64,
    /// Makes digests distinct. Nothing is consumed.
    pub nonce: B256,
}

impl Message {
    /// What is signed for the registry of `identity`.
    pub fn digest(&self, identity: &Identity) -> B256 {
        self.to_sol().eip712_signing_hash(&domain(identity))
    }

    /// EIP-712 `hashStruct`.
    pub fn struct_hash(&self) -> B256 {
        self.to_sol().eip712_hash_struct()
    }

    /// As `extra.erc8004.delegation.message`: numbers as decimal strings, which survive every JSON parser.
    pub fn to_json(&self) -> Value {
        json!({
            "chainId": self.chain_id.to_string(),
            "registry": self.registry.to_checksum(None),
            "agentId": self.agent_id.to_string(),
            "agentWallet": self.agent_wallet.to_checksum(None),
            "network": self.network,
            "payTo": self.pay_to,
            "asset": self.asset,
            "origin": self.origin,
            "validAfter": self.valid_after.to_string(),
            "validUntil": self.valid_until.to_string(),
            "nonce": self.nonce.to_string(),
        })
    }

    fn to_sol(&self) -> PayeeDelegation {
        PayeeDelegation {
            chainId: self.chain_id,
            registry: self.registry,
            agentId: self.agent_id,
            agentWallet: self.agent_wallet,
            network: self.network.clone(),
            payTo: self.pay_to.clone(),
            asset: self.asset.clone(),
            origin: self.origin.clone(),
            validAfter: self.valid_after,
            validUntil: self.valid_until,
            nonce: self.nonce,
        }
    }

    pub(super) fn read(message: &Map<String, Value>) -> Option<Self> {
        let text = |field: &str| message.get(field)?.as_str();
        let number = |field: &str| uint(message.get(field)?);
        let seconds = |field: &str| u64::try_from(number(field)?).ok();
        Some(Self {
            chain_id: number("chainId")?,
            registry: parse_address(text("registry")?)?,
            agent_id: number("agentId")?,
            agent_wallet: parse_address(text("agentWallet")?)?,
            network: text("network")?.into(),
            pay_to: text("payTo")?.into(),
            asset: text("asset")?.into(),
            origin: text("origin")?.into(),
            valid_after: seconds("validAfter")?,
            valid_until: seconds("validUntil")?,
            nonce: B256::try_from(hex_bytes(text("nonce")?)?.as_slice()).ok()?,
        })
    }
}

/// The EIP-712 domain: always that of the identity that is checked, never what the message says.
fn domain(identity: &Identity) -> Eip712Domain {
    Eip712Domain::new(
        Some("x402 Payee Delegation".into()),
        Some("1".into()),
        Some(identity.registry.chain_id()),
        Some(identity.registry.address()),
        None,
    )
}

/// EIP-712 type hash of the message.
pub fn type_hash() -> B256 {
    keccak256(PayeeDelegation::eip712_encode_type().as_bytes())
}

pub(super) fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    // `hex` would take away a second prefix.
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with("0x"))?;
    hex::decode(digits).ok()
}
