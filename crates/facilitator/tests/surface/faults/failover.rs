//! Two endpoints, the first of which fails.

use crate::support::{BINARY, CHAIN_ID, Endpoint, config, network, shape};
use alloy_primitives::U256;
use quittance_testkit::{
    Anvil, DevChain, Facilitator, X402Version, dev_address,
    harness::{Fault, QuittanceProcess, RpcProxy, Rule, free_port, process::Wait},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

struct Pair {
    anvil: Anvil,
    chain: DevChain,
    first: RpcProxy,
    second: RpcProxy,
    client: Facilitator,
    _server: QuittanceProcess,
}

impl Pair {
    async fn start() -> Self {
        let anvil = Anvil::builder().spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        chain.mint(chain.token, dev_address(2), U256::from(1_000_000)).await.unwrap();
        let first = RpcProxy::start(anvil.url()).await.unwrap();
        let second = RpcProxy::start(anvil.url()).await.unwrap();
        let config = config(network(first.url()).rpc_url(second.url()));
        let server = QuittanceProcess::start(BINARY, config).await.unwrap();
        let client = server.client().unwrap();
        Self { anvil, chain, first, second, client, _server: server }
    }

    async fn pays(&self, case: &str) {
        for version in [X402Version::V1, X402Version::V2] {
            let payment = self.chain.payment().await.unwrap().version(version).sign();
            let valid = Endpoint::Verify.post(&self.client, payment.body()).await;
            shape::valid(&valid, payment.payer(), case);
            let settled = Endpoint::Settle.post(&self.client, payment.body()).await;
            shape::settled(&settled, payment.payer(), payment.network(), "10000", case);
        }
    }
}

#[tokio::test]
async fn the_second_answers_when_the_first_fails() {
    let pair = Pair::start().await;
    pair.second.reset_records();
    pair.pays("both are there").await;
    let asked = ["eth_call", "eth_sendRawTransaction"].map(|method| pair.second.count(method));
    assert_eq!(asked, [0, 0], "the first is preferred; the second is only looked at");
    let other = Anvil::builder().chain_id(1).spawn().await.unwrap();
    for (case, fault) in [
        ("500", Fault::HttpStatus(500)),
        ("429", Fault::HttpStatus(429)),
        ("a page", Fault::Body("<html>".to_owned())),
        ("nothing", Fault::Body(String::new())),
        ("cut", Fault::Drop),
        ("an error", Fault::error(-32005, "limit exceeded")),
        ("a revert", Fault::error(3, "execution reverted")),
        ("null", Fault::Answer(Value::Null)),
        ("0x", Fault::Answer(json!("0x"))),
        ("a word", Fault::Answer(json!(format!("0x{}", "0".repeat(64))))),
        (
            "half the bytes",
            Fault::rewrite(|result| match result.as_str() {
                Some(text) => json!(&text[..text.len() / 4 * 2]),
                None => Value::Null,
            }),
        ),
    ] {
        // A receipt that is null is an answer: not mined yet.
        pair.first.add(Rule::any().when(|call| call.method != "eth_getTransactionReceipt").then(fault));
        pair.pays(case).await;
        pair.first.clear();
    }
    pair.first.down(true);
    pair.pays("down").await;
    pair.first.down(false);
    pair.first.set_upstream(other.url());
    // Only looked at: a node of another chain truthfully knows no receipt of this one's transactions.
    let payment = pair.chain.payment().await.unwrap().sign();
    let valid = Endpoint::Verify.post(&pair.client, payment.body()).await;
    shape::valid(&valid, payment.payer(), "another chain");
    pair.first.set_upstream(pair.anvil.url());
    pair.second.down(true);
    pair.pays("the first is back").await;
}

#[tokio::test]
async fn a_first_that_hangs_costs_one_wait_and_no_verdict() {
    let pair = Pair::start().await;
    pair.first.add(Rule::any().then(Fault::Hang));
    let started = Instant::now();
    pair.pays("hanging").await;
    assert!(started.elapsed() < Duration::from_secs(28), "{:?}", started.elapsed());
}

/// A port nobody listens on, as after a typing error.
#[tokio::test]
async fn a_first_that_never_was_is_passed_over() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    chain.mint(chain.token, dev_address(2), U256::from(1_000_000)).await.unwrap();
    let nowhere = format!("http://127.0.0.1:{}/", free_port().unwrap());
    let alone =
        QuittanceProcess::start_until(BINARY, config(network(nowhere.clone())), Wait::Healthy).await.unwrap();
    let payment = chain.payment().await.unwrap().sign();
    for endpoint in Endpoint::BOTH {
        let answer = endpoint.post(&alone.client().unwrap(), payment.body()).await;
        let (network, payer) = (payment.network(), Some(payment.payer()));
        shape::No { status: 503, code: endpoint.unexpected(), network, payer }.check(
            endpoint,
            &answer,
            "nobody there",
        );
    }
    let ready = alone.client().unwrap().get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503);
    assert!(ready.text.contains(&format!("eip155:{CHAIN_ID}")), "{}", ready.text);

    let server =
        QuittanceProcess::start(BINARY, config(network(nowhere).rpc_url(anvil.url()))).await.unwrap();
    let settled = Endpoint::Settle.post(&server.client().unwrap(), payment.body()).await;
    shape::settled(&settled, payment.payer(), payment.network(), "10000", "the second");
}
