//! What the check of a payment costs: requests, and whether anybody waits for them.

use crate::{
    files::Page,
    stage::{Agent, Stage, said},
};
use quittance_testkit::harness::{Fault, RpcProxy, Rule};
use serde_json::{Value, json};

const HEADER: &str = "eth_getBlockByNumber";

fn methods(node: &RpcProxy) -> Vec<String> {
    node.calls().into_iter().map(|call| call.method).collect()
}

/// Verifies one payment, and says what was asked of the payment's node and of the registry's.
async fn asked_for_one(stage: &Stage, agent: &Agent) -> (Vec<String>, Vec<String>) {
    let payment = stage.payment(agent.named(Value::Null), agent.wallet).await;
    stage.proxy.reset_records();
    stage.registry.reset_records();
    let verified = stage.verify(&payment).await;
    assert_eq!(verified["isValid"], true, "{verified}");
    if let Some(payee) = verified["extra"].get("payee") {
        assert_eq!(said(payee), ("verified-wallet", ""));
    }
    let asked = (methods(&stage.proxy), methods(&stage.registry));
    // Each in a request of its own.
    for (node, asked) in [(&stage.proxy, &asked.0), (&stage.registry, &asked.1)] {
        assert_eq!(node.http_requests(), u64::try_from(asked.len()).unwrap());
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_with_everything_at_hand_adds_no_round_trip() {
    // At the latest block, which has to be looked for each time.
    let stage = Stage::start("report").await;
    let agent = stage.agent().await;
    let facts = vec!["eth_call".to_owned()];
    let (own, registry) = asked_for_one(&stage, &agent).await;
    assert_eq!(
        (&own, registry),
        (&facts, vec!["web3_clientVersion".into(), HEADER.into(), "eth_call".into()])
    );
    assert_eq!(asked_for_one(&stage, &agent).await, (facts.clone(), vec![HEADER.to_owned()]));
    assert_eq!(stage.files.hits("/agent.json"), 1);

    // And that look is beside the payment's own question: both are there before either is answered.
    let payment = stage.payment(agent.named(Value::Null), agent.wallet).await;
    stage.proxy.reset_records();
    stage.registry.reset_records();
    stage.proxy.add(Rule::on("eth_call").then(Fault::Hang));
    stage.registry.add(Rule::on(HEADER).then(Fault::Hang));
    let both_wait = async {
        stage.proxy.wait_for("eth_call", 1).await.unwrap();
        stage.registry.wait_for(HEADER, 1).await.unwrap();
        assert_eq!((stage.proxy.count_answered("eth_call"), stage.registry.count_answered(HEADER)), (0, 0));
        stage.proxy.clear();
        stage.registry.clear();
    };
    let (verified, ()) = futures::future::join(stage.verify(&payment), both_wait).await;
    assert_eq!(said(&verified["extra"]["payee"]), ("verified-wallet", ""), "{verified}");
    assert_eq!((stage.proxy.http_requests(), stage.registry.http_requests()), (1, 1));

    // A file that is fetched anew is fetched beside the payment's facts as well.
    let slow = stage
        .agent_with(
            &stage.files.put("/fresh", Page::NoStore(crate::agents::file_of(&[crate::stage::RESOURCE]))),
        )
        .await;
    let payment = stage.payment(slow.named(Value::Null), slow.wallet).await;
    stage.proxy.reset_records();
    stage.proxy.add(Rule::on("eth_call").then(Fault::Hang));
    let fetched = async {
        stage.files.wait_for("/fresh", 1).await;
        assert_eq!(stage.proxy.count_answered("eth_call"), 0);
        stage.proxy.clear();
    };
    let (verified, ()) = futures::future::join(stage.verify(&payment), fetched).await;
    assert_eq!(said(&verified["extra"]["payee"]), ("verified-wallet", ""), "{verified}");
}

/// Where one block is read at for a while, as it is outside of tests, nothing is asked at all: as with the mode off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_at_a_known_block_asks_nothing() {
    let mut asked = Vec::new();
    for mode in ["report", "off"] {
        let stage = Stage::start_with(mode, |config| {
            config.set("payee.registry_allow_private_hosts", json!(true)).extra("block = \"latest-1\"")
        })
        .await;
        let agent = stage.agent().await;
        // What is registered in the newest block is not read yet.
        stage
            .chain
            .mint(stage.chain.token, crate::stage::THIEF, alloy_primitives::U256::from(1))
            .await
            .unwrap();
        if mode == "report" {
            let (own, registry) = asked_for_one(&stage, &agent).await;
            assert_eq!((own.len(), registry), (1, vec![HEADER.into(), HEADER.into(), "eth_call".into()]));
        }
        asked.push(asked_for_one(&stage, &agent).await);
    }
    assert_eq!(asked[0], (vec!["eth_call".to_owned()], Vec::new()));
    assert_eq!(asked[0], asked[1]);
}
