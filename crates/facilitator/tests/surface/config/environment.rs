//! `QUITTANCE_SECTION__KEY` stands above the file.

use super::tables::toml;
use crate::support::{BINARY, cli::Cli, config, network, offline::payment};
use quittance_testkit::{
    X402Version,
    dev_accounts::dev_key,
    harness::{ConfigBuilder, QuittanceProcess, process::Wait},
};
use serde_json::json;

async fn start(config: ConfigBuilder) -> QuittanceProcess {
    QuittanceProcess::start_until(BINARY, config, Wait::Healthy).await.unwrap()
}

fn base() -> ConfigBuilder {
    config(network("http://127.0.0.1:1"))
}

#[tokio::test]
async fn the_environment_beats_the_file() {
    let config = base();
    let address = config.base_url().trim_start_matches("http://").to_owned();
    // The file's own address would be refused.
    let config = config.set("server.listen", json!("203.0.113.1:1")).env("QUITTANCE_SERVER__LISTEN", address);
    let config = config
        .set("server.body_bytes_max", json!(1))
        .env("QUITTANCE_SERVER__BODY_BYTES_MAX", "1500")
        .set("store.url", json!("mysql://nowhere"))
        .env("QUITTANCE_STORE__URL", "sqlite://from-the-environment.db")
        .set("server.cors_origins", json!(["*"]))
        .env("QUITTANCE_SERVER__CORS_ORIGINS", "[\"https://shop.example\"]")
        .set("server.api_keys", json!(["literal"]))
        .env("QUITTANCE_SERVER__API_KEYS", "[\"env:API_KEY\"]")
        .env("API_KEY", "SECRETKEYMARKER")
        .set("settle.wait_seconds", json!(0))
        .env("QUITTANCE_SETTLE__WAIT_SECONDS", "3")
        .set("replay.reserve_on_verify", json!("x"))
        .env("QUITTANCE_REPLAY__RESERVE_ON_VERIFY", "false")
        .set("server.public", json!("x"))
        .env("QUITTANCE_SERVER__PUBLIC", "true")
        .set("policy.fee_per_settlement_wei_max", json!("x"))
        .env("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", "1000000000000000000")
        .env("QUITTANCE_SERVER__OPERATOR_LISTEN", "");
    let server = start(config).await;
    assert!(server.dir().join("from-the-environment.db").exists());
    let client = server.client().unwrap();
    assert_eq!(client.get("/supported").await.unwrap().status, 401);
    let client = client.api_key("SECRETKEYMARKER");
    let large = client.post_bytes("/verify", "application/json", vec![b' '; 1501]).await.unwrap();
    let fits = client.post_bytes("/verify", "application/json", vec![b' '; 1500]).await.unwrap();
    assert_eq!((large.status, fits.status), (413, 400));
    let page = client.post("/verify", &json!({}), &[("origin", "https://shop.example")]).await.unwrap();
    assert_eq!(page.header("access-control-allow-origin"), Some("https://shop.example"));
    // Off means off.
    let operator = quittance_testkit::Facilitator::new(server.operator_url()).unwrap();
    assert!(operator.get("/metrics").await.is_err());
}

/// Numbers beyond 64 bits are numbers of wei too.
#[tokio::test]
async fn wei_of_any_size_can_be_set() {
    let max = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    for wei in [
        "0",
        "1",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        max,
    ] {
        start(base().env("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", wei)).await;
    }
    // Quoted, as in the file.
    start(base().env("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", "\"18446744073709551616\"")).await;
}

#[tokio::test]
async fn a_bad_value_in_the_environment_is_refused_like_one_in_the_file() {
    for (name, value, named) in [
        ("QUITTANCE_SERVER__LISTEN", "nowhere", "server.listen"),
        ("QUITTANCE_SERVER__LISTEN", "", "server.listen"),
        ("QUITTANCE_SERVER__LISTEN", "4021", "server.listen"),
        ("QUITTANCE_SERVER__BODY_BYTES_MAX", "x", "server.body_bytes_max"),
        ("QUITTANCE_SERVER__BODY_BYTES_MAX", "", "server.body_bytes_max"),
        ("QUITTANCE_SERVER__PUBLIC", "maybe", "server.public"),
        ("QUITTANCE_SERVER__CORS_ORIGINS", "https://shop.example", "server.cors_origins"),
        ("QUITTANCE_SERVER__API_KEYS", "[\"SECRETKEYMARKER\"]", "server.api_keys"),
        ("QUITTANCE_SERVER__API_KEYS", "SECRETKEYMARKER", "server.api_keys"),
        ("QUITTANCE_STORE__URL", "1", "store.url"),
        ("QUITTANCE_SETTLE__WAIT_SECONDS", "0", "settle.wait_seconds"),
        ("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", "1e18", "policy.fee_per_settlement_wei_max"),
        ("QUITTANCE_POLICY__FEE_PER_SETTLEMENT_WEI_MAX", "-1", "policy.fee_per_settlement_wei_max"),
        ("QUITTANCE_POLICY__VALIDITY_MARGIN_SECONDS", "-1", "policy.validity_margin_seconds"),
        ("QUITTANCE_PAYEE__MODE", "on", "payee.mode"),
        // Names nobody knows, in sections and out of them.
        ("QUITTANCE_SERVER__BOGUS", "1", "bogus"),
        ("QUITTANCE_SERVER__LISTENN", "127.0.0.1:1", "listenn"),
        ("QUITTANCE_BOGUS__KEY", "1", "bogus"),
        ("QUITTANCE_SERVER__LISTEN__PORT", "1", "server.listen"),
        // Names that are almost settings.
        ("QUITTANCE_SERVER_LISTEN", "SECRETKEYMARKER", "QUITTANCE_SERVER__LISTEN"),
        ("QUITTANCE_SERVER", "SECRETKEYMARKER", "QUITTANCE_SERVER__"),
        ("QUITTANCE_NETWORKS", "[]", "[[networks]]"),
        ("QUITTANCE_NETWORKS__0__CONFIRMATIONS", "2", "[[networks]]"),
        // Larger than anything a file can say.
        ("QUITTANCE_SERVER__BODY_BYTES_MAX", "99999999999999999999", "server.body_bytes_max"),
        ("QUITTANCE_SETTLE__WAIT_SECONDS", "-1", "settle.wait_seconds"),
    ] {
        let cli = Cli::with_file(&toml("")).env("SIGNER", dev_key(0)).env(name, value);
        cli.run(&["serve"]).await.refused(named, &format!("{name}={value}"));
    }
}

#[tokio::test]
async fn other_names_in_the_environment_are_not_ours() {
    let mut config = base();
    for name in [
        "QUITTANCE",
        "QUITTANCE_",
        "QUITTANCE_TEST_LOGS",
        "QUITTANCE_BIN",
        "QUITTANCE_ANVIL",
        "QUITTANCE_PG_BIN",
        "QUITTANCE_GIT_COMMIT",
        "QUITTANCE_LISTEN",
        "QUITTANCE_SERVERS",
        "QUITTANCE_SERVER_PORT",
        "QUITTANCE_SERVER_SERVICE_HOST",
        "SERVER__LISTEN",
        "LISTEN",
        "PORT",
        "XQUITTANCE_SERVER__LISTEN",
    ] {
        config = config.env(name, "203.0.113.1:1");
    }
    let server = start(config).await;
    let answer =
        server.client().unwrap().post("/verify", payment(X402Version::V2).body(), &[]).await.unwrap();
    assert_eq!(answer.status, 503);
}
