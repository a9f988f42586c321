//! No secret stands in the file: `env:NAME` or `file:PATH`, and what is there instead is refused without being shown.

use crate::support::{
    BINARY, CHAIN_ID,
    cli::{Cli, no_secrets},
    config, network,
};
use quittance_testkit::{
    Anvil,
    dev_accounts::{dev_address, dev_key},
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, process::Wait},
};
use serde_json::json;

fn entry(signers: &str) -> String {
    format!(
        "server.operator_listen = \"\"\n[[networks]]\nid = \"eip155:84532\"\nrpc_urls = [\"http://127.0.0.1:1\"]\nsigners = {signers}\n"
    )
}

#[tokio::test]
async fn a_key_in_the_file_is_refused_and_not_shown() {
    let key = dev_key(4);
    let bare = key.trim_start_matches("0x");
    for signer in [
        key.clone(),
        bare.to_owned(),
        bare.to_uppercase(),
        format!("0X{bare}"),
        format!(" {key}"),
        format!("hex:{bare}"),
        // The right prefix before the wrong thing.
        format!("env:{key}"),
        format!("env:{bare}"),
        format!("file:{key}"),
        format!("ENV:{key}"),
    ] {
        let ended = Cli::with_file(&entry(&format!("[\"{signer}\"]"))).run(&["serve"]).await;
        ended.refused("networks[0].signers[0]", "a key in the file");
        let ended = Cli::with_file(&entry(&format!("[\"{signer}\"]"))).run(&["check"]).await;
        ended.refused("networks[0].signers[0]", "a key in the file");
    }
    for api_key in ["SECRETKEYMARKER", "Bearer SECRETKEYMARKER", "env:", "file:", ""] {
        let toml = format!("server.api_keys = [\"{api_key}\"]\n{}", entry("[\"env:SIGNER\"]"));
        let ended = Cli::with_file(&toml).env("SIGNER", &key).run(&["serve"]).await;
        ended.refused("server.api_keys", "an API key in the file");
    }
    for value in
        ["\"env:API_KEY\"", "[1]", "true", "[\"env:MISSING\"]", "[\"env:EMPTY\"]", "[\"file:/no/such/file\"]"]
    {
        let toml = format!("server.api_keys = {value}\n{}", entry("[\"env:SIGNER\"]"));
        let ended = Cli::with_file(&toml).env("SIGNER", &key).env("EMPTY", "").run(&["serve"]).await;
        ended.refused("server.api_keys", value);
    }
    // No header can carry these, so nobody could ever come in.
    for text in ["SECRETKEYMARKER\nSECRETKEYMARKER", "SECRETKEYMARKER\tx", "SECRETKEYMARKER-\u{e9}", "\u{7f}"]
    {
        let toml = format!("server.api_keys = [\"env:API_KEY\"]\n{}", entry("[\"env:SIGNER\"]"));
        let ended = Cli::with_file(&toml).env("SIGNER", &key).env("API_KEY", text).run(&["serve"]).await;
        ended.refused("server.api_keys[0]", &format!("{text:?}"));
    }
}

#[tokio::test]
async fn secrets_come_from_the_environment_and_from_files() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("file:{}", path.display())
    };
    // As editors and container secrets leave them: a line end, none, no prefix.
    let signers = [
        file("signer1", format!("{}\n", dev_key(1))),
        file("signer2", dev_key(2).trim_start_matches("0x").to_owned()),
        file("signer3", format!("  {}\r\n", dev_key(3).to_uppercase().replacen("0X", "0x", 1))),
    ];
    let list = json!(["env:DEV_SIGNER_0", signers[0], signers[1], signers[2]]).to_string();
    let rpc = file("rpc", format!("{}\n", anvil.url()));
    let database = file("database", "sqlite://elsewhere.db\n".to_owned());
    let network = NetworkConfig::new(CHAIN_ID).dev_signer(0).rpc_url(rpc);
    let builder = ConfigBuilder::new().unwrap().store_url(database).network(network);
    let toml = builder.toml().replace("[\"env:DEV_SIGNER_0\"]", &list);
    let (top, networks) = toml.split_once("\n\n").unwrap();
    assert!(top.contains("store.url") && networks.contains("signer3"));
    let config = builder_of(&builder, networks);
    let server = QuittanceProcess::start(BINARY, config).await.unwrap();
    let signers = server.client().unwrap().supported().await.unwrap().1["signers"]["eip155:*"].clone();
    for index in 0..4 {
        assert!(
            signers.as_array().unwrap().contains(&json!(dev_address(index).to_checksum(None))),
            "{signers}"
        );
    }
    assert!(server.dir().join("elsewhere.db").exists());
    no_secrets(&server.log_text());
}

/// The same settings, with the network's entry as text.
fn builder_of(builder: &ConfigBuilder, networks: &str) -> ConfigBuilder {
    let port = |url: String| url.trim_start_matches("http://").to_owned();
    let store = builder.toml().lines().find(|line| line.starts_with("store.url")).unwrap().to_owned();
    let store: serde_json::Value = serde_json::from_str(store.split_once(" = ").unwrap().1).unwrap();
    ConfigBuilder::new()
        .unwrap()
        .set("store.url", store)
        .set("server.operator_listen", json!(port(builder.operator_url())))
        .extra(networks)
        .env("DEV_SIGNER_0", dev_key(0))
}

/// With a key in the database's URL, nothing that is said about the database shows it.
#[tokio::test]
async fn a_password_of_the_database_is_not_shown() {
    for url in [
        "postgres://quittance:SECRETKEYMARKER@127.0.0.1:1/quittance",
        "postgres://quittance:SECRETKEYMARKER@127.0.0.1:99999/quittance",
        "postgres://quittance:SECRETKEYMARKER@[::1/quittance",
        "mysql://quittance:SECRETKEYMARKER@127.0.0.1/quittance",
        "sqlite://SECRETKEYMARKER/no/such/directory.db",
        "SECRETKEYMARKER",
    ] {
        for args in [["serve"], ["check"]] {
            let toml = format!("store.url = \"env:DATABASE\"\n{}", entry("[\"env:SIGNER\"]"));
            let cli = Cli::with_file(&toml).env("SIGNER", dev_key(0)).env("DATABASE", url);
            let ended = cli.run(&args).await;
            assert_eq!(ended.code, Some(1), "{args:?} {}{}", ended.stdout, ended.stderr);
            assert!(format!("{}{}", ended.stdout, ended.stderr).contains("store"), "{args:?}");
        }
    }
}

/// The environment of the process is nobody's business either.
#[tokio::test]
async fn an_ordinary_start_says_nothing_secret() {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let network = network(anvil.url())
        .rpc_url_from_env("RPC_2", "http://127.0.0.1:1/v2/SECRETKEYMARKER?apikey=SECRETKEYMARKER");
    let config = config(network)
        .set("server.api_keys", json!(["env:API_KEY"]))
        .env("API_KEY", "SECRETKEYMARKER-k3y")
        .env("RUST_LOG", "trace,hyper=trace,reqwest=trace,sqlx=trace,alloy=trace");
    let mut server = QuittanceProcess::start_until(BINARY, config, Wait::Healthy).await.unwrap();
    assert!(server.sigterm().await.unwrap().success());
    no_secrets(&server.log_text());
    assert!(server.log_text().contains("listening"), "{}", server.log_text());
}
