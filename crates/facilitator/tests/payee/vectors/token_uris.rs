//! token_uri.json: 43 URIs, each of an agent whose wallet is to be paid. What the file lists decides, so what is read is told
//! by what comes out.

use super::theatre::{CHAIN_ID, Code, Expected, Play, REGISTRY, RegistryCode};
use crate::files::Page;
use alloy_primitives::{Address, Bytes, U256};
use serde_json::{Value, json};

const AGENT: u64 = 43;
const WALLET: Address = Address::repeat_byte(0x43);
const RESOURCE: &str = "https://example.com/report";

pub(super) fn plays(data: &Value) -> Vec<Play> {
    data["vectors"].as_array().unwrap().iter().enumerate().map(|(nth, vector)| play(nth, vector)).collect()
}

fn play(nth: usize, vector: &Value) -> Play {
    let (uri, class) = (vector["uri"].as_str().unwrap(), vector["class"].as_str().unwrap());
    let served =
        || Page::Json(json!({ "services": [{ "name": "web", "endpoint": "https://example.com/" }] }));
    let (mut page, mut gateway_page) = (None, None);
    let (outcome, failed_read, source) = match class {
        // Should it be fetched after all, it is there.
        "error" => {
            page = Some(("/agent.json".to_owned(), served()));
            ("not-read", json!("file"), None)
        }
        "https" => {
            assert_eq!(vector["fetch"], "https://example.com/agent.json");
            page = Some(("/agent.json".to_owned(), served()));
            ("verified-wallet", Value::Null, Some("https"))
        }
        "ipfs" => {
            let (cid, path) = (vector["cid"].as_str().unwrap(), vector["path"].as_str().unwrap());
            let below = if path.is_empty() { String::new() } else { format!("/{path}") };
            // The data has no blocks, so a gateway is asked that gives files.
            gateway_page = Some((format!("/ipfs/{cid}{below}"), served()));
            ("verified-wallet", Value::Null, Some("ipfs-gateway"))
        }
        _ => {
            let services = vector["json"]["services"].as_array().unwrap();
            let listed = services
                .iter()
                .any(|service| service["endpoint"].as_str().unwrap().starts_with("https://example.com/"));
            let outcome = if listed { "verified-wallet" } else { "endpoint-unlisted" };
            (outcome, Value::Null, Some("inline"))
        }
    };
    let registry = format!("eip155:{CHAIN_ID}:{REGISTRY}");
    let requirement = json!({
        "scheme": "exact",
        "network": format!("eip155:{CHAIN_ID}"),
        "asset": Address::repeat_byte(0xaa),
        "amount": "1",
        "payTo": WALLET,
        "extra": { "erc8004": { "registry": registry, "agentId": AGENT.to_string(), "delegation": null } },
    });
    Play {
        name: format!("token URI {nth}: {uri:.80}"),
        agent_id: U256::from(AGENT),
        wallet: WALLET,
        token_uri: uri.to_owned(),
        page,
        gateway_page,
        code: Code::As(Bytes::new()),
        registry: RegistryCode::Real,
        fault: None,
        question: json!({ "paymentRequirements": requirement, "resource": RESOURCE }),
        expected: Expected {
            outcome: json!(outcome),
            rule: Value::Null,
            failed_read,
            notes: Vec::new(),
            identity: Some((registry, AGENT.to_string(), "requirement")),
            source,
        },
    }
}
