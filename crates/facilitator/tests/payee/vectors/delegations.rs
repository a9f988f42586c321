//! payee_delegation.json: 65 delegations, each offered by an agent that lists the resource.

use super::theatre::{CHAIN_ID, Code, Expected, FILES, NOW, Play, REGISTRY, RegistryCode, Unread};
use crate::files::Page;
use alloy_primitives::{Address, Bytes};
use serde_json::{Value, json};

pub(super) fn plays(data: &Value) -> Vec<Play> {
    data["vectors"].as_array().unwrap().iter().map(play).collect()
}

fn play(vector: &Value) -> Play {
    let (id, context) = (vector["id"].as_str().unwrap(), &vector["context"]);
    assert_eq!(
        [&context["now"], &context["chainId"], &context["registry"]],
        [&json!(NOW), &json!(CHAIN_ID.to_string()), &json!(REGISTRY.to_string())],
        "{id}"
    );
    let registry = format!("eip155:{CHAIN_ID}:{REGISTRY}");
    let agent_id = context["agentId"].as_str().unwrap().to_owned();
    let wallet: Address = context["agentWallet"].as_str().unwrap().parse().unwrap();
    let requirement = json!({
        "scheme": "exact",
        "network": context["network"],
        "asset": context["asset"],
        "amount": "1",
        "payTo": context["payTo"],
        "resource": context["resource"],
        "extra": { "erc8004": {
            "registry": registry, "agentId": agent_id, "delegation": vector["delegation"],
        }},
    });
    let path = format!("/delegations/{id}.json");
    let file = json!({ "services": [{ "name": "web", "endpoint": context["resource"] }] });
    Play {
        name: format!("delegation {id}: {}", vector["why"]),
        agent_id: agent_id.parse().unwrap(),
        wallet,
        token_uri: format!("{FILES}{path}"),
        page: Some((path, Page::Json(file))),
        gateway_page: None,
        code: code(context),
        registry: RegistryCode::Real,
        fault: match vector["expected"]["unread"].as_str() {
            None => None,
            Some("code") => Some(Unread::Code),
            Some("signature") => Some(Unread::Signature),
            Some(read) => panic!("{id}: nobody knows how to play {read:?}"),
        },
        question: json!({ "paymentRequirements": requirement }),
        expected: expected(vector, wallet, (registry, agent_id, "requirement")),
    }
}

fn code(context: &Value) -> Code {
    let code: Bytes = context["walletCode"].as_str().unwrap_or("0x").parse().unwrap();
    let answer = context["isValidSignature"].as_str().map(|word| word.parse().unwrap());
    match answer {
        None => Code::As(code),
        Some(word) if code.starts_with(&[0xef, 0x01, 0x00]) => Code::DelegateAnswers(code, word),
        Some(word) => Code::Answers(word),
    }
}

fn expected(vector: &Value, wallet: Address, identity: (String, String, &'static str)) -> Expected {
    let expected = &vector["expected"];
    let (outcome, rule) = match expected["valid"].as_bool() {
        // Without an agent wallet no delegation is looked at.
        _ if wallet.is_zero() => ("no-agent-wallet", &Value::Null),
        Some(true) => ("verified-delegation", &Value::Null),
        Some(false) => ("invalid-delegation", &expected["rule"]),
        None => ("not-read", &Value::Null),
    };
    Expected {
        outcome: json!(outcome),
        rule: rule.clone(),
        failed_read: expected["unread"].clone(),
        notes: Vec::new(),
        identity: Some(identity),
        source: Some("https"),
    }
}
