//! A registry's node that fails: never a verdict about the payee, and never the payment's fault.

use crate::stage::{Stage, THIEF, said};
use quittance_testkit::harness::{Fault, Rule};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_node_reads_as_not_read() {
    let stage = Stage::start("refuse-mismatch").await;
    let agent = stage.agent().await;
    let word = |last: &str| json!(format!("0x{last:0>64}"));
    for (what, rule) in [
        ("no header", Rule::on("eth_getBlockByNumber").then(Fault::error(-32603, "internal"))),
        ("no block", Rule::on("eth_getBlockByNumber").then(Fault::Answer(Value::Null))),
        ("no call", Rule::on("eth_call").then(Fault::error(-32603, "internal"))),
        ("an outage", Rule::any().then(Fault::HttpStatus(503))),
        ("a broken line", Rule::any().then(Fault::Drop)),
        ("rubbish", Rule::any().then(Fault::Body("<html>".into()))),
        ("nothing", Rule::on("eth_call").then(Fault::Answer(json!("0x")))),
        ("a word", Rule::on("eth_call").then(Fault::Answer(word("1")))),
        ("96 bytes", Rule::on("eth_call").then(Fault::Answer(json!(format!("0x{}", "00".repeat(96)))))),
    ] {
        let rule = stage.registry.add(rule);
        // The thief's payment is refused when the registry is read.
        let payment = stage.payment(agent.named(Value::Null), THIEF).await;
        let verified = stage.verify(&payment).await;
        assert_eq!(verified["isValid"], true, "{what}: {verified}");
        let payee = &verified["extra"]["payee"];
        let read = if what == "a word" { "file" } else { "registry" };
        assert_eq!(said(payee), ("not-read", read), "{what}: {verified}");
        stage.registry.remove(rule);
    }
    let payment = stage.payment(agent.named(Value::Null), THIEF).await;
    assert_eq!(said(&stage.verify(&payment).await["extra"]["payee"]).0, "mismatch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_costs_eight_seconds_and_no_verdict() {
    let stage = Stage::start("refuse-mismatch").await;
    let agent = stage.agent().await;
    stage.registry.add(Rule::any().then(Fault::Hang));
    let payment = stage.payment(agent.named(Value::Null), THIEF).await;
    let verified = tokio::time::timeout(Duration::from_secs(20), stage.verify(&payment)).await.unwrap();
    assert_eq!(verified["isValid"], true, "{verified}");
    assert_eq!(said(&verified["extra"]["payee"]), ("not-read", "registry"));
    stage.registry.release();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_without_hashes_or_creation_code_are_asked_otherwise() {
    let stage = Stage::start("report").await;
    let agent = stage.agent().await;
    let by_hash = || {
        let is = |call: &quittance_testkit::harness::proxy::Call| call.params[1].is_object();
        Rule::on("eth_call").when(is).then(Fault::error(-32602, "invalid argument 1"))
    };
    let by_creation = || {
        let is = |call: &quittance_testkit::harness::proxy::Call| call.params[0].get("to").is_none();
        Rule::on("eth_call").when(is).then(Fault::error(-32000, "contract deployment not supported"))
    };
    let answer = async || stage.check(agent.requirement(agent.wallet, Value::Null)).await;

    let rule = stage.registry.add(by_hash());
    assert_eq!(said(&answer().await).0, "verified-wallet");
    stage.registry.remove(rule);
    stage.chain.mint(stage.chain.token, THIEF, alloy_primitives::U256::from(1)).await.unwrap();
    let rule = stage.registry.add(by_creation());
    assert_eq!(said(&answer().await).0, "verified-wallet");
    let unknown = json!({ "registry": crate::agents::registry_id(84532), "agentId": "999" });
    let mut requirement = agent.requirement(agent.wallet, Value::Null);
    requirement["extra"]["erc8004"] = unknown;
    assert_eq!(said(&stage.check(requirement).await), ("not-read", "registry"));

    // By number it only counts if the number's block is still the same afterwards.
    stage.chain.mint(stage.chain.token, THIEF, alloy_primitives::U256::from(1)).await.unwrap();
    let replaced = Fault::rewrite(|mut block| {
        block["hash"] = json!(format!("0x{}", "ab".repeat(32)));
        block
    });
    let by_number = |call: &quittance_testkit::harness::proxy::Call| call.params[0] != "latest";
    stage.registry.add(Rule::on("eth_getBlockByNumber").when(by_number).then(replaced));
    assert_eq!(said(&answer().await), ("not-read", "registry"));
    stage.registry.remove(rule);
}
