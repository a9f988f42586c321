//! A registry's node that takes no block hashes, runs no creation code, or has no Multicall3: the same outcomes.

use crate::{
    agents::{registry_id, set_wallet},
    stage::{CHAIN_ID, Stage, THIEF, TREASURY, said},
};
use alloy_primitives::{Bytes, U256};
use quittance_testkit::{
    dev_address,
    harness::{Fault, Rule, proxy::Call},
};
use serde_json::{Value, json};

/// What the node lacks, and what one check asks of it once that is known: calls, code, headers, chain ids.
#[derive(Clone, Copy, Debug)]
enum Node {
    Whole,
    NoHashes,
    NoCreationCode,
    NoMulticall,
}

impl Node {
    async fn at(self, stage: &Stage) {
        let refuse = |calls: fn(&Call) -> bool| {
            stage.registry.add(Rule::on("eth_call").when(calls).then(Fault::error(-32602, "not supported")));
        };
        if !matches!(self, Self::Whole) {
            refuse(|call| call.params[1].is_object());
        }
        if matches!(self, Self::NoCreationCode | Self::NoMulticall) {
            refuse(|call| call.params[0].get("to").is_none());
        }
        if matches!(self, Self::NoMulticall) {
            stage.set_code(stage.chain.multicall3, &Bytes::new()).await;
        }
    }

    /// The header that is read at, and then these.
    fn costs(self) -> [u64; 4] {
        match self {
            Self::Whole => [1, 0, 1, 0],
            Self::NoHashes => [1, 0, 2, 0],
            Self::NoCreationCode => [1, 1, 2, 0],
            Self::NoMulticall => [3, 1, 2, 1],
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_node_lacks_the_outcomes_are_the_same() {
    for node in [Node::Whole, Node::NoHashes, Node::NoCreationCode, Node::NoMulticall] {
        let stage = Stage::start("report").await;
        node.at(&stage).await;
        let agent = stage.agent().await;
        let long = format!(
            "data:application/json,{}{}",
            crate::agents::file_of(&[crate::stage::RESOURCE]),
            " ".repeat(20_000)
        );
        let long = stage.agent_with(&long).await;
        let mut contract = stage.agent().await;
        let owner = 5;
        contract.wallet = stage.chain.deploy_wallet1271(dev_address(owner)).await.unwrap();
        set_wallet(&stage.chain, contract.id, contract.wallet, owner).await;
        contract.key = owner;
        let mut forged = contract;
        forged.key = 6;
        let mut nobody = agent.requirement(agent.wallet, Value::Null);
        nobody["extra"]["erc8004"] = json!({ "registry": registry_id(CHAIN_ID), "agentId": "999" });
        for (requirement, expected) in [
            (agent.requirement(agent.wallet, Value::Null), ("verified-wallet", "")),
            (agent.requirement_on("eip155:1", agent.wallet, Value::Null), ("verified-wallet", "")),
            (agent.requirement(TREASURY, agent.delegation_to(TREASURY)), ("verified-delegation", "")),
            (agent.requirement(THIEF, Value::Null), ("mismatch", "")),
            (long.requirement(long.wallet, Value::Null), ("verified-wallet", "")),
            (contract.requirement(TREASURY, contract.delegation_to(TREASURY)), ("verified-delegation", "")),
            (
                contract.requirement(TREASURY, forged.delegation_to(TREASURY)),
                ("invalid-delegation", "signature"),
            ),
            (contract.requirement_on("eip155:1", contract.wallet, Value::Null), ("mismatch", "")),
            (nobody, ("not-read", "registry")),
        ] {
            let answer = stage.check(requirement).await;
            assert_eq!(said(&answer), expected, "{node:?}: {answer}");
        }
        // What the node lacks is known by now; nobody has to find out again at the next block.
        stage.chain.mint(stage.chain.token, THIEF, U256::from(1)).await.unwrap();
        stage.registry.reset_records();
        assert_eq!(said(&stage.check(agent.requirement(THIEF, Value::Null)).await).0, "mismatch");
        let asked = ["eth_call", "eth_getCode", "eth_getBlockByNumber", "eth_chainId"];
        assert_eq!(asked.map(|method| stage.registry.count(method)), node.costs(), "{node:?}");
        assert_eq!(stage.registry.http_requests(), node.costs().iter().sum::<u64>(), "{node:?}");
    }
}

/// By number it only counts if the number's block is still the same afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_replaced_meanwhile_was_not_read() {
    for node in [Node::NoHashes, Node::NoCreationCode, Node::NoMulticall] {
        let stage = Stage::start("refuse-mismatch").await;
        node.at(&stage).await;
        let agent = stage.agent().await;
        let replaced = Fault::rewrite(|mut block| {
            block["hash"] = json!(format!("0x{}", "ab".repeat(32)));
            block
        });
        let by_number = |call: &Call| call.params[0] != "latest";
        let rule = stage.registry.add(Rule::on("eth_getBlockByNumber").when(by_number).then(replaced));
        let payment = stage.payment(agent.named(Value::Null), THIEF).await;
        let verified = stage.verify(&payment).await;
        assert_eq!(verified["isValid"], true, "{node:?}: {verified}");
        assert_eq!(said(&verified["extra"]["payee"]), ("not-read", "registry"), "{node:?}");
        stage.registry.remove(rule);
        let payment = stage.payment(agent.named(Value::Null), THIEF).await;
        assert_eq!(stage.verify(&payment).await["invalidReason"], "erc8004_payee_mismatch", "{node:?}");
    }
}

/// A contract wallet that cannot be asked is no wallet that has said no; and what is not needed is not missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_needed_and_unread_counts() {
    let stage = Stage::start("report").await;
    Node::NoCreationCode.at(&stage).await;
    let mut contract = stage.agent().await;
    let owner = 5;
    contract.wallet = stage.chain.deploy_wallet1271(dev_address(owner)).await.unwrap();
    set_wallet(&stage.chain, contract.id, contract.wallet, owner).await;
    contract.key = owner;
    let wallet = contract.wallet;
    let delegated = contract.requirement(TREASURY, contract.delegation_to(TREASURY));
    for fault in [Fault::error(-32005, "limit exceeded"), Fault::HttpStatus(502), Fault::Drop] {
        let is_wallet = move |call: &Call| call.params[0]["to"] == json!(wallet);
        let rule = stage.registry.add(Rule::on("eth_call").when(is_wallet).then(fault.clone()));
        assert_eq!(said(&stage.check(delegated.clone()).await), ("not-read", "signature"));
        stage.registry.remove(rule);
        let rule = stage.registry.add(Rule::on("eth_getCode").then(fault));
        let elsewhere = contract.requirement_on("eip155:1", wallet, Value::Null);
        assert_eq!(said(&stage.check(elsewhere).await), ("not-read", "code"));
        assert_eq!(
            said(&stage.check(contract.requirement(wallet, Value::Null)).await),
            ("verified-wallet", "")
        );
        stage.registry.remove(rule);
    }
    assert_eq!(said(&stage.check(delegated).await), ("verified-delegation", ""));
}
