//! testdata/payee/payee_outcomes.json.

use crate::support::*;
use alloy_primitives::U256;
use quittance_protocol::payee::{
    Answer, Claim, Context, Fact, Facts, Named, Plan, Policy, Registered, UnreadReason, WalletCode, decide,
    plan,
};
use quittance_protocol::units::UnixSeconds;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn claim(input: &Value) -> Claim {
    let known = &input["payerIdentity"];
    let payload = input.get("payment").map(|payment| json!({"payload": {"authorization": payment}}));
    let context = Context {
        payload: payload.as_ref(),
        requested_url: text(input, "/requestedUrl"),
        known: Named::read(known.get("registry"), known.get("agentId")),
        v1_networks: &v1_networks(),
    };
    Claim::read(&input["requirement"], &context).expect("a requirement")
}

/// A read that may have failed.
fn read<T>(read: &Value, value: impl FnOnce(&Value) -> T) -> Fact<T> {
    match read.get("ok").and_then(Value::as_bool) {
        Some(true) => Fact::Read(value(read)),
        Some(false) => Fact::Unread(UnreadReason::new(text(read, "/why").unwrap_or("transport"))),
        None => Fact::NotAsked,
    }
}

fn facts_of(reads: &Value) -> Facts {
    let hex = |value: &Value, field: &str| bytes(value[field].as_str().unwrap());
    Facts {
        block: Fact::Read(block(reads["blockNumber"].as_u64().unwrap())),
        registry: read(&reads["registry"], |registry| Registered {
            agent_wallet: address(registry["agentWallet"].as_str().unwrap()),
            owner: registry["exists"]
                .as_bool()
                .unwrap()
                .then(|| address(registry["owner"].as_str().unwrap())),
        }),
        file: read(&reads["file"], |read| file(&read["json"])),
        code: read(&reads["code"], |code| WalletCode::of(hex(code, "code").len(), &hex(code, "code"))),
        erc1271: read(&reads["sig1271"], |answer| erc1271(&hex(answer, "ret"))),
        remembered: None,
    }
}

fn policy_of(input: &Value) -> Policy {
    let registries = list(input, "configured").iter().map(|id| id.as_str().unwrap().parse().unwrap());
    Policy { registries: registries.collect(), ..Policy::default() }
}

fn now(input: &Value) -> UnixSeconds {
    UnixSeconds(input["now"].as_u64().unwrap())
}

/// What the data expects of an answer, from what goes out on the wire.
fn seen(answer: &Answer) -> Value {
    let wire = serde_json::to_value(answer).unwrap();
    let mut seen = json!({"outcome": wire["outcome"], "notes": wire["notes"]});
    for field in ["rule", "failedRead"] {
        if !wire[field].is_null() {
            seen[field] = wire[field].clone();
        }
    }
    seen
}

#[test]
fn every_outcome_in_the_data() {
    let data = data("payee_outcomes");
    let cases = list(&data, "cases");
    let mut outcomes = BTreeMap::<String, u32>::new();
    for case in cases {
        let input = &case["input"];
        let answer = decide(&claim(input), &facts_of(&input["reads"]), &policy_of(input), now(input));
        assert_eq!(seen(&answer), case["expected"], "{} {}", case["id"], case["scenario"]);
        *outcomes.entry(answer.outcome.to_string()).or_default() += 1;
    }
    assert_eq!(cases.len(), 80);
    let counts: Vec<(&str, u32)> =
        outcomes.iter().map(|(outcome, count)| (outcome.as_str(), *count)).collect();
    assert_eq!(
        counts,
        [
            ("endpoint-unlisted", 12),
            ("invalid-delegation", 8),
            ("mismatch", 8),
            ("no-agent-wallet", 3),
            ("no-identity", 3),
            ("not-read", 18),
            ("owner-only", 2),
            ("verified-delegation", 5),
            ("verified-wallet", 21),
        ]
    );
}

/// Whoever reads exactly what the plan asks for comes to the same answer as whoever reads everything.
#[test]
fn the_plan_asks_for_all_that_the_outcome_depends_on() {
    let data = data("payee_outcomes");
    let (mut nothing, mut asked) = (0, 0);
    for case in list(&data, "cases") {
        let input = &case["input"];
        let (claim, policy) = (claim(input), policy_of(input));
        let mut facts = facts_of(&input["reads"]);
        match plan(&claim, &policy) {
            Plan::Nothing => {
                facts = Facts::none();
                nothing += 1;
            }
            Plan::Read(questions) => match questions.signature {
                None => facts.erc1271 = Fact::NotAsked,
                Some(_) => asked += 1,
            },
        }
        let answer = decide(&claim, &facts, &policy, now(input));
        assert_eq!(seen(&answer), case["expected"], "{} {}", case["id"], case["scenario"]);
    }
    assert_eq!((nothing, asked), (11, 6));
}

/// The answer's mandatory fields: the identity checked, chain and number of the block, the wallet read, `payTo`, and
/// the read that failed.
#[test]
fn every_answer_says_what_it_is_about() {
    let data = data("payee_outcomes");
    for case in list(&data, "cases") {
        let (input, id) = (&case["input"], &case["id"]);
        let facts = facts_of(&input["reads"]);
        let answer = decide(&claim(input), &facts, &policy_of(input), now(input));
        let wire = serde_json::to_value(&answer).unwrap();
        assert_eq!(wire["payTo"], input["requirement"]["payTo"], "{id}");
        assert_eq!(wire["checkedAt"], input["now"], "{id}");
        assert_eq!(wire["failedRead"].is_null(), wire["outcome"] != "not-read", "{id}");
        assert_eq!(wire["reason"].is_null(), wire["outcome"] != "not-read", "{id}");
        assert_eq!(wire["rule"].is_null(), wire["outcome"] != "invalid-delegation", "{id}");
        if wire["outcome"] == "no-identity" || wire["failedRead"] == "identity" {
            assert!(wire["identity"].is_null() && wire["block"].is_null(), "{id}");
            continue;
        }
        let named = match input.get("payerIdentity") {
            Some(known) => known,
            None => &input["requirement"]["extra"]["erc8004"],
        };
        let agent_id = named["agentId"].as_str().map_or_else(|| named["agentId"].to_string(), Into::into);
        assert_eq!(wire["identity"]["registry"], named["registry"], "{id}");
        assert_eq!(wire["identity"]["agentId"], agent_id, "{id}");
        let source = if input.get("payerIdentity").is_some() { "payer" } else { "requirement" };
        assert_eq!(wire["identity"]["source"], source, "{id}");
        assert_eq!(wire["block"]["chainId"], "4663", "{id}");
        assert_eq!(wire["block"]["number"], U256::from(1_234_567).to_string(), "{id}");
        if wire["failedRead"] != "registry" {
            assert_eq!(wire["agentWallet"], input["reads"]["registry"]["agentWallet"], "{id}");
        }
    }
}
