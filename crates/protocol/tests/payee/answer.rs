//! The answer on the wire.

use crate::support::*;
use alloy_primitives::{Address, U256};
use quittance_protocol::{
    code::Code,
    payee::{
        Claim, Fact, Facts, FailedRead, FileSource, Identity, Note, Outcome, Policy, Registered,
        RegistrationFile, Rule, UnreadReason, WalletCode, decide,
    },
    units::UnixSeconds,
};
use serde_json::{Value, json};

fn claim(pay_to: &str, delegation: &Value) -> Claim {
    let requirement = requirement("eip155:8453", pay_to, delegation);
    Claim::read(&requirement, &context(&v1_networks())).unwrap()
}

#[test]
fn an_answer_in_full() {
    let mut delegation = message();
    delegation.valid_until = NOW.0;
    let claim = claim(TREASURY, &sign(delegation, &key()).to_json());
    let mut facts = facts();
    facts.file = Fact::Read(RegistrationFile {
        source: FileSource::Https,
        fetched_at: Some(UnixSeconds(NOW.0 - 5)),
        ..file(&json!({
            "active": false,
            "registrations": [{"agentId": 1, "agentRegistry": REGISTRY}],
            "services": [{"name": "x402", "endpoint": "https://example.com/api", "payees": []}],
        }))
    });
    facts.remembered = Some(Identity { agent_id: U256::from(7), ..identity() });
    let answer = decide(&claim, &facts, &policy(), NOW);
    assert_eq!(
        serde_json::to_value(&answer).unwrap(),
        json!({
            "outcome": "invalid-delegation", "rule": "expired", "failedRead": null, "reason": null,
            "identity": {"registry": REGISTRY, "agentId": "20030", "source": "requirement"},
            "block": {"chainId": "4663", "number": "1234567", "hash": format!("0x{}", "b1".repeat(32))},
            "agentWallet": wallet().to_checksum(None), "network": "eip155:8453", "payTo": TREASURY,
            "origin": "https://example.com",
            "file": {"source": "https", "fetchedAt": 1_799_999_995},
            "notes": ["identity-changed", "payee-not-declared", "registration-backref-missing", "inactive"],
            "checkedAt": 1_800_000_000,
        })
    );
}

#[test]
fn what_is_unknown_is_null_and_what_is_unset_is_zero() {
    let mut facts = facts();
    facts.registry = Fact::Read(Registered { agent_wallet: Address::ZERO, owner: Some(address(OWNER)) });
    facts.file = unread();
    let wire = |facts: &Facts| {
        serde_json::to_value(decide(&claim(TREASURY, &Value::Null), facts, &policy(), NOW)).unwrap()
    };
    let unset = wire(&facts);
    assert_eq!(unset["agentWallet"], "0x0000000000000000000000000000000000000000");
    assert_eq!((&unset["failedRead"], &unset["reason"]), (&json!("file"), &json!("timeout")));
    facts.registry = unread();
    assert_eq!(wire(&facts)["agentWallet"], Value::Null);
}

/// ERC-8478 2(a) asks for "no contract code" on the registry's chain, and EIP-7702 leaves 23 bytes there. Taken at its word
/// unless the operator says otherwise; and then the answer says so.
#[test]
fn a_wallet_with_an_eip7702_designator_elsewhere_is_for_the_operator_to_judge() {
    let literal = policy();
    let lenient = Policy { eip7702_is_eoa: true, ..policy() };
    let answered = |network: &str, code: Fact<WalletCode>, policy: &Policy| {
        let requirement = requirement(network, &wallet().to_string(), &Value::Null);
        let claim = Claim::read(&requirement, &context(&v1_networks())).unwrap();
        let wire = serde_json::to_value(decide(&claim, &Facts { code, ..facts() }, policy, NOW)).unwrap();
        (wire["outcome"].as_str().unwrap().to_owned(), wire["notes"].clone())
    };
    let delegated = || Fact::Read(WalletCode::Delegated(address(OWNER)));
    let (elsewhere, at_home) = ("eip155:8453", "eip155:4663");
    let noted = json!(["eip7702-is-eoa"]);
    assert_eq!(answered(elsewhere, delegated(), &literal), ("mismatch".into(), json!([])));
    assert_eq!(answered(elsewhere, delegated(), &lenient), ("verified-wallet".into(), noted));
    for policy in [&literal, &lenient] {
        // Where it changes nothing, nothing is said.
        for (network, code, outcome) in [
            (at_home, delegated(), "verified-wallet"),
            (elsewhere, Fact::Read(WalletCode::Empty), "verified-wallet"),
            (elsewhere, Fact::Read(WalletCode::Contract), "mismatch"),
            (elsewhere, unread(), "not-read"),
            (SOLANA, delegated(), "mismatch"),
        ] {
            assert_eq!(answered(network, code, policy), (outcome.into(), json!([])), "{network}");
        }
    }
    assert!(!Policy::default().eip7702_is_eoa);
}

#[test]
fn only_a_substituted_payee_is_refused() {
    let reason = UnreadReason::new("timeout");
    let mut answer = decide(&claim(TREASURY, &Value::Null), &facts(), &policy(), NOW);
    let all = [
        (Outcome::VerifiedWallet, true, false),
        (Outcome::VerifiedDelegation, true, false),
        (Outcome::Mismatch, false, true),
        (Outcome::InvalidDelegation(Rule::PayTo), false, true),
        (Outcome::EndpointUnlisted, false, false),
        (Outcome::OwnerOnly, false, false),
        (Outcome::NoAgentWallet, false, false),
        (Outcome::NoIdentity, false, false),
        (Outcome::NotRead(FailedRead::Registry, reason), false, false),
    ];
    for (outcome, verified, substituted) in all {
        assert_eq!(outcome.is_verified(), verified, "{outcome}");
        answer.outcome = outcome;
        let refusal = answer.refusal();
        assert_eq!(refusal.is_some(), substituted);
        if let Some(refusal) = refusal {
            assert_eq!(refusal.code, Code::PayeeMismatch);
            assert!(refusal.message.contains(answer.outcome.as_str()), "{}", refusal.message);
        }
    }
}

#[test]
fn a_reason_is_safe_to_show() {
    let reason =
        UnreadReason::new(format!("GET https://rpc.example/key\u{1b}[31m\u{202e} {}", "ab".repeat(40)));
    assert_eq!(reason.as_str(), "GET (url) (hex)");
    assert!(UnreadReason::new("x ".repeat(500)).as_str().chars().count() <= 160);
}

#[test]
fn facts_of_another_chain_or_registry_prove_nothing() {
    let claim = claim(&wallet().to_string(), &Value::Null);
    let outcome = |facts: Facts, policy: Policy| decide(&claim, &facts, &policy, NOW).outcome.as_str();
    assert_eq!(outcome(facts(), policy()), "verified-wallet");
    let mut other_chain = facts();
    let mut block = block(1);
    block.chain_id = U256::from(1);
    other_chain.block = Fact::Read(block);
    let answer = decide(&claim, &other_chain, &policy(), NOW);
    assert_eq!(answer.outcome.as_str(), "not-read");
    assert_eq!((answer.block, answer.agent_wallet, answer.file), (None, None, None));
    let mut untrusted = policy();
    untrusted.registries.clear();
    assert_eq!(outcome(facts(), untrusted), "not-read");
    let mut unknown_agent = facts();
    unknown_agent.registry = Fact::Read(Registered { agent_wallet: wallet(), owner: None });
    assert_eq!(outcome(unknown_agent, policy()), "not-read");
}

#[test]
fn nobody_owns_by_the_zero_address() {
    let zero = Address::ZERO.to_string();
    let requirement = requirement("eip155:4663", &zero, &Value::Null);
    let claim = Claim::read(&requirement, &context(&v1_networks())).unwrap();
    let mut facts = facts();
    facts.registry = Fact::Read(Registered { agent_wallet: Address::ZERO, owner: Some(Address::ZERO) });
    assert_eq!(decide(&claim, &facts, &policy(), NOW).outcome, Outcome::NoAgentWallet);
}

#[test]
fn notes_need_a_file_that_was_read() {
    let mut facts = facts();
    facts.file = Fact::Read(file(&json!({"active": false})));
    let claim = claim(TREASURY, &Value::Null);
    assert_eq!(decide(&claim, &facts, &policy(), NOW).notes, [Note::Inactive]);
    facts.registry = unread();
    assert_eq!(decide(&claim, &facts, &policy(), NOW).notes, []);
}
