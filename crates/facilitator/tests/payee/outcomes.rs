//! Every outcome, over a registry and a web server.

use crate::{
    agents::{REGISTRY, SELLER, file_of, registry_id, set_wallet, unset_wallet},
    files::Page,
    stage::{CHAIN_ID, NETWORK, ORIGIN, RESOURCE, Stage, THIEF, TREASURY, said},
};
use alloy_primitives::{Address, Bytes, U256};
use quittance_testkit::dev_address;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_outcome() {
    // POST /payee answers whatever the mode is.
    let stage =
        Stage::start_with("off", |config| config.set("payee.registry_allow_private_hosts", json!(true)))
            .await;
    let agent = stage.agent().await;
    let wallet = agent.wallet;

    let answer = stage.check(agent.requirement(wallet, Value::Null)).await;
    assert_eq!(said(&answer), ("verified-wallet", ""), "{answer}");
    assert_eq!(
        answer["identity"],
        json!({
            "registry": registry_id(CHAIN_ID), "agentId": agent.id.to_string(), "source": "requirement"
        })
    );
    assert_eq!(answer["block"]["chainId"], CHAIN_ID.to_string());
    let number: u64 = answer["block"]["number"].as_str().unwrap().parse().unwrap();
    assert_eq!(number, stage.chain.client().block_number().await.unwrap());
    assert_eq!(answer["agentWallet"], wallet.to_string());
    assert_eq!(answer["payTo"].as_str().unwrap().to_lowercase(), format!("{wallet:#x}"));
    assert_eq!((&answer["network"], &answer["origin"]), (&json!(NETWORK), &json!(ORIGIN)));
    assert_eq!(answer["file"]["source"], "https");
    assert!(answer["file"]["fetchedAt"].is_u64());
    assert_eq!(answer["notes"], json!([]));

    let to = |pay_to| agent.delegation_to(pay_to);
    let elsewhere = agent.delegation(TREASURY, "eip155:1", ORIGIN);
    for (requirement, expected) in [
        (agent.requirement(TREASURY, to(TREASURY)), ("verified-delegation", "")),
        (agent.requirement(THIEF, Value::Null), ("mismatch", "")),
        (agent.requirement(THIEF, to(TREASURY)), ("invalid-delegation", "pay-to")),
        (agent.requirement(THIEF, json!("garbage")), ("invalid-delegation", "malformed")),
        // A key controls its address on every chain; a treasury has to be named for the chain.
        (agent.requirement_on("eip155:1", wallet, Value::Null), ("verified-wallet", "")),
        (agent.requirement_on("eip155:1", TREASURY, elsewhere), ("verified-delegation", "")),
        (agent.requirement_on("eip155:1", TREASURY, to(TREASURY)), ("invalid-delegation", "network")),
        (without(agent.requirement(wallet, Value::Null), "/extra/erc8004"), ("no-identity", "")),
        (with(agent.requirement(wallet, Value::Null), "agentId", json!("007")), ("not-read", "identity")),
        (with(agent.requirement(wallet, Value::Null), "agentId", json!("999")), ("not-read", "registry")),
        (
            with(agent.requirement(wallet, Value::Null), "registry", json!(format!("eip155:1:{REGISTRY}"))),
            ("not-read", "registry"),
        ),
    ] {
        let answer = stage.check(requirement.clone()).await;
        assert_eq!(said(&answer), expected, "{requirement}: {answer}");
    }
    // All of it with one fetch.
    assert_eq!(stage.files.hits("/agent.json"), 1);

    let requirement = agent.requirement(wallet, Value::Null);
    let other = json!({ "paymentRequirements": requirement, "resource": "https://other.example/report" });
    assert_eq!(said(&stage.payee(&other).await), ("endpoint-unlisted", ""));
    // The payer knows whom it means.
    let known = json!({
        "paymentRequirements": without(requirement.clone(), "/extra/erc8004"),
        "resource": RESOURCE, "registry": registry_id(CHAIN_ID), "agentId": agent.id.to_string(),
    });
    let answer = stage.payee(&known).await;
    assert_eq!((said(&answer).0, &answer["identity"]["source"]), ("verified-wallet", &json!("payer")));
    // And has signed something else.
    let payload =
        json!({ "x402Version": 2, "payload": { "authorization": { "to": THIEF, "value": "10000" } } });
    let signed =
        json!({ "paymentRequirements": requirement, "resource": RESOURCE, "paymentPayload": payload });
    let answer = stage.payee(&signed).await;
    assert_eq!((said(&answer).0, &answer["notes"]), ("verified-wallet", &json!(["payment-differs"])));

    what_is_no_question_has_no_outcome(&stage, &signed).await;

    unset_wallet(&stage.chain, agent.id).await;
    for (pay_to, expected) in [(dev_address(SELLER), "owner-only"), (TREASURY, "no-agent-wallet")] {
        let answer = stage.check(agent.requirement(pay_to, to(pay_to))).await;
        assert_eq!(said(&answer), (expected, ""), "{answer}");
    }
    assert!(!stage.server.log_text().contains("MARKER"), "a stranger's text is in the log");
}

/// The `error`s that docs/PAYEE.md lists under a status.
fn documented_codes(status: &str) -> BTreeSet<String> {
    let rows = include_str!("../../../../docs/PAYEE.md").lines();
    rows.filter_map(|line| line.strip_prefix(&format!("| {status} | `"))?.split_once('`'))
        .map(|(code, _)| code.to_owned())
        .collect()
}

/// What cannot be compared is not passed over: an answer would read as if it had been.
async fn what_is_no_question_has_no_outcome(stage: &Stage, question: &Value) {
    let requirements = "invalid_payment_requirements";
    let mut codes = BTreeSet::new();
    for (pointer, value, code) in [
        ("", json!([]), requirements),
        ("/paymentRequirements", Value::Null, requirements),
        ("/paymentRequirements", json!([question["paymentRequirements"]]), requirements),
        ("/paymentRequirements/amount", json!(10_000), requirements),
        ("/paymentRequirements/amount", Value::Null, requirements),
        ("/paymentRequirements/payTo", json!(""), requirements),
        ("/paymentRequirements/asset", Value::Null, requirements),
        ("/paymentRequirements/extra", json!([]), requirements),
        ("/paymentRequirements/network", json!("nowhere"), "invalid_network"),
        ("/paymentPayload", json!("signed"), "bad_request"),
        ("/paymentPayload", json!([]), "bad_request"),
        ("/resource", json!({ "url": RESOURCE }), "bad_request"),
    ] {
        let mut body = question.clone();
        *body.pointer_mut(pointer).unwrap() = value;
        let answer = stage.client.post("/payee", &body, &[]).await.unwrap();
        assert_eq!((answer.status, &answer.json["error"]), (400, &json!(code)), "{pointer}: {}", answer.text);
        codes.insert(code.to_owned());
        let (named, message) =
            (pointer.rsplit('/').next().unwrap(), answer.json["message"].as_str().unwrap());
        assert!(
            message.contains(named) && answer.json.get("outcome").is_none(),
            "{pointer}: {}",
            answer.text
        );
    }
    for (body, code) in
        [("{", "not_json"), (&*format!("{}{}", "[".repeat(200), "]".repeat(200)), "invalid_payload")]
    {
        let body = body.as_bytes().to_vec();
        let answer = stage.client.post_bytes("/payee", "application/json", body).await.unwrap();
        assert_eq!((answer.status, &answer.json["error"]), (400, &json!(code)), "{}", answer.text);
        codes.insert(code.to_owned());
    }
    // A connection that ends within its body is told so, if it still listens.
    codes.insert("broken_body".to_owned());
    assert_eq!(documented_codes("400"), codes);
    // Nothing of what a payer may leave out is missed if it is null.
    let mut body = question.clone();
    for name in ["paymentPayload", "registry", "agentId"] {
        body[name] = Value::Null;
    }
    let answer = stage.payee(&body).await;
    assert_eq!((said(&answer).0, &answer["notes"]), ("verified-wallet", &json!([])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contract_wallets() {
    let stage = Stage::start("report").await;
    let mut agent = stage.agent().await;
    let owner = 5;
    agent.wallet = stage.chain.deploy_wallet1271(dev_address(owner)).await.unwrap();
    set_wallet(&stage.chain, agent.id, agent.wallet, owner).await;

    agent.key = owner;
    let answer = stage.check(agent.requirement(TREASURY, agent.delegation_to(TREASURY))).await;
    assert_eq!(said(&answer), ("verified-delegation", ""), "{answer}");
    agent.key = 6;
    let answer = stage.check(agent.requirement(TREASURY, agent.delegation_to(TREASURY))).await;
    assert_eq!(said(&answer), ("invalid-delegation", "signature"), "{answer}");
    // The contract's address belongs to somebody else on other chains.
    let answer = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
    assert_eq!(said(&answer), ("verified-wallet", ""), "{answer}");
    let answer = stage.check(agent.requirement_on("eip155:1", agent.wallet, Value::Null)).await;
    assert_eq!(said(&answer), ("mismatch", ""), "{answer}");
}

/// What was read at a block is not read again.
async fn next_block(stage: &Stage) {
    stage.chain.mint(stage.chain.token, THIEF, U256::from(1)).await.unwrap();
}

/// By the letter the wallet is no key any more; what the operator may say about that changes nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_that_runs_code_by_eip7702() {
    for (is_eoa, elsewhere, noted) in
        [(false, "mismatch", json!([])), (true, "verified-wallet", json!(["eip7702-is-eoa"]))]
    {
        let stage = Stage::start_with("report", |config| {
            let config = config.set("payee.registry_allow_private_hosts", json!(true));
            // What is not said is the letter.
            if is_eoa { config.set("payee.eip7702_is_eoa", json!(true)) } else { config }
        })
        .await;
        let agent = stage.agent().await;
        let asked = async |network: &str, delegation: Value| {
            let answer = stage.check(agent.requirement_on(network, agent.wallet, delegation)).await;
            (answer["outcome"].as_str().unwrap().to_owned(), answer["notes"].clone())
        };
        assert_eq!(asked("eip155:1", Value::Null).await, ("verified-wallet".into(), json!([])));
        let delegate = stage.chain.deploy_contract("Delegate7702", &[]).await.unwrap();
        stage.chain.set_7702_code(agent.wallet, delegate).await.unwrap();
        next_block(&stage).await;
        assert_eq!(asked("eip155:1", Value::Null).await, (elsewhere.into(), noted), "{is_eoa}");
        assert_eq!(asked(NETWORK, Value::Null).await, ("verified-wallet".into(), json!([])));
        // Its key signs as before, for a treasury and for itself elsewhere.
        let treasury = agent.requirement(TREASURY, agent.delegation_to(TREASURY));
        assert_eq!(said(&stage.check(treasury).await), ("verified-delegation", ""));
        if !is_eoa {
            let itself = agent.delegation(agent.wallet, "eip155:1", ORIGIN);
            assert_eq!(asked("eip155:1", itself).await, ("verified-delegation".into(), json!([])));
        }
        // A contract is nobody's key.
        stage.set_code(agent.wallet, &Bytes::from_static(&[0x60, 0x00])).await;
        next_block(&stage).await;
        assert_eq!(asked("eip155:1", Value::Null).await, ("mismatch".into(), json!([])), "{is_eoa}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_from_everywhere() {
    let stage = Stage::start("report").await;
    let file = file_of(&[RESOURCE]).to_string();
    let long = format!("{file}{}", " ".repeat(20_000));

    for (uri, expected) in [
        (format!("data:application/json,{file}"), Ok("inline")),
        // Longer than what the one call carries.
        (format!("data:application/json,{long}"), Ok("inline")),
        (file.clone(), Ok("inline")),
        (stage.files.put("/gzip", Page::Encoded("gzip", gzip(file.as_bytes()))), Ok("https")),
        (stage.files.put("/moved", Page::Redirect("/moved/again".into())), Err("nothing there")),
        (String::new(), Err("no URI")),
        ("undefined/agents/1".into(), Err("no URI")),
    ] {
        let agent = stage.agent_with(&uri).await;
        let answer = stage.check(agent.requirement(agent.wallet, Value::Null)).await;
        match expected {
            Ok(source) => {
                assert_eq!(said(&answer), ("verified-wallet", ""), "{uri:.80}: {answer}");
                assert_eq!(answer["file"]["source"], source, "{uri:.80}");
            }
            Err(why) => assert_eq!(said(&answer), ("not-read", "file"), "{why}: {answer}"),
        }
    }
    // What is not to be kept is not kept.
    let uri = stage.files.put("/fresh", Page::NoStore(file_of(&[RESOURCE])));
    let agent = stage.agent_with(&uri).await;
    for _ in 0..2 {
        stage.check(agent.requirement(agent.wallet, Value::Null)).await;
    }
    assert_eq!(stage.files.hits("/fresh"), 2);
}

/// Anybody can register an agent whose file lists somebody else's server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_identity_for_a_known_server_is_noted() {
    let stage = Stage::start("report").await;
    let (first, second) = (stage.agent().await, stage.agent().await);
    let check = async |agent: &crate::stage::Agent, pay_to: Address| {
        let answer = stage.check(agent.requirement(pay_to, Value::Null)).await;
        (said(&answer).0.to_owned(), answer["notes"].clone())
    };
    // What is not verified teaches nothing.
    assert_eq!(check(&second, THIEF).await, ("mismatch".into(), json!([])));
    assert_eq!(check(&first, first.wallet).await, ("verified-wallet".into(), json!([])));
    for _ in 0..2 {
        let noted = ("verified-wallet".into(), json!(["identity-changed"]));
        assert_eq!(check(&second, second.wallet).await, noted);
    }
    assert_eq!(check(&first, first.wallet).await, ("verified-wallet".into(), json!([])));
    assert!(stage.server.log_text().contains("verified under another identity"));
}

fn with(mut requirement: Value, field: &str, value: Value) -> Value {
    requirement["extra"]["erc8004"][field] = value;
    requirement
}

fn without(mut requirement: Value, pointer: &str) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    requirement.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    requirement
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
