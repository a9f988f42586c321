//! origins.json: 38 pairs of a resource and the one endpoint that an agent lists, whose wallet is to be paid.

use super::theatre::{CHAIN_ID, Code, Expected, FILES, Play, REGISTRY, RegistryCode};
use crate::files::Page;
use alloy_primitives::{Address, Bytes, U256};
use serde_json::{Value, json};

const AGENT: u64 = 38;
const WALLET: Address = Address::repeat_byte(0x38);

pub(super) fn plays(data: &Value) -> Vec<Play> {
    data["vectors"].as_array().unwrap().iter().enumerate().map(|(nth, vector)| play(nth, vector)).collect()
}

fn play(nth: usize, vector: &Value) -> Play {
    let registry = format!("eip155:{CHAIN_ID}:{REGISTRY}");
    let requirement = json!({
        "scheme": "exact",
        "network": format!("eip155:{CHAIN_ID}"),
        "asset": Address::repeat_byte(0xaa),
        "amount": "1",
        "payTo": WALLET,
        "resource": vector["resource"],
        "extra": { "erc8004": { "registry": registry, "agentId": AGENT.to_string(), "delegation": null } },
    });
    let path = format!("/origins/{nth}.json");
    let file = json!({ "services": [{ "name": "web", "endpoint": vector["endpoint"] }] });
    let outcome = if vector["match"] == true { "verified-wallet" } else { "endpoint-unlisted" };
    Play {
        name: format!("origins {} and {}", vector["resource"], vector["endpoint"]),
        agent_id: U256::from(AGENT),
        wallet: WALLET,
        token_uri: format!("{FILES}{path}"),
        page: Some((path, Page::Json(file))),
        gateway_page: None,
        code: Code::As(Bytes::new()),
        registry: RegistryCode::Real,
        fault: None,
        question: json!({ "paymentRequirements": requirement }),
        expected: Expected {
            outcome: json!(outcome),
            rule: Value::Null,
            failed_read: Value::Null,
            notes: Vec::new(),
            identity: Some((registry, AGENT.to_string(), "requirement")),
            source: Some("https"),
        },
    }
}
