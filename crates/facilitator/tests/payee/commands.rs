//! The commands for sellers and buyers.

use crate::stage::{BINARY, CHAIN_ID, NETWORK, ORIGIN, RESOURCE, Stage, THIEF, TREASURY};
use quittance_testkit::dev_accounts::dev_key;
use serde_json::{Value, json};
use std::{io::Write, path::Path, process::Stdio};
use tokio::process::Command;

/// Exit code and standard output.
pub(crate) async fn quittance(
    dir: &Path,
    arguments: &[&str],
    input: Option<&Value>,
) -> (Option<i32>, Value, String) {
    let mut command = Command::new(BINARY);
    command.current_dir(dir).args(arguments).env("SELLER_KEY", dev_key(crate::agents::SELLER));
    if let Some(input) = input {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.to_string().as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        command.stdin(Stdio::from(file));
    }
    let output = command.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    (output.status.code(), json, String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_asks_before_it_signs() {
    let stage = Stage::start("off").await;
    let agent = stage.agent().await;
    let dir = tempfile::tempdir().unwrap();
    // No network, no signer: a registry and its node are all it takes.
    let registry = crate::agents::registry_id(CHAIN_ID);
    let config = format!(
        "payee.registry_allow_private_hosts = true\n[[payee.registries]]\nid = \"{registry}\"\nrpc_urls = [\"{}\"]\n",
        stage.registry.url()
    );
    std::fs::write(dir.path().join("quittance.toml"), config).unwrap();
    let ask = async |input: &Value, more: &[&str]| {
        let arguments: Vec<&str> = ["payee", "-"].into_iter().chain(more.iter().copied()).collect();
        quittance(dir.path(), &arguments, Some(input)).await
    };
    let url = ["--resource", RESOURCE];

    let (code, answer, _) = ask(&agent.requirement(agent.wallet, Value::Null), &url).await;
    assert_eq!((code, &answer["outcome"]), (Some(0), &json!("verified-wallet")));
    let (code, answer, _) = ask(&agent.requirement(THIEF, Value::Null), &url).await;
    assert_eq!((code, &answer["outcome"]), (Some(1), &json!("mismatch")));
    // A whole version 2 answer names its resource itself.
    let accepts = [agent.requirement(agent.wallet, Value::Null), agent.requirement(THIEF, Value::Null)];
    let answer = json!({ "x402Version": 2, "resource": { "url": RESOURCE }, "accepts": accepts });
    let (code, answers, _) = ask(&answer, &[]).await;
    assert_eq!(code, Some(1));
    let outcomes: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["outcome"]).collect();
    assert_eq!(outcomes, ["verified-wallet", "mismatch"]);
    let unknown = ["--resource", RESOURCE, "--registry", &registry, "--agent-id", "999"];
    let (code, answer, _) = ask(&accepts[0], &unknown).await;
    assert_eq!((code, &answer["failedRead"]), (Some(2), &json!("registry")));
    assert_eq!(answer["notes"], json!(["identity-differs"]));
    for usage in [json!([]), json!({ "accepts": [] }), json!({ "payTo": 1 })] {
        assert_eq!(ask(&usage, &[]).await.0, Some(2), "{usage}");
    }
    assert_eq!(quittance(dir.path(), &["payee", "nowhere.json"], None).await.0, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_delegates() {
    let stage = Stage::start("off").await;
    let agent = stage.agent().await;
    let dir = tempfile::tempdir().unwrap();
    let (registry, id) = (crate::agents::registry_id(CHAIN_ID), agent.id.to_string());
    let (pay_to, asset) = (TREASURY.to_string(), agent.asset.to_string());
    let sign = async |asset: &str, days: &str, key: &str| {
        let arguments = [
            "delegation",
            "sign",
            "--registry",
            &registry,
            "--agent-id",
            &id,
            "--network",
            NETWORK,
            "--pay-to",
            &pay_to,
            "--asset",
            asset,
            "--origin",
            ORIGIN,
            "--days",
            days,
            "--key",
            key,
        ];
        quittance(dir.path(), &arguments, None).await
    };
    let (code, signed, warnings) = sign(&asset, "30", "env:SELLER_KEY").await;
    assert_eq!((code, warnings.as_str()), (Some(0), ""));
    let mut requirement = agent.requirement(TREASURY, Value::Null);
    requirement["extra"]["erc8004"] = signed["erc8004"].clone();
    let answer = stage.check(requirement.clone()).await;
    assert_eq!(answer["outcome"], "verified-delegation", "{answer}");
    assert_eq!(signed["payee"]["delegation"], signed["erc8004"]["delegation"]);

    let check = async |input: &Value| quittance(dir.path(), &["delegation", "check", "-"], Some(input)).await;
    for input in [&signed, &requirement, &signed["erc8004"]["delegation"]] {
        let (code, verdict, _) = check(input).await;
        assert_eq!((code, &verdict["valid"]), (Some(0), &json!(true)), "{verdict}");
    }
    let mut stolen = requirement.clone();
    stolen["payTo"] = json!(THIEF);
    let (code, verdict, _) = check(&stolen).await;
    assert_eq!((code, &verdict["rule"]), (Some(1), &json!("pay-to")));
    let mut forged = signed.clone();
    forged["erc8004"]["delegation"]["message"]["payTo"] = json!(THIEF);
    assert_eq!(check(&forged).await.1["rule"], "signature");

    let (_, _, warnings) = sign("*", "365", "env:SELLER_KEY").await;
    assert!(warnings.contains("365 days") && warnings.contains("--asset *"), "{warnings}");
    for (days, key) in
        [("366", "env:SELLER_KEY"), ("0", "env:SELLER_KEY"), ("1", "env:NOT_SET"), ("1", &dev_key(3))]
    {
        let (code, _, error) = sign(&asset, days, key).await;
        assert_eq!(code, Some(1));
        assert!(!error.contains(dev_key(3).trim_start_matches("0x")), "a key is on the screen");
    }
}

#[tokio::test]
async fn addresses_have_bytes_and_a_text() {
    let dir = tempfile::tempdir().unwrap();
    let ask = async |arguments: &[&str]| quittance(dir.path(), arguments, None).await;
    let address = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    let (_, encoded, _) = ask(&["address", "encode", "eip155:8453", address]).await;
    assert_eq!(encoded["bytes"], format!("0x0001000002210514{}", address[2..].to_lowercase()));
    for form in [&encoded["bytes"], &encoded["text"]] {
        assert_eq!(ask(&["address", "decode", form.as_str().unwrap()]).await.1, encoded);
    }
    let solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
    assert_eq!(ask(&["address", "encode", solana, address]).await.0, Some(1));
    assert_eq!(ask(&["address", "decode", &format!("{address}@eip155:8453#00000000")]).await.0, Some(1));
}
