//! The process runner, with a stand-in for the server: a script that behaves as told by its environment.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::{fs, time::Duration};

use quittance_testkit::{
    Facilitator,
    dev_accounts::dev_key,
    dev_address,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, process::Wait},
};
use serde_json::json;

/// Answers every request with 200 on the port the configuration names; obeys SIGTERM after writing a line.
const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-in-server");

fn config() -> ConfigBuilder {
    ConfigBuilder::new()
        .unwrap()
        .network(NetworkConfig::new(84532).rpc_url("http://127.0.0.1:1/").dev_signer(3))
}

#[test]
fn the_file_has_every_key_once() {
    let network = NetworkConfig::new(84532)
        .rpc_url("http://127.0.0.1:1/\"quoted\"")
        .rpc_url_from_env("RPC_2", "http://127.0.0.1:2")
        .dev_signer(0)
        .wallet_factory(dev_address(1))
        .confirmations(3)
        .set("v1_name", json!(""));
    let config = ConfigBuilder::new()
        .unwrap()
        .store_url("postgres://quittance@127.0.0.1:5432/test_0")
        .wait_seconds(2)
        .wait_seconds(3)
        .set("server.public", json!(true))
        .unset("server.operator_listen")
        .network(network)
        .extra("[[payee.registries]]")
        .env("MORE", "1");
    let expected = format!(
        r#"server.listen = "{}"
server.public = true
settle.wait_seconds = 3
store.url = "postgres://quittance@127.0.0.1:5432/test_0"

[[networks]]
confirmations = 3
id = "eip155:84532"
rpc_urls = ["http://127.0.0.1:1/\"quoted\"","env:RPC_2"]
signers = ["env:DEV_SIGNER_0"]
v1_name = ""
wallet_factories = ["0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]

[[payee.registries]]
"#,
        config.base_url().trim_start_matches("http://")
    );
    assert_eq!(config.toml(), expected);
    let environment = config.environment();
    assert_eq!(environment["DEV_SIGNER_0"], dev_key(0));
    assert_eq!((environment["RPC_2"].as_str(), environment["MORE"].as_str()), ("http://127.0.0.1:2", "1"));
}

#[tokio::test]
async fn starts_stops_and_starts_again_in_the_same_place() {
    let mut server = QuittanceProcess::start(STAND_IN, config()).await.unwrap();
    let client = server.client().unwrap();
    assert_eq!(client.get("/healthz").await.unwrap().status, 200);
    // The length alone: a log shows no key, not even a public one.
    assert!(server.log_text().contains(&format!("signer of {} characters", dev_key(3).len())));
    assert!(server.log_text().contains("tool undefined"), "settings of the test run are not the server's");

    assert!(server.sigterm().await.unwrap().success());
    assert!(server.log_text().contains("stopping in good order"));
    assert!(client.get("/healthz").await.is_err());
    server.restart(Wait::Ready).await.unwrap();
    server.kill9();
    assert!(client.get("/healthz").await.is_err());
    server.restart(Wait::Healthy).await.unwrap();
    assert_eq!(fs::read_to_string(server.dir().join("starts")).unwrap(), "xxx");
    assert!(server.log_text().contains("--- start 3 ---"));

    drop(server);
    assert!(client.get("/healthz").await.is_err());
}

#[tokio::test]
async fn a_server_that_refuses_says_why() {
    let refusing = config().env("REFUSE", "1");
    let error = QuittanceProcess::start(STAND_IN, refusing.clone()).await.unwrap_err().to_string();
    assert!(error.contains("server.listen: not allowed"), "{error}");
    let mut server = QuittanceProcess::start_until(STAND_IN, refusing, Wait::Nothing).await.unwrap();
    assert_eq!(server.exit(Duration::from_secs(30)).await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn health_can_be_enough() {
    let server = QuittanceProcess::start_until(STAND_IN, config().env("SICK", "/readyz"), Wait::Healthy)
        .await
        .unwrap();
    let answer = Facilitator::new(server.base_url()).unwrap().get("/readyz").await.unwrap();
    assert_eq!(answer.status, 503);
}
