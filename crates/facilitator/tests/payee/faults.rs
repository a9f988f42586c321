//! A registry's node that fails: never a verdict about the payee, and never the payment's fault.

use crate::stage::{Stage, THIEF, said};
use quittance_testkit::harness::{Fault, Rule};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

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
    let started = Instant::now();
    let verified = tokio::time::timeout(Duration::from_secs(20), stage.verify(&payment)).await.unwrap();
    // Two calls would have taken ten.
    assert!(started.elapsed() >= Duration::from_secs(8));
    assert_eq!(verified["isValid"], true, "{verified}");
    let payee = &verified["extra"]["payee"];
    assert_eq!(said(payee), ("not-read", "registry"), "{verified}");
    assert_eq!(payee["reason"], "the registry's chain was not read in time", "{verified}");
    stage.registry.release();
}
