//! Nodes that fail, disagree, or serve another chain.

use crate::stage::{CHAIN_ID, Lack, REGISTRY, SELLER, Stage, about, now, pool, read, signed, to};
use alloy_primitives::{B256, Bytes, U256};
use quittance_evm::{
    RpcFault,
    registry::{Reading, Ways},
};
use quittance_protocol::payee::{Fact, WalletCode};
use quittance_testkit::{
    dev_address,
    harness::{Fault, RpcProxy, Rule, proxy::Call},
};
use serde_json::json;

fn is_by_number(call: &Call) -> bool {
    call.params[0] != "latest"
}

fn another_hash() -> Fault {
    Fault::rewrite(|mut block| {
        block["hash"] = json!(B256::repeat_byte(0xab));
        block
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_counts_only_with_its_hash_on_the_same_node() {
    let stage = Stage::start().await;
    let questions = about(REGISTRY, stage.agent("https://seller.example", dev_address(SELLER)).await);
    for lack in [Lack::Hashes, Lack::CreationCode, Lack::Multicall] {
        stage.lack(lack).await;
        let expected = stage.read(&questions).await.unwrap();
        stage.node.add(Rule::on("eth_getBlockByNumber").when(is_by_number).then(another_hash()));
        let replaced = stage.read(&questions).await.unwrap_err();
        assert!(replaced.to_string().contains("was replaced"), "{lack:?}: {replaced}");

        // Another node has the block. Its answers count, not the first one's under its header.
        let second = RpcProxy::start(stage.anvil.url()).await.unwrap();
        let reading =
            read(&pool(&[&stage.node, &second]), &Ways::default(), &questions, now()).await.unwrap();
        assert_eq!(reading, expected, "{lack:?}");
        assert!(second.count("eth_call") > 0, "{lack:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_fails_to_say_is_unread_and_nothing_else_is() {
    let stage = Stage::start().await;
    let wallet = stage.chain.deploy_wallet1271(dev_address(5)).await.unwrap();
    let agent = stage.agent("https://seller.example", wallet).await;
    let questions = signed(about(REGISTRY, agent), wallet, B256::ZERO, Bytes::from(vec![1; 65]));
    let whole = stage.read(&questions).await.unwrap();
    let second = RpcProxy::start(stage.anvil.url()).await.unwrap();
    for lack in [Lack::CreationCode, Lack::Multicall] {
        for what in ["code", "signature"] {
            for fault in [Fault::error(-32000, "header not found"), Fault::HttpStatus(502), Fault::Drop] {
                stage.lack(lack).await;
                stage.node.add(match what {
                    "code" => Rule::on("eth_getCode").then(fault),
                    _ => Rule::on("eth_call").when(move |call| to(call, wallet)).then(fault),
                });
                let reading = stage.read(&questions).await.unwrap();
                assert_eq!((&reading.registry, &reading.token_uri), (&whole.registry, &whole.token_uri));
                assert!(matches!(reading.erc1271, Fact::Unread(_)), "{what}, {lack:?}: {reading:?}");
                match what {
                    "code" => assert!(matches!(reading.code, Fact::Unread(_)), "{lack:?}"),
                    _ => assert_eq!(reading.code, Fact::Read(WalletCode::Contract), "{lack:?}"),
                }
                // Where another node says it, it is read.
                let both = pool(&[&stage.node, &second]);
                assert_eq!(read(&both, &Ways::default(), &questions, now()).await.unwrap(), whole);
            }
        }
    }
}

/// An error of the node about the registry is no answer of the registry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revert_is_an_answer_and_an_error_is_not() {
    let stage = Stage::start().await;
    let agent = stage.agent("https://seller.example", dev_address(SELLER)).await;
    stage.lack(Lack::Multicall).await;
    let Reading { registry, .. } = stage.read(&about(REGISTRY, U256::from(99))).await.unwrap();
    assert!(matches!(registry, Fact::Read(registered) if registered.owner.is_none()));
    let owner =
        |call: &Call| call.params[0]["data"].as_str().is_some_and(|data| data.starts_with("0x6352211e"));
    stage.node.add(Rule::on("eth_call").when(owner).then(Fault::error(-32000, "out of memory")));
    let fault = stage.read(&about(REGISTRY, agent)).await.unwrap_err();
    assert_eq!(fault, RpcFault::ErrorResponse { method: "eth_call", code: -32000 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_chain_is_noticed_in_every_way() {
    let stage = Stage::start().await;
    let agent = stage.agent("https://seller.example", dev_address(SELLER)).await;
    let elsewhere = quittance_testkit::Anvil::builder().chain_id(1).spawn().await.unwrap();
    let code = quittance_testkit::contracts::artifact("Multicall3").unwrap().deployed_bytecode;
    for lack in crate::stage::LACKS {
        stage.lack(lack).await;
        if lack != Lack::Multicall {
            elsewhere.set_code(quittance_testkit::dev_chain::MULTICALL3, &code).await.unwrap();
        }
        stage.node.set_upstream(elsewhere.url());
        let fault = stage.read(&about(REGISTRY, agent)).await.unwrap_err();
        assert_eq!(fault, RpcFault::WrongChain { expected: CHAIN_ID, actual: 1 }, "{lack:?}");
        stage.node.set_upstream(stage.anvil.url());
    }
}
