//! `/readyz` and `/supported` with several networks.

use crate::support::{BINARY, Endpoint, config, network, online::Online, shape};
use alloy_primitives::U256;
use quittance_testkit::{
    Anvil, PaymentBuilder, X402Version, dev_address,
    harness::{Fault, NetworkConfig, QuittanceProcess, RpcProxy, Rule, free_port, process::Wait},
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The server runs with what there is, and says which network is missing.
#[tokio::test]
async fn the_network_that_is_not_there_is_named() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let nowhere = format!("http://127.0.0.1:{}/SECRETKEYMARKER", free_port().unwrap());
    let config = config(network(anvil.url()))
        .network(NetworkConfig::new(8453).rpc_url(nowhere).dev_signer(1))
        .network(NetworkConfig::new(31337).rpc_url(anvil.url()).dev_signer(2));
    let server = QuittanceProcess::start_until(BINARY, config, Wait::Healthy).await.unwrap();
    let client = server.client().unwrap();
    let ready = client.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert!(ready.retry_after_seconds().is_some_and(|seconds| seconds > 0), "{:?}", ready.headers);
    let reasons = ready.json["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 2, "{}", ready.text);
    assert!(reasons.iter().any(|reason| reason.as_str().unwrap().contains("eip155:8453")), "{}", ready.text);
    // That node is of another chain.
    let wrong = reasons.iter().find(|reason| reason.as_str().unwrap().contains("eip155:31337")).unwrap();
    assert!(wrong.as_str().unwrap().contains("84532"), "{wrong}");
    assert!(!ready.text.contains("SECRETKEYMARKER") && !ready.text.contains("127.0.0.1"), "{}", ready.text);
    assert_eq!(client.get("/healthz").await.unwrap().json, json!({"status": "ok"}));

    let supported = client.get("/supported").await.unwrap().json;
    let kinds = supported["kinds"].as_array().unwrap();
    let kind =
        |version: u8, network: &str| json!({"x402Version": version, "scheme": "exact", "network": network});
    // A chain without a name in version 1 is served in version 2 alone.
    for expected in [
        kind(2, "eip155:84532"),
        kind(1, "base-sepolia"),
        kind(2, "eip155:8453"),
        kind(1, "base"),
        kind(2, "eip155:31337"),
    ] {
        assert!(kinds.contains(&expected), "{expected} in {supported}");
    }
    assert_eq!(kinds.len(), 5, "{supported}");
    assert!(supported["extensions"].is_array() && supported["signers"]["eip155:*"].is_array(), "{supported}");
    shape::no_nulls(&supported, "supported");
}

/// Without gas money payments can be judged and not settled, and that is nobody's fault but ours. Ready means that there is
/// enough for a settlement, not that there is some.
#[tokio::test]
async fn a_signer_without_gas_money_is_no_verdict() {
    let bench = Online::start().await;
    let signer = dev_address(0);
    // The last is what the gas of half a transfer costs at the least, on a chain whose tip is one gwei.
    for wei in [0, 1, 40_000 * 1_000_000_000_u64] {
        bench.anvil.set_balance(signer, U256::from(wei)).await.unwrap();
        let answer = bench.client.get("/readyz").await.unwrap();
        assert_eq!(answer.status, 503, "{wei} wei: {}", answer.text);
        assert!(answer.text.contains("eip155:84532: no signer can pay"), "{}", answer.text);
        for version in [X402Version::V1, X402Version::V2] {
            let payment = bench.payment(version).await.sign();
            let answer = bench.post(Endpoint::Settle, &payment).await;
            bench.is_undecided(Endpoint::Settle, &answer, &payment, "no gas money");
        }
    }
    assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 0);
    // Ready as soon as there is enough: then it does settle.
    let (mut poor, mut rich) = (0_u128, 10_u128.pow(18));
    while rich - poor > 10_u128.pow(12) {
        let wei = poor.midpoint(rich);
        bench.anvil.set_balance(signer, U256::from(wei)).await.unwrap();
        match bench.client.get("/readyz").await.unwrap().status {
            200 => rich = wei,
            _ => poor = wei,
        }
    }
    bench.anvil.set_balance(signer, U256::from(rich)).await.unwrap();
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 200);
    let payment = bench.payment(X402Version::V2).await.sign();
    bench.accepted(&payment, "with just enough gas money").await;
}

/// The operator's bound on what a settlement may cost.
#[tokio::test]
async fn fees_above_the_cap_are_no_verdict() {
    let cap = |config: quittance_testkit::harness::ConfigBuilder| {
        config.set("policy.fee_per_settlement_wei_max", json!("1"))
    };
    let bench = Online::start_with(cap, Wait::Ready).await;
    let payment = bench.payment(X402Version::V2).await.sign();
    // What could not be settled at this moment is not promised either.
    for endpoint in [Endpoint::Verify, Endpoint::Settle] {
        let answer = bench.post(endpoint, &payment).await;
        bench.is_undecided(endpoint, &answer, &payment, "dear");
    }
    assert!(bench.rows(&payment).await.is_empty());
    assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 0);
}

/// What `/verify` says when it only looks.
#[tokio::test]
async fn verify_without_reserving_only_looks() {
    let look = |config: quittance_testkit::harness::ConfigBuilder| {
        config.set("replay.reserve_on_verify", json!(false))
    };
    let bench = Online::start_with(look, Wait::Ready).await;
    for version in [X402Version::V1, X402Version::V2] {
        let payment = bench.payment(version).await.sign();
        for _ in 0..3 {
            shape::valid(&bench.post(Endpoint::Verify, &payment).await, payment.payer(), "looking");
            assert!(bench.rows(&payment).await.is_empty());
        }
        bench.settles(&payment, "then settled").await;
        let again = bench.post(Endpoint::Verify, &payment).await;
        assert_eq!(again.json["invalidReason"], "invalid_exact_evm_nonce_already_used", "{}", again.text);
    }
}

/// The operator's bound on how far ahead an authorization may be valid.
#[tokio::test]
async fn an_authorization_that_lives_too_long_is_refused() {
    let bound = |config: quittance_testkit::harness::ConfigBuilder| {
        config
            .set("policy.authorization_lifetime_seconds_max", json!(600))
            .set("policy.validity_margin_seconds", json!(30))
    };
    let bench = Online::start_with(bound, Wait::Ready).await;
    let now = quittance_testkit::unix_now();
    let code = "invalid_exact_evm_payload_authorization_valid_before";
    for version in [X402Version::V1, X402Version::V2] {
        for (seconds, accepted) in [(20, false), (60, true), (550, true), (700, false), (1 << 40, false)] {
            let payment = bench.payment(version).await.valid_before(now + seconds).sign();
            let case = format!("{seconds} s");
            if accepted {
                bench.accepted(&payment, &case).await;
            } else {
                bench.refused(&payment, code, &case).await;
            }
        }
    }
}

/// One network's node hangs from the start on; the others are served as if it were not there.
#[tokio::test]
async fn a_network_that_hangs_keeps_no_other_waiting() {
    let bench = Online::start().await;
    let silent = RpcProxy::start(bench.anvil.url()).await.unwrap();
    silent.add(Rule::any().then(Fault::Hang));
    let both = config(network(bench.proxy.url()).confirmations(1))
        .network(NetworkConfig::new(8453).rpc_url(silent.url()).dev_signer(1));
    let started = Instant::now();
    let server = QuittanceProcess::start_until(BINARY, both, Wait::Healthy).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    let client = server.client().unwrap();
    let elsewhere = PaymentBuilder::new(8453, bench.chain.token).sign();
    let hanging = Endpoint::Settle.post(&client, elsewhere.body());
    let served = async {
        let started = Instant::now();
        for version in [X402Version::V1, X402Version::V2] {
            let payment = bench.payment(version).await.sign();
            let valid = Endpoint::Verify.post(&client, payment.body()).await;
            shape::valid(&valid, payment.payer(), "beside a network that hangs");
            let settled = Endpoint::Settle.post(&client, payment.body()).await;
            shape::settled(
                &settled,
                payment.payer(),
                payment.network(),
                "10000",
                "beside a network that hangs",
            );
        }
        assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    };
    let (answer, ()) = tokio::join!(hanging, served);
    let (network, payer) = (elsewhere.network(), Some(elsewhere.payer()));
    shape::No { status: 503, code: "unexpected_settle_error", network, payer }.check(
        Endpoint::Settle,
        &answer,
        "hangs",
    );
}
