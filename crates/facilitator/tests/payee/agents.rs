//! Agents in the registry, and what they sign. Written against the standards' texts, not with the product's own code.

use alloy_primitives::{Address, B256, Bytes, U256, address};
use alloy_sol_types::{Eip712Domain, SolCall, SolStruct, sol};
use k256::ecdsa::SigningKey;
use quittance_testkit::{DevChain, dev_accounts::dev_key, dev_address};
use serde_json::{Value, json};

sol! {
    interface IRegistry {
        function register(string agentURI) external returns (uint256);
        function setAgentURI(uint256 agentId, string newURI) external;
        function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes signature) external;
        function unsetAgentWallet(uint256 agentId) external;
    }
    struct AgentWalletSet { uint256 agentId; address newWallet; address owner; uint256 deadline; }
    struct PayeeDelegation {
        uint256 chainId; address registry; uint256 agentId; address agentWallet;
        string network; string payTo; string asset; string origin;
        uint64 validAfter; uint64 validUntil; bytes32 nonce;
    }
}

/// Where ERC-8004's authors have their registry on test networks, so the server trusts it without being told.
pub(crate) const REGISTRY: Address = address!("8004A818BFB912233c491871b3d84c89A494BD9e");
/// The dev account that owns the agents, and is their first wallet.
pub(crate) const SELLER: usize = 3;

pub(crate) fn registry_id(chain_id: u64) -> String {
    format!("eip155:{chain_id}:{REGISTRY}")
}

/// The registration file of an agent that lists these endpoints.
pub(crate) fn file_of(endpoints: &[&str]) -> Value {
    let services: Vec<Value> =
        endpoints.iter().map(|endpoint| json!({ "name": "x402", "endpoint": endpoint })).collect();
    json!({
        "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
        "name": "MARKER of a stranger's file",
        "services": services,
    })
}

pub(crate) async fn register(chain: &DevChain, uri: &str) -> U256 {
    register_at(chain, REGISTRY, uri).await
}

/// In a registry at another address.
pub(crate) async fn register_at(chain: &DevChain, registry: Address, uri: &str) -> U256 {
    let next = chain
        .client()
        .call(
            "eth_getStorageAt",
            json!([registry, "0xa040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e00", "latest"]),
        )
        .await
        .unwrap();
    let call = IRegistry::registerCall { agentURI: uri.to_owned() };
    send(chain, registry, call.abi_encode()).await;
    next.as_str().unwrap().parse().unwrap()
}

pub(crate) async fn set_uri(chain: &DevChain, agent_id: U256, uri: &str) {
    let call = IRegistry::setAgentURICall { agentId: agent_id, newURI: uri.to_owned() };
    send(chain, REGISTRY, call.abi_encode()).await;
}

pub(crate) async fn unset_wallet(chain: &DevChain, agent_id: U256) {
    send(chain, REGISTRY, IRegistry::unsetAgentWalletCall { agentId: agent_id }.abi_encode()).await;
}

/// With the consent of dev account `key`: the new wallet's key, or the owner of the contract that is to be the wallet.
pub(crate) async fn set_wallet(chain: &DevChain, agent_id: U256, wallet: Address, key: usize) {
    set_wallet_at(chain, REGISTRY, agent_id, wallet, key).await;
}

/// In a registry at another address.
pub(crate) async fn set_wallet_at(
    chain: &DevChain,
    registry: Address,
    agent_id: U256,
    wallet: Address,
    key: usize,
) {
    let deadline = U256::from(chain.client().block_timestamp().await.unwrap() + 200);
    let domain = domain("ERC8004IdentityRegistry", chain.chain_id(), registry);
    let consent =
        AgentWalletSet { agentId: agent_id, newWallet: wallet, owner: dev_address(SELLER), deadline };
    let signature = sign(key, consent.eip712_signing_hash(&domain));
    let call = IRegistry::setAgentWalletCall { agentId: agent_id, newWallet: wallet, deadline, signature };
    send(chain, registry, call.abi_encode()).await;
}

async fn send(chain: &DevChain, registry: Address, data: Vec<u8>) {
    assert!(chain.send(dev_address(SELLER), Some(registry), data.into()).await.unwrap().success);
}

/// A delegation by dev account `key` in the name of `wallet`, for a day.
pub(crate) struct Delegated<'a> {
    pub(crate) chain_id: u64,
    pub(crate) agent_id: U256,
    pub(crate) wallet: Address,
    pub(crate) key: usize,
    pub(crate) network: &'a str,
    pub(crate) pay_to: Address,
    pub(crate) asset: Address,
    pub(crate) origin: &'a str,
}

impl Delegated<'_> {
    pub(crate) fn json(&self) -> Value {
        let now = quittance_testkit::unix_now();
        let message = PayeeDelegation {
            chainId: U256::from(self.chain_id),
            registry: REGISTRY,
            agentId: self.agent_id,
            agentWallet: self.wallet,
            network: self.network.into(),
            payTo: self.pay_to.to_string(),
            asset: self.asset.to_string(),
            origin: self.origin.into(),
            validAfter: now - 60,
            validUntil: now + 86_400,
            nonce: B256::repeat_byte(7),
        };
        let digest = message.eip712_signing_hash(&domain("x402 Payee Delegation", self.chain_id, REGISTRY));
        json!({
            "message": {
                "chainId": message.chainId.to_string(),
                "registry": message.registry,
                "agentId": message.agentId.to_string(),
                "agentWallet": message.agentWallet,
                "network": message.network,
                "payTo": message.payTo,
                "asset": message.asset,
                "origin": message.origin,
                "validAfter": message.validAfter.to_string(),
                "validUntil": message.validUntil.to_string(),
                "nonce": message.nonce,
            },
            "signature": sign(self.key, digest),
        })
    }
}

fn domain(name: &str, chain_id: u64, contract: Address) -> Eip712Domain {
    Eip712Domain::new(
        Some(name.to_owned().into()),
        Some("1".into()),
        Some(U256::from(chain_id)),
        Some(contract),
        None,
    )
}

fn sign(key: usize, digest: B256) -> Bytes {
    let key: B256 = dev_key(key).parse().unwrap();
    let key = SigningKey::from_slice(key.as_slice()).unwrap();
    let (signature, recovery) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let mut bytes = signature.to_bytes().to_vec();
    bytes.push(27 + recovery.to_byte());
    bytes.into()
}
