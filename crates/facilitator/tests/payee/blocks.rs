//! At which block a registry is read (`block` of `[[payee.registries]]`), and for how long at the same one.

use crate::{
    agents::{SELLER, file_of, register_at, set_wallet_at},
    stage::{BINARY, CHAIN_ID, NETWORK, RESOURCE, said},
    world::World,
};
use alloy_primitives::{Address, U256};
use futures::future;
use quittance_testkit::{
    Anvil, DevChain, Facilitator,
    contracts::artifact,
    dev_address,
    harness::{ConfigBuilder, Fault, NetworkConfig, QuittanceProcess, RpcProxy, Rule, process::Wait},
    jsonrpc::quantity,
};
use serde_json::{Value, json};

/// Blocks of a registry behind a node of its own.
struct Shelf {
    address: Address,
    setting: &'static str,
    node: RpcProxy,
    agent_id: U256,
}

impl Shelf {
    async fn new(anvil: &Anvil, chain: &DevChain, nth: u8, setting: &'static str) -> Self {
        let address = Address::repeat_byte(0xb0 + nth);
        anvil.set_code(address, &artifact("IdentityRegistry").unwrap().deployed_bytecode).await.unwrap();
        let node = RpcProxy::start(anvil.url()).await.unwrap();
        let uri = format!("data:application/json,{}", file_of(&[RESOURCE]));
        let agent_id = register_at(chain, address, &uri).await;
        Self { address, setting, node, agent_id }
    }

    fn config(&self) -> String {
        format!(
            "[[payee.registries]]\nid = \"{}\"\nrpc_urls = [\"{}\"]\nblock = \"{}\"\n",
            self.id(),
            self.node.url(),
            self.setting
        )
    }

    fn id(&self) -> String {
        format!("{NETWORK}:{}", self.address)
    }

    /// What is said of a payment to the agent's first wallet.
    async fn check(&self, client: &Facilitator) -> Value {
        let requirement = json!({
            "scheme": "exact", "network": NETWORK, "asset": Address::repeat_byte(1), "amount": "1",
            "payTo": dev_address(SELLER),
            "extra": { "erc8004": { "registry": self.id(), "agentId": self.agent_id.to_string() } },
        });
        let body = json!({ "paymentRequirements": requirement, "resource": RESOURCE });
        let answer = client.post("/payee", &body, &[]).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json
    }
}

/// The block in an answer, and the chain's own words about the block that it should be.
fn is_at(answer: &Value, block: &Value) {
    let number = quantity(&block["number"]).unwrap().to_string();
    assert_eq!(
        (&answer["block"]["number"], &answer["block"]["hash"]),
        (&json!(number), &block["hash"]),
        "{answer}"
    );
    assert_eq!(answer["block"]["chainId"], CHAIN_ID.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registry_is_read_at_the_block_that_is_set_for_ten_seconds() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    let block = async |tag: Value| anvil.rpc("eth_getBlockByNumber", json!([tag, false])).await.unwrap();
    let behind = async |blocks: u64| {
        let number = chain.client().block_number().await.unwrap() - blocks;
        block(json!(format!("{number:#x}"))).await
    };
    let latest = Shelf::new(&anvil, &chain, 0, "latest").await;
    let ten = Shelf::new(&anvil, &chain, 1, "latest-10").await;
    let safe = Shelf::new(&anvil, &chain, 2, "safe").await;
    let without_safe = Shelf::new(&anvil, &chain, 3, "safe").await;
    let refused = Rule::on("eth_getBlockByNumber").when(|call| call.params[0] == "safe");
    without_safe.node.add(refused.then(Fault::error(-32602, "unknown block tag")));
    let shelves = [&latest, &ten, &safe, &without_safe];

    let world = World::new();
    let network = NetworkConfig::new(CHAIN_ID).rpc_url(anvil.url()).dev_signer(0);
    let config = ConfigBuilder::new().unwrap().network(network);
    let config = shelves.iter().fold(config, |config, shelf| config.extra(&shelf.config()));
    let server = QuittanceProcess::start_until(BINARY, world.around(config), Wait::Ready).await.unwrap();
    let client = server.client().unwrap();

    // The wallets change in the newest blocks; the node's safe block is older than all of them.
    anvil.mine(100).await.unwrap();
    for shelf in shelves {
        set_wallet_at(&chain, shelf.address, shelf.agent_id, dev_address(6), 6).await;
    }
    let blocks = [behind(0).await, behind(10).await, block(json!("safe")).await, behind(3).await];
    for shelf in shelves {
        shelf.node.reset_records();
    }
    for (shelf, (block, wallet)) in shelves.iter().zip(blocks.iter().zip([6, SELLER, SELLER, SELLER])) {
        // Two at once look at the header once, where the block is not the latest anyway.
        let (one, other) = future::join(shelf.check(&client), shelf.check(&client)).await;
        for answer in [&one, &other] {
            is_at(answer, block);
            assert_eq!(answer["agentWallet"], dev_address(wallet).to_string(), "{}: {answer}", shelf.setting);
            let outcome = if wallet == SELLER { "verified-wallet" } else { "mismatch" };
            assert_eq!(said(answer), (outcome, ""), "{}: {answer}", shelf.setting);
        }
    }
    let headers = |shelf: &Shelf| shelf.node.count("eth_getBlockByNumber");
    assert_eq!(shelves.map(headers), [2, 2, 1, 3], "safe, the newest, and that of the number");

    // For ten seconds, whatever happens on the chain, and with nothing to be asked.
    anvil.mine(100).await.unwrap();
    world.skip(5);
    for (shelf, block) in shelves.iter().zip(&blocks).skip(1) {
        shelf.node.reset_records();
        let answer = shelf.check(&client).await;
        is_at(&answer, block);
        assert_eq!(
            (said(&answer).0, shelf.node.http_requests()),
            ("verified-wallet", 0),
            "{}",
            shelf.setting
        );
    }
    let answer = latest.check(&client).await;
    is_at(&answer, &behind(0).await);

    world.skip(11);
    let blocks = [behind(0).await, behind(10).await, block(json!("safe")).await, behind(3).await];
    for (shelf, block) in shelves.iter().zip(&blocks) {
        let answer = shelf.check(&client).await;
        is_at(&answer, block);
        assert_eq!(said(&answer), ("mismatch", ""), "{}: {answer}", shelf.setting);
    }
}
