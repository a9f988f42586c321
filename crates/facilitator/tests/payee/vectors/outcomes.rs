//! payee_outcomes.json: 80 cases of the decision table.

use super::theatre::{CHAIN_ID, Code, Expected, FILES, NOW, OWNER, Play, REGISTRY, RegistryCode, Unread};
use crate::files::Page;
use alloy_primitives::{Address, U256};
use serde_json::{Value, json};

pub(super) fn plays(data: &Value) -> Vec<Play> {
    data["cases"].as_array().unwrap().iter().map(play).collect()
}

fn play(case: &Value) -> Play {
    let (id, input) = (case["id"].as_str().unwrap(), &case["input"]);
    let reads = &input["reads"];
    assert_eq!(input["now"], NOW, "{id}");
    let mut requirement = input["requirement"].clone();
    if input["configured"] == json!([]) {
        requirement["extra"]["erc8004"]["registry"] = json!(format!("eip155:1:{REGISTRY}"));
    } else {
        assert_eq!(input["configured"], json!([format!("eip155:{CHAIN_ID}:{REGISTRY}")]), "{id}");
    }
    let (registry, mut fault) = match reads["registry"]["why"].as_str() {
        None => (RegistryCode::Real, None),
        Some("timeout") => (RegistryCode::Real, Some(Unread::Registry)),
        Some("empty answer") => (RegistryCode::None, None),
        Some("answer is not one word") => (RegistryCode::Words3, None),
        Some(why) => panic!("{id}: nobody knows how to play {why:?}"),
    };
    if reads["registry"]["ok"] == true {
        assert_eq!(reads["registry"]["exists"], true, "{id}");
        assert_eq!(reads["registry"]["owner"], OWNER.to_string(), "{id}");
    }
    let path = format!("/outcomes/{id}.json");
    let mut token_uri = format!("{FILES}{path}");
    let page = match (reads["file"]["ok"].as_bool().unwrap(), reads["file"]["why"].as_str()) {
        (true, None) => Some((path, Page::Json(reads["file"]["json"].clone()))),
        (false, Some("HTTP 503")) => Some((path, Page::Status(503))),
        (false, Some("timeout")) => {
            token_uri = "https://nobody.example/agent.json".to_owned();
            None
        }
        (false, Some("tokenURI empty")) => {
            token_uri.clear();
            None
        }
        other => panic!("{id}: nobody knows how to play {other:?}"),
    };
    let code = code(reads, &mut fault);
    let mut question = json!({ "paymentRequirements": requirement });
    if let Some(known) = input.get("payerIdentity") {
        question["registry"] = known["registry"].clone();
        question["agentId"] = known["agentId"].clone();
    }
    if let Some(url) = input.get("requestedUrl") {
        question["resource"] = url.clone();
    }
    if let Some(payment) = input.get("payment") {
        question["paymentPayload"] = json!({ "payload": { "authorization": payment } });
    }
    let expected = expected(case, &question);
    let wallet = reads["registry"]["agentWallet"].as_str();
    Play {
        name: format!("outcome {id}: {}", case["scenario"]),
        // Where none is named that could be there, the usual one is.
        agent_id: expected
            .identity
            .as_ref()
            .map_or_else(|| U256::from(20_030), |(_, agent_id, _)| agent_id.parse().unwrap()),
        wallet: wallet.map_or(Address::repeat_byte(0x19), |wallet| wallet.parse().unwrap()),
        token_uri,
        page,
        gateway_page: None,
        code,
        registry,
        fault,
        question,
        expected,
    }
}

fn code(reads: &Value, fault: &mut Option<Unread>) -> Code {
    if reads["code"]["ok"] == false {
        *fault = Some(Unread::Code);
        return Code::As(Default::default());
    }
    let code = reads["code"]["code"].as_str().unwrap().parse().unwrap();
    match reads.get("sig1271") {
        None => Code::As(code),
        Some(answer) if answer["ok"] == false => {
            *fault = Some(Unread::Signature);
            Code::As(code)
        }
        Some(answer) if answer["ret"] == "0x" => Code::Reverts,
        Some(answer) => Code::Answers(answer["ret"].as_str().unwrap().parse().unwrap()),
    }
}

fn expected(case: &Value, question: &Value) -> Expected {
    let expected = &case["expected"];
    let (named, by) = match question.get("agentId") {
        Some(_) => (question, "payer"),
        None => (&question["paymentRequirements"]["extra"]["erc8004"], "requirement"),
    };
    let identity = if expected["outcome"] == "no-identity" || expected["failedRead"] == "identity" {
        None
    } else {
        let agent_id = named["agentId"].as_str().map_or_else(|| named["agentId"].to_string(), Into::into);
        Some((named["registry"].as_str().unwrap().to_owned(), agent_id, by))
    };
    Expected {
        outcome: expected["outcome"].clone(),
        rule: expected["rule"].clone(),
        failed_read: expected["failedRead"].clone(),
        notes: serde_json::from_value(expected["notes"].clone()).unwrap(),
        identity,
        source: None,
    }
}
