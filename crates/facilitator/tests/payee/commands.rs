//! The commands for sellers and buyers.

use crate::{
    agents::{SELLER, set_wallet, unset_wallet},
    stage::{BINARY, CHAIN_ID, NETWORK, ORIGIN, RESOURCE, Stage, THIEF, TREASURY},
};
use alloy_primitives::Address;
use quittance_testkit::dev_accounts::dev_key;
use serde_json::{Value, json};
use std::{io::Write, path::Path, process::Stdio};
use tokio::process::Command;

/// Exit code, the JSON on standard output, and standard error.
pub(crate) async fn quittance(
    dir: &Path,
    arguments: &[&str],
    input: Option<&Value>,
) -> (Option<i32>, Value, String) {
    let (code, text, errors) = run(dir, arguments, input).await;
    (code, serde_json::from_str(&text).unwrap_or(Value::Null), errors)
}

/// Exit code, standard output and standard error.
async fn run(dir: &Path, arguments: &[&str], input: Option<&Value>) -> (Option<i32>, String, String) {
    let mut command = Command::new(BINARY);
    command.current_dir(dir).args(arguments).env("SELLER_KEY", dev_key(SELLER));
    if let Some(input) = input {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input.to_string().as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        command.stdin(Stdio::from(file));
    }
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// As people read it: indented, and nothing else on standard output.
fn printed(value: &Value) -> String {
    format!("{value:#}\n")
}

/// An address as a person reads it, as the command that turns addresses into it says.
async fn name(dir: &Path, network: &str, address: Address) -> String {
    let (_, encoded, _) = quittance(dir, &["address", "encode", network, &address.to_string()], None).await;
    let text = encoded["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with(&format!("{address}@{network}#")), "{text}");
    text
}

async fn names<const N: usize>(dir: &Path, addresses: [Address; N]) -> [String; N] {
    let mut names = Vec::new();
    for address in addresses {
        names.push(name(dir, NETWORK, address).await);
    }
    names.try_into().unwrap()
}

/// An answer without the seconds in it.
fn timeless(mut answer: Value) -> Value {
    for second in ["/checkedAt", "/file/fetchedAt"] {
        let second = answer.pointer_mut(second).unwrap();
        assert!(second.take().as_u64().unwrap() > 1_700_000_000);
    }
    answer
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

    let (code, mut answer, errors) = ask(&agent.requirement(agent.wallet, Value::Null), &url).await;
    assert_eq!((code, &answer["outcome"], errors.as_str()), (Some(0), &json!("verified-wallet"), ""));
    // For the eye, each address with its chain and a checksum; beside what POST /payee answers, field by field.
    let wallet = name(dir.path(), NETWORK, agent.wallet).await;
    let names = [
        ("registryName", name(dir.path(), NETWORK, crate::agents::REGISTRY).await),
        ("agentWalletName", wallet.clone()),
        ("payToName", wallet),
    ];
    for (field, name) in names {
        assert_eq!(answer.as_object_mut().unwrap().remove(field), Some(json!(name)), "{field}");
    }
    let served = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
    assert_eq!(timeless(answer), timeless(served));
    // Each on its own chain: the wallet on the registry's, the payee on the payment's.
    let elsewhere = agent.requirement_on("eip155:1", TREASURY, Value::Null);
    let (_, answer, _) = ask(&elsewhere, &url).await;
    assert_eq!(answer["agentWalletName"], name(dir.path(), NETWORK, agent.wallet).await);
    assert_eq!(answer["payToName"], name(dir.path(), "eip155:1", TREASURY).await);
    // What is no address on its chain, or is not known, has no name.
    let solana = agent.requirement_on("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", TREASURY, Value::Null);
    let (_, answer, _) = ask(&solana, &url).await;
    assert_eq!((&answer["outcome"], answer.get("payToName")), (&json!("mismatch"), Some(&Value::Null)));
    let mut nobody = agent.requirement(agent.wallet, Value::Null);
    nobody["extra"] = json!({});
    let (_, answer, _) = ask(&nobody, &url).await;
    assert_eq!(answer["outcome"], "no-identity");
    for field in ["registryName", "agentWalletName"] {
        assert_eq!(answer.get(field), Some(&Value::Null), "{field}");
    }
    // The zero address is no wallet that anybody should copy.
    let unset = stage.agent().await;
    unset_wallet(&stage.chain, unset.id).await;
    let (_, answer, _) = ask(&unset.requirement(TREASURY, Value::Null), &url).await;
    assert_eq!(
        (&answer["outcome"], &answer["agentWallet"]),
        (&json!("no-agent-wallet"), &json!(Address::ZERO))
    );
    assert_eq!(answer.get("agentWalletName"), Some(&Value::Null));
    let arguments = ["payee", "-", "--resource", RESOURCE];
    let body = agent.requirement(agent.wallet, Value::Null);
    let (_, text, _) = run(dir.path(), &arguments, Some(&body)).await;
    assert!(
        text.starts_with("{\n  \"outcome\": \"verified-wallet\",\n  ") && text.ends_with("\n}\n"),
        "{text}"
    );
    let (code, answer, _) = ask(&agent.requirement(THIEF, Value::Null), &url).await;
    assert_eq!((code, &answer["outcome"]), (Some(1), &json!("mismatch")));
    // A whole version 2 answer names its resource itself.
    let accepts = [agent.requirement(agent.wallet, Value::Null), agent.requirement(THIEF, Value::Null)];
    let answer = json!({ "x402Version": 2, "resource": { "url": RESOURCE }, "accepts": accepts });
    let (code, answers, _) = ask(&answer, &[]).await;
    assert_eq!(code, Some(1));
    let outcomes: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["outcome"]).collect();
    assert_eq!(outcomes, ["verified-wallet", "mismatch"]);
    assert_eq!(answers[1]["payToName"], name(dir.path(), NETWORK, THIEF).await);
    let unknown = ["--resource", RESOURCE, "--registry", &registry, "--agent-id", "999"];
    let (code, answer, _) = ask(&accepts[0], &unknown).await;
    assert_eq!((code, &answer["failedRead"]), (Some(2), &json!("registry")));
    assert_eq!(answer["notes"], json!(["identity-differs"]));
    // One that is not read outweighs whatever the others are.
    let mut unread = accepts.to_vec();
    unread[0]["extra"]["erc8004"]["agentId"] = json!("999");
    let body = json!({ "x402Version": 2, "resource": { "url": RESOURCE }, "accepts": unread });
    let (code, answers, _) = ask(&body, &[]).await;
    assert_eq!((code, &answers[1]["outcome"]), (Some(2), &json!("mismatch")));
    for usage in [json!([]), json!({ "accepts": [] }), json!({ "accepts": 1 }), json!({ "payTo": 1 })] {
        let (code, text, errors) = run(dir.path(), &["payee", "-"], Some(&usage)).await;
        assert_eq!((code, text.as_str()), (Some(2), ""), "{usage}");
        assert!(errors.starts_with("quittance: "), "{usage}: {errors}");
    }
    for arguments in [
        vec!["payee", "nowhere.json"],
        vec!["payee", "quittance.toml"],
        vec!["payee", "-", "--config", "nowhere.toml"],
        vec!["payee"],
        vec!["payee", "-", "--registry", &registry],
    ] {
        let (code, text, errors) = run(dir.path(), &arguments, Some(&accepts[0])).await;
        assert_eq!((code, text.as_str(), errors.is_empty()), (Some(2), "", false), "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_delegates() {
    let stage = Stage::start("off").await;
    let agent = stage.agent().await;
    let dir = tempfile::tempdir().unwrap();
    let (registry, id) = (crate::agents::registry_id(CHAIN_ID), agent.id.to_string());
    let (pay_to, asset) = (TREASURY.to_string(), agent.asset.to_string());
    let sign_as = async |wallet: Option<&str>, asset: &str, origin: &str, days: &str, key: &str| {
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
            origin,
            "--days",
            days,
            "--key",
            key,
        ];
        let arguments: Vec<&str> =
            arguments.into_iter().chain(wallet.into_iter().flat_map(|w| ["--agent-wallet", w])).collect();
        run(dir.path(), &arguments, None).await
    };
    let sign_at = async |asset: &str, origin: &str, days: &str, key: &str| {
        sign_as(None, asset, origin, days, key).await
    };
    let sign = async |asset: &str, days: &str, key: &str| {
        let (code, text, errors) = sign_at(asset, ORIGIN, days, key).await;
        (code, serde_json::from_str(&text).unwrap_or(Value::Null), errors)
    };
    let [registry_name, wallet_name, treasury_name, asset_name] =
        names(dir.path(), [crate::agents::REGISTRY, agent.wallet, TREASURY, agent.asset]).await;
    let (code, signed, warnings) = sign(&asset, "30", "env:SELLER_KEY").await;
    assert_eq!((code, warnings.as_str()), (Some(0), ""));
    let mut requirement = agent.requirement(TREASURY, Value::Null);
    requirement["extra"]["erc8004"] = signed["erc8004"].clone();
    let answer = stage.check(requirement.clone()).await;
    assert_eq!(answer["outcome"], "verified-delegation", "{answer}");
    // Both places it goes to, and in the words of the seller's requirements.
    let delegation = signed["erc8004"]["delegation"].clone();
    let message = &delegation["message"];
    let second = |field: &str| message[field].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(second("validUntil") - second("validAfter"), 30 * 86_400);
    assert_eq!(
        delegation,
        json!({
            "message": {
                "chainId": CHAIN_ID.to_string(), "registry": crate::agents::REGISTRY.to_string(), "agentId": id,
                "agentWallet": agent.wallet.to_string(), "network": NETWORK, "payTo": pay_to, "asset": asset,
                "origin": ORIGIN, "validAfter": message["validAfter"], "validUntil": message["validUntil"],
                "nonce": message["nonce"],
            },
            "signature": delegation["signature"],
        })
    );
    assert_eq!(
        signed,
        json!({
            "erc8004": { "registry": registry, "agentId": id, "delegation": delegation },
            "payee": { "network": NETWORK, "payTo": pay_to, "delegation": delegation },
            // For the eye, beside what is copied from here.
            "registryName": registry_name, "agentWalletName": wallet_name,
            "payToName": treasury_name, "assetName": asset_name,
        })
    );
    // The key from a file, as editors leave it; another nonce each time.
    for text in [format!("{}\n", dev_key(3)), dev_key(3).trim_start_matches("0x").to_owned()] {
        std::fs::write(dir.path().join("key"), text).unwrap();
        let (code, again, warnings) = sign(&asset, "30", "file:key").await;
        assert_eq!((code, warnings.as_str()), (Some(0), ""));
        assert_ne!(again["erc8004"]["delegation"]["message"]["nonce"], message["nonce"]);
        let mut requirement = requirement.clone();
        requirement["extra"]["erc8004"] = again["erc8004"].clone();
        assert_eq!(stage.check(requirement).await["outcome"], "verified-delegation");
    }

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
    // For all that can be told without a chain, the wallet is a contract that accepts it.
    let (code, verdict, _) = check(&forged).await;
    assert_eq!((code, &verdict["valid"], &verdict["failedRead"]), (Some(2), &Value::Null, &json!("code")));

    let (code, verdict, _) = check(&requirement).await;
    assert_eq!(code, Some(0));
    let left = verdict["secondsLeft"].as_u64().unwrap();
    assert!((29 * 86_400..30 * 86_400).contains(&left), "{verdict}");
    let expected = json!({
        "valid": true, "rule": null, "failedRead": null,
        "identity": { "registry": registry, "agentId": id },
        "agentWallet": agent.wallet.to_string(), "signer": agent.wallet.to_string(),
        "network": NETWORK, "payTo": pay_to, "asset": asset, "origin": ORIGIN, "secondsLeft": left,
        "registryName": registry_name, "agentWalletName": wallet_name, "signerName": wallet_name,
        "payToName": treasury_name, "assetName": asset_name,
        "notChecked":
            "whether the registry still names agentWallet; and, if it is a contract, what it says to the signature",
    });
    assert_eq!(verdict, expected);
    assert_eq!(
        check(&json!({})).await,
        (Some(1), json!({ "valid": false, "rule": "malformed", "failedRead": null }), String::new())
    );
    // Nothing to judge is no verdict.
    for arguments in [["delegation", "check", "nowhere.json"], ["delegation", "check", "key"]] {
        let (code, text, errors) = run(dir.path(), &arguments, None).await;
        assert_eq!((code, text.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(errors.starts_with("quittance: ") && !errors.contains(dev_key(3).trim_start_matches("0x")));
    }

    let (days, any_asset, any_origin) = ("365 days is long", "--asset * allows", "--origin * allows");
    for (asset, origin, valid, warned) in [
        (asset.as_str(), ORIGIN, "90", vec![]),
        (&asset, ORIGIN, "365", vec![days]),
        ("*", ORIGIN, "1", vec![any_asset]),
        (&asset, "*", "1", vec![any_origin]),
        ("*", "*", "365", vec![days, any_asset, any_origin]),
    ] {
        let (code, text, warnings) = sign_at(asset, origin, valid, "env:SELLER_KEY").await;
        let signed: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &text), (Some(0), &printed(&signed)));
        assert_eq!(signed["erc8004"]["delegation"]["message"]["origin"], origin);
        // No address, so no name.
        let asset_name = if asset == "*" { Value::Null } else { json!(asset_name) };
        assert_eq!(signed.get("assetName"), Some(&asset_name));
        assert_eq!(check(&signed).await.1.get("assetName"), Some(&asset_name));
        let lines: Vec<&str> = warnings.lines().collect();
        assert_eq!(lines.len(), warned.len(), "{warnings}");
        for (line, warned) in lines.iter().zip(warned) {
            assert!(line.starts_with("warning: ") && line.contains(warned), "{warnings}");
        }
    }
    let (code, text, error) = sign_at(&asset, "https://seller.example/report", "1", "env:SELLER_KEY").await;
    assert_eq!((code, text.as_str(), error.contains("--origin")), (Some(1), "", true), "{error}");
    // What no payment requirement ever says is not signed.
    for (network, pay_to) in
        [("base", pay_to.as_str()), (NETWORK, ""), (NETWORK, "0x12"), ("", pay_to.as_str())]
    {
        let arguments = [
            ["delegation", "sign"],
            ["--registry", &registry],
            ["--agent-id", &id],
            ["--network", network],
            ["--pay-to", pay_to],
            ["--asset", "*"],
            ["--origin", "*"],
            ["--key", "env:SELLER_KEY"],
        ];
        let (code, text, error) = run(dir.path(), arguments.as_flattened(), None).await;
        assert_eq!((code, text.as_str(), error.contains("--pay-to")), (Some(1), "", true), "{error}");
    }
    for (days, key) in [
        ("366", "env:SELLER_KEY"),
        ("0", "env:SELLER_KEY"),
        ("1", "env:NOT_SET"),
        ("1", "file:nowhere"),
        ("1", "file:quittance.toml"),
        ("1", &dev_key(3)),
    ] {
        let (code, _, error) = sign(&asset, days, key).await;
        assert_eq!(code, Some(1));
        assert!(!error.contains(dev_key(3).trim_start_matches("0x")), "a key is on the screen");
    }

    // A wallet that is a contract: its owner signs, and only the chain can tell.
    let wallet = stage.chain.deploy_wallet1271(agent.wallet).await.unwrap();
    set_wallet(&stage.chain, agent.id, wallet, SELLER).await;
    let (code, text, warnings) =
        sign_as(Some(&wallet.to_string()), &asset, ORIGIN, "1", "env:SELLER_KEY").await;
    assert_eq!((code, warnings.lines().count()), (Some(0), 1), "{warnings}");
    assert!(warnings.contains("has to be a contract that accepts signatures of"), "{warnings}");
    let signed: Value = serde_json::from_str(&text).unwrap();
    let (code, verdict, _) = check(&signed).await;
    assert_eq!((code, &verdict["valid"], &verdict["failedRead"]), (Some(2), &Value::Null, &json!("code")));
    assert_eq!(
        (&verdict["agentWallet"], &verdict["signer"]),
        (&json!(wallet.to_string()), &json!(agent.wallet.to_string()))
    );
    let [contract_name] = names(dir.path(), [wallet]).await;
    assert_eq!(
        (&verdict["agentWalletName"], &verdict["signerName"]),
        (&json!(contract_name), &json!(wallet_name))
    );
    // A signature that is no key's.
    let mut opaque = signed["erc8004"]["delegation"].clone();
    opaque["signature"] = json!("0x010203");
    let (_, verdict, _) = check(&opaque).await;
    assert_eq!((&verdict["signer"], verdict.get("signerName")), (&Value::Null, Some(&Value::Null)));
    requirement["extra"]["erc8004"] = signed["erc8004"].clone();
    assert_eq!(stage.check(requirement).await["outcome"], "verified-delegation");
}

#[tokio::test]
async fn addresses_have_bytes_and_a_text() {
    let dir = tempfile::tempdir().unwrap();
    let ask = async |arguments: &[&str]| quittance(dir.path(), arguments, None).await;
    let address = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045";
    let (_, encoded, _) = ask(&["address", "encode", "eip155:8453", address]).await;
    let expected = json!({
        "network": "eip155:8453",
        "address": address,
        "bytes": format!("0x0001000002210514{}", address[2..].to_lowercase()),
        "text": format!("{address}@eip155:8453#17DE0709"),
    });
    assert_eq!(encoded, expected);
    let (code, text, errors) = run(dir.path(), &["address", "encode", "eip155:8453", address], None).await;
    assert_eq!((code, text, errors.as_str()), (Some(0), printed(&expected), ""));
    for form in [&encoded["bytes"], &encoded["text"]] {
        assert_eq!(ask(&["address", "decode", form.as_str().unwrap()]).await.1, encoded);
    }
    let solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
    let wrong_case = address.replace("d8dA", "D8dA");
    let bytes = encoded["bytes"].as_str().unwrap();
    for (arguments, code) in [
        (vec!["encode", solana, address], "(address"),
        (vec!["encode", "hedera:mainnet", "0.0.1"], "(namespace-no-profile)"),
        (vec!["encode", "eip155:8453", &wrong_case], "(address-checksum)"),
        (vec!["decode", &format!("{address}@eip155:8453#00000000")], "(checksum)"),
        (vec!["decode", &bytes[..bytes.len() - 2]], "(truncated)"),
        (vec!["decode", &format!("{bytes}00")], "(trailing"),
    ] {
        let arguments: Vec<&str> = ["address"].into_iter().chain(arguments).collect();
        let (exit, text, errors) = run(dir.path(), &arguments, None).await;
        assert_eq!((exit, text.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(errors.starts_with("quittance: it ") && errors.contains(code), "{arguments:?}: {errors}");
    }
    assert_eq!(run(dir.path(), &["address", "encode", solana], None).await.0, Some(2));
}

/// Every address in the table stands with its chain and the checksum of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_checked_line_by_line() {
    let stage = Stage::start("off").await;
    let dir = tempfile::tempdir().unwrap();
    let (registry, nobody) = (crate::agents::REGISTRY, THIEF);
    let table = async |registry: alloy_primitives::Address| {
        let config = format!(
            "payee.mode = \"report\"\n[[networks]]\nid = \"{NETWORK}\"\nrpc_urls = [\"{}\"]\nsigners = [\"env:SELLER_KEY\"]\n\
             wallet_factories = [\"{}\"]\n[[payee.registries]]\nid = \"{NETWORK}:{registry}\"\n",
            stage.proxy.url(),
            stage.chain.wallet_factory
        );
        std::fs::write(dir.path().join("quittance.toml"), config).unwrap();
        run(dir.path(), &["check"], None).await
    };
    let mut names = Vec::new();
    let seller = quittance_testkit::dev_address(SELLER);
    for address in [registry, nobody, stage.chain.wallet_factory, stage.chain.multicall3, seller] {
        let (_, encoded, _) =
            quittance(dir.path(), &["address", "encode", NETWORK, &address.to_string()], None).await;
        let text = encoded["text"].as_str().unwrap().to_owned();
        let (name, checksum) = text.split_once('#').unwrap();
        assert_eq!(name, format!("{address}@{NETWORK}"));
        assert!(checksum.len() == 8 && checksum.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F')));
        names.push(text);
    }
    let [registry_name, nobody_name, factory, multicall3, signer] = names.as_slice() else { panic!() };
    let subjects = |registry: &str| {
        [
            "store".to_owned(),
            format!("{NETWORK} rpc_urls[0]"),
            format!("{NETWORK} facts in one call"),
            format!("token 0x036CbD53842c5426634e7929541eC2318f3dCF7e@{NETWORK}#"),
            format!("wallet factory {factory}"),
            format!("Multicall3 {multicall3}"),
            format!("signer {signer}"),
            format!("payee registry {registry}"),
        ]
    };
    for (address, name, exit, mark) in
        [(registry, registry_name, 0, "ok  "), (nobody, nobody_name, 1, "FAIL")]
    {
        let (code, text, _) = table(address).await;
        assert_eq!(code, Some(exit), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let subjects = subjects(name);
        assert_eq!(lines.len(), subjects.len(), "{text}");
        let findings_at = lines[0].find("reachable").unwrap();
        for (nth, (line, subject)) in lines.iter().zip(&subjects).enumerate() {
            let expected = if nth + 1 == lines.len() { mark } else { "ok  " };
            assert!(line.starts_with(&format!("{expected}  {subject}")), "{subject}: {text}");
            assert!(line[..findings_at].ends_with("  ") && !line[findings_at..].starts_with(' '), "{text}");
        }
    }
    std::fs::write(dir.path().join("quittance.toml"), "payee.mode = \"maybe\"").unwrap();
    let (code, text, errors) = run(dir.path(), &["check"], None).await;
    assert_eq!((code, text.as_str(), errors.contains("payee.mode")), (Some(1), "", true), "{errors}");
    assert_eq!(run(dir.path(), &["check", "--bogus"], None).await.0, Some(2));
}
