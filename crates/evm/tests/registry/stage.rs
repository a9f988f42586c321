//! A registry with agents, and a node in front of it that can be made to refuse things.

use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use quittance_evm::{
    RpcFault,
    pool::RpcPool,
    registry::{self, At, Reading, Ways},
};
use quittance_protocol::{
    payee::{Identity, Questions, RegistryId, SignatureQuestion},
    units::Network,
};
use quittance_testkit::{
    Anvil, DevChain,
    contracts::artifact,
    dev_address,
    dev_chain::MULTICALL3,
    dev_signer,
    harness::{Fault, RpcProxy, Rule, proxy::Call},
};
use std::time::Duration;
use tokio::time::Instant;

sol! {
    interface IRegistry {
        function register(string agentURI) external returns (uint256);
    }
}

pub(crate) const REGISTRY: Address = address!("8004A818BFB912233c491871b3d84c89A494BD9e");
pub(crate) const CHAIN_ID: u64 = 84532;
pub(crate) const SELLER: usize = 3;
/// First slot of the registry's storage, where it counts its agents.
const LAYOUT: &str = "a040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e00";

/// What a node does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Nothing,
    /// No calls by block hash.
    Hashes,
    /// Neither those nor creation code.
    CreationCode,
    /// Nor is there a Multicall3.
    Multicall,
}

pub(crate) const LACKS: [Lack; 4] = [Lack::Nothing, Lack::Hashes, Lack::CreationCode, Lack::Multicall];

pub(crate) struct Stage {
    pub(crate) chain: DevChain,
    pub(crate) node: RpcProxy,
    pub(crate) anvil: Anvil,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let anvil = Anvil::builder().spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        anvil.set_code(REGISTRY, &artifact("IdentityRegistry").unwrap().deployed_bytecode).await.unwrap();
        let node = RpcProxy::start(anvil.url()).await.unwrap();
        Self { chain, node, anvil }
    }

    /// Makes the node lack this, and no more.
    pub(crate) async fn lack(&self, lack: Lack) {
        self.node.clear();
        if lack != Lack::Nothing {
            refuse(&self.node, by_hash);
        }
        if lack == Lack::CreationCode || lack == Lack::Multicall {
            refuse(&self.node, by_creation);
        }
        let code = artifact("Multicall3").unwrap().deployed_bytecode;
        let code = if lack == Lack::Multicall { Bytes::new() } else { code };
        self.anvil.set_code(MULTICALL3, &code).await.unwrap();
    }

    /// An agent with this URI, and this address written where the registry keeps its wallet.
    pub(crate) async fn agent(&self, uri: &str, wallet: Address) -> U256 {
        let count: B256 = self
            .chain
            .client()
            .call("eth_getStorageAt", serde_json::json!([REGISTRY, format!("0x{LAYOUT}"), "latest"]))
            .await
            .unwrap()
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let id = U256::from_be_bytes(count.0);
        let call = IRegistry::registerCall { agentURI: uri.to_owned() }.abi_encode();
        assert!(self.chain.send(dev_address(SELLER), Some(REGISTRY), call.into()).await.unwrap().success);
        let layout: B256 = LAYOUT.parse().unwrap();
        let metadata = U256::from_be_bytes(layout.0) + U256::from(1);
        let of_agent = keccak256((id, metadata).abi_encode());
        let slot = keccak256([b"agentWallet".as_slice(), of_agent.as_slice()].concat());
        // A byte string of 20: the bytes, and twice its length in the last byte.
        let mut word = [0; 32];
        word[..20].copy_from_slice(wallet.as_slice());
        word[31] = 40;
        self.anvil.set_storage_at(REGISTRY, slot.into(), word.into()).await.unwrap();
        self.anvil.mine(1).await.unwrap();
        id
    }

    pub(crate) fn pool(&self) -> RpcPool {
        pool(&[&self.node])
    }

    /// Reads at the latest block, with nothing remembered.
    pub(crate) async fn read(&self, questions: &Questions) -> Result<Reading, RpcFault> {
        read(&self.pool(), &Ways::default(), questions, now()).await
    }
}

pub(crate) async fn read(
    pool: &RpcPool,
    ways: &Ways,
    questions: &Questions,
    now: Instant,
) -> Result<Reading, RpcFault> {
    let block = registry::block(pool, At::Latest).await?;
    registry::read(pool, ways, &block, questions, now).await
}

pub(crate) fn pool(nodes: &[&RpcProxy]) -> RpcPool {
    let urls: Vec<_> = nodes.iter().map(|node| node.url().parse().unwrap()).collect();
    RpcPool::new(Network::from_chain_id(CHAIN_ID).unwrap(), &urls).unwrap()
}

pub(crate) fn about(registry: Address, agent_id: U256) -> Questions {
    let registry: RegistryId = format!("eip155:{CHAIN_ID}:{registry}").parse().unwrap();
    Questions { identity: Identity { registry, agent_id }, signature: None }
}

pub(crate) fn signed(mut questions: Questions, wallet: Address, digest: B256, signature: Bytes) -> Questions {
    questions.signature = Some(SignatureQuestion { wallet, digest, signature });
    questions
}

pub(crate) fn refuse(node: &RpcProxy, calls: fn(&Call) -> bool) {
    node.add(Rule::on("eth_call").when(calls).then(Fault::error(-32602, "not supported")));
}

pub(crate) fn by_hash(call: &Call) -> bool {
    call.params[1].is_object()
}

pub(crate) fn by_creation(call: &Call) -> bool {
    call.params[0].get("to").is_none()
}

pub(crate) fn to(call: &Call, address: Address) -> bool {
    call.params[0]["to"].as_str().is_some_and(|to| to.parse() == Ok(address))
}

pub(crate) fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // a test's own time
    Instant::now()
}

/// A while after `start`.
pub(crate) fn seconds_after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

pub(crate) fn sign(key: usize, digest: B256) -> Bytes {
    use alloy::signers::SignerSync;
    dev_signer(key).sign_hash_sync(&digest).unwrap().as_bytes().into()
}
