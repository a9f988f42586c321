//! Every fault the proxy can inject, seen from a client.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::Duration;

use alloy::primitives::keccak256;
use quittance_testkit::{
    Anvil, RpcClient, RpcError, dev_address,
    harness::{Fault, RpcProxy, Rule, SECRET_MARKER},
};
use serde_json::{Value, json};

struct Bench {
    anvil: Anvil,
    proxy: RpcProxy,
    client: RpcClient,
}

async fn bench() -> Bench {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let proxy = RpcProxy::start(anvil.url()).await.unwrap();
    let client = RpcClient::new(proxy.url()).unwrap();
    Bench { anvil, proxy, client }
}

impl Bench {
    async fn number(&self) -> anyhow::Result<u64> {
        self.client.block_number().await
    }

    /// Sends one wei; what a lost or held answer must not undo.
    fn pay(&self) -> impl Future<Output = anyhow::Result<Value>> + Send + 'static {
        let client = self.client.clone();
        let transaction = json!([{"from": dev_address(0), "to": dev_address(1), "value": "0x1"}]);
        async move { client.call("eth_sendTransaction", transaction).await }
    }

    async fn paid(&self) -> u64 {
        self.anvil.nonce(dev_address(0), true).await.unwrap()
    }
}

async fn batch(url: &str, methods: &[&str]) -> Value {
    let calls: Vec<Value> = methods
        .iter()
        .enumerate()
        .map(|(id, method)| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": []}))
        .collect();
    let response = reqwest::Client::new().post(url).json(&calls).send().await.unwrap();
    response.json().await.unwrap()
}

#[tokio::test]
async fn counts_requests_and_calls() {
    let bench = bench().await;
    bench.number().await.unwrap();
    bench.client.chain_id().await.unwrap();
    let answers = batch(&bench.proxy.url(), &["eth_chainId", "eth_blockNumber", "eth_chainId"]).await;
    assert_eq!(answers.as_array().unwrap().len(), 3);
    assert_eq!(answers[2], json!({"jsonrpc": "2.0", "id": 2, "result": "0x14a34"}));

    let proxy = &bench.proxy;
    assert_eq!(proxy.http_requests(), 3);
    assert_eq!(
        (proxy.count("eth_chainId"), proxy.count("eth_blockNumber"), proxy.count("eth_call")),
        (3, 2, 0)
    );
    assert_eq!(proxy.count_answered("eth_chainId"), 3);
    let last = proxy.calls_of("eth_chainId").pop().unwrap();
    assert_eq!((last.http_request, last.batch, last.params), (3, true, json!([])));
    proxy.reset_records();
    assert_eq!((proxy.http_requests(), proxy.calls().len()), (0, 0));
}

#[tokio::test]
async fn only_the_secret_path_is_served() {
    let bench = bench().await;
    assert!(bench.proxy.url().ends_with(SECRET_MARKER));
    let other = bench.proxy.url().replace(SECRET_MARKER, "guess");
    let response = reqwest::Client::new().post(other).json(&json!({})).send().await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn errors_and_statuses() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_blockNumber").times(1).then(Fault::error(-32005, "limit exceeded")));
    let error = bench.number().await.unwrap_err();
    let error = error.downcast_ref::<RpcError>().unwrap();
    assert_eq!((error.code, error.message.as_str(), &error.data), (-32005, "limit exceeded", &None));
    bench.number().await.unwrap();

    let rule = bench.proxy.add(Rule::any().then(Fault::HttpStatus(429)));
    assert!(bench.number().await.unwrap_err().to_string().contains("429"));
    assert!(bench.client.chain_id().await.is_err());
    assert_eq!(bench.proxy.hits(rule), 2);
    bench.proxy.remove(rule);
    bench.number().await.unwrap();

    bench.proxy.add(Rule::any().then(Fault::Body("<html>".to_owned())));
    assert!(bench.number().await.unwrap_err().to_string().contains("<html>"));
    bench.proxy.clear();
    bench.number().await.unwrap();
    assert_eq!(bench.proxy.count_answered("eth_blockNumber"), 3, "a fault in front of the node is no answer");
}

#[tokio::test]
async fn rules_choose_their_calls() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_blockNumber").skip(1).times(1).then(Fault::HttpStatus(500)));
    bench
        .proxy
        .add(Rule::any().when(|call| call.params == json!(["marked"])).then(Fault::Answer(json!("met"))));
    assert!(bench.number().await.is_ok());
    assert!(bench.number().await.is_err());
    assert!(bench.number().await.is_ok());
    assert_eq!(bench.client.call("any_method", json!(["marked"])).await.unwrap(), json!("met"));
}

#[tokio::test]
async fn results_can_be_rewritten() {
    let bench = bench().await;
    let add = |text: &'static str| {
        Rule::on("eth_chainId").then(Fault::rewrite(move |result| {
            json!(format!("{}{text}", result.as_str().unwrap_or_default()))
        }))
    };
    bench.proxy.add(add("1"));
    bench.proxy.add(add("2"));
    assert_eq!(bench.client.call("eth_chainId", json!([])).await.unwrap(), json!("0x14a3412"));
}

#[tokio::test]
async fn a_dropped_connection_reaches_no_node() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_sendTransaction").times(1).then(Fault::Drop));
    let error = bench.pay().await.unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error:#}");
    assert_eq!(bench.paid().await, 0);
    bench.pay().await.unwrap();
    assert_eq!(bench.paid().await, 1);
}

#[tokio::test]
async fn a_lost_answer_is_work_done() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_sendTransaction").times(1).then(Fault::lost_answer()));
    assert!(bench.pay().await.is_err());
    assert_eq!(bench.paid().await, 1);
    let after = Fault::ForwardThen(Box::new(Fault::error(-32000, "already known")));
    bench.proxy.add(Rule::on("eth_sendTransaction").times(1).then(after));
    assert!(bench.pay().await.unwrap_err().downcast_ref::<RpcError>().is_some());
    assert_eq!(bench.paid().await, 2);
}

#[tokio::test]
async fn a_call_hangs_until_released() {
    let bench = bench().await;
    let rule = bench.proxy.add(Rule::on("eth_sendTransaction").times(1).then(Fault::Hang));
    let paying = tokio::spawn(bench.pay());
    bench.proxy.wait_for("eth_sendTransaction", 1).await.unwrap();
    assert_eq!((bench.paid().await, bench.proxy.hits(rule)), (0, 1));
    assert!(!paying.is_finished());
    bench.proxy.release();
    paying.await.unwrap().unwrap();
    assert_eq!(bench.paid().await, 1);
}

#[tokio::test]
async fn an_answer_is_held_until_released() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_sendTransaction").times(1).then(Fault::held_answer()));
    let paying = tokio::spawn(bench.pay());
    bench.proxy.wait_answered("eth_sendTransaction", 1).await.unwrap();
    assert_eq!(bench.paid().await, 1);
    assert!(!paying.is_finished());
    bench.proxy.clear();
    assert!(paying.await.unwrap().unwrap().is_string());
}

#[tokio::test]
async fn a_swallowed_transaction_has_its_hash() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_sendRawTransaction").times(1).then(Fault::Swallow));
    let hash = bench.client.call("eth_sendRawTransaction", json!(["0x02c0ffee"])).await.unwrap();
    assert_eq!(hash, json!(keccak256([0x02, 0xc0, 0xff, 0xee])));
    // The next one reaches the node, which sees that it is no transaction.
    assert!(bench.client.call("eth_sendRawTransaction", json!(["0x02c0ffee"])).await.is_err());
    assert_eq!(bench.proxy.count_answered("eth_sendRawTransaction"), 1);
}

#[tokio::test]
async fn a_delay_delays() {
    let bench = bench().await;
    let delay = Duration::from_millis(200);
    bench.proxy.add(Rule::on("eth_blockNumber").times(1).then(Fault::Delay(delay)));
    let start = tokio::time::Instant::now();
    bench.number().await.unwrap();
    assert!(start.elapsed() >= delay);
}

#[tokio::test]
async fn faults_in_a_batch() {
    let bench = bench().await;
    bench.proxy.add(Rule::on("eth_blockNumber").times(1).then(Fault::error(-32000, "not now")));
    let answers = batch(&bench.proxy.url(), &["eth_chainId", "eth_blockNumber", "net_version"]).await;
    assert_eq!(answers[0]["result"], "0x14a34");
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["message"]), (&json!(1), &json!("not now")));
    assert_eq!(answers[2]["result"], "84532");
    assert_eq!((bench.proxy.count("eth_blockNumber"), bench.proxy.count_answered("eth_blockNumber")), (1, 0));
}

#[tokio::test]
async fn down_cuts_what_is_open_and_refuses_what_is_new() {
    let bench = bench().await;
    bench.number().await.unwrap();
    bench.proxy.add(Rule::on("eth_chainId").then(Fault::Hang));
    let client = bench.client.clone();
    let hanging = tokio::spawn(async move { client.chain_id().await });
    bench.proxy.wait_for("eth_chainId", 1).await.unwrap();
    bench.proxy.down(true);
    assert!(hanging.await.unwrap().is_err());
    assert!(bench.number().await.is_err());
    assert!(RpcClient::new(bench.proxy.url()).unwrap().block_number().await.is_err());
    bench.proxy.down(false);
    bench.number().await.unwrap();
    assert_eq!(bench.proxy.count("eth_blockNumber"), 2, "nothing is counted while down");
}

#[tokio::test]
async fn a_node_that_is_gone_is_a_bad_gateway() {
    let mut bench = bench().await;
    bench.anvil.kill();
    assert!(bench.number().await.unwrap_err().to_string().contains("502"));
    let other = Anvil::builder().chain_id(10).spawn().await.unwrap();
    bench.proxy.set_upstream(other.url());
    assert_eq!(bench.client.chain_id().await.unwrap(), 10);
    let client = bench.client.clone();
    drop(bench);
    assert!(client.chain_id().await.is_err());
}
