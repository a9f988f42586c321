//! A node that is away when the server starts.

use crate::support::{Endpoint, online::Online, shape};
use quittance_testkit::{
    X402Version,
    harness::{Fault, Rule, process::Wait},
};

/// The server starts, says what is missing, and needs no second start once the node is there.
#[tokio::test]
async fn the_server_waits_for_its_node() {
    let mut bench = Online::start_with(|config| config, Wait::Ready).await;
    bench.proxy.down(true);
    bench.server.restart(Wait::Healthy).await.unwrap();
    let ready = bench.client.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503);
    assert!(ready.text.contains("eip155:84532"), "{}", ready.text);
    bench.tells_nothing(&ready, "down at the start");
    let supported = bench.client.get("/supported").await.unwrap();
    assert_eq!((supported.status, supported.json["kinds"].as_array().unwrap().len()), (200, 2));
    let payment = bench.payment(X402Version::V2).await.sign();
    bench.undecided(&payment, "down at the start").await;
    bench.proxy.down(false);
    bench.accepted(&payment, "up").await;
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 200);
}

/// What only settling asks: the tip and the signer's transaction count. Without them nothing is signed.
#[tokio::test]
async fn what_settling_needs_and_nobody_tells_is_no_verdict() {
    for method in ["eth_maxPriorityFeePerGas", "eth_getTransactionCount"] {
        let mut bench = Online::start_with(|config| config, Wait::Ready).await;
        bench.proxy.down(true);
        bench.server.restart(Wait::Healthy).await.unwrap();
        bench.proxy.down(false);
        bench.proxy.add(Rule::on(method).then(Fault::HttpStatus(500)));
        let payment = bench.payment(X402Version::V2).await.sign();
        let answer = bench.post(Endpoint::Settle, &payment).await;
        bench.is_undecided(Endpoint::Settle, &answer, &payment, method);
        assert!(bench.rows(&payment).await.iter().all(|row| row["transaction"] == ""), "{method}");
        assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 0, "{method}");
        bench.proxy.clear();
        bench.settles(&payment, &format!("{method} is told")).await;
    }
}

/// A chain without EIP-1559 knows no tip; that is an answer.
#[tokio::test]
async fn a_node_without_tips_settles() {
    let mut bench = Online::start_with(|config| config, Wait::Ready).await;
    bench
        .proxy
        .add(Rule::on("eth_maxPriorityFeePerGas").then(Fault::error(-32601, "the method does not exist")));
    bench.server.restart(Wait::Ready).await.unwrap();
    let payment = bench.payment(X402Version::V2).await.sign();
    let answer = bench.post(Endpoint::Settle, &payment).await;
    shape::settled(&answer, payment.payer(), payment.network(), "10000", "no tip");
}
