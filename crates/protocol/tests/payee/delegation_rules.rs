//! One broken field, one rule; of two broken fields the one that comes first in the text.

use crate::support::*;
use alloy_primitives::{B256, U256};
use k256::ecdsa::SigningKey;
use proptest::prelude::*;
use quittance_protocol::{
    payee::{
        Carried, Claim, Delegation, Fact, Message, Outcome, Plan, Rule, VALIDITY_SECONDS_MAX, WalletCode,
        decide, plan,
    },
    signature::Ecdsa,
};
use serde_json::{Value, json};

type Break = fn(&mut Message);

/// Each breaks its rule and no other but the signature, unless it is signed again.
const BREAKS: &[(Rule, Break)] = &[
    (Rule::ChainId, |m| m.chain_id += U256::from(1)),
    (Rule::Registry, |m| m.registry.0[19] ^= 1),
    (Rule::AgentId, |m| m.agent_id += U256::from(1)),
    (Rule::AgentWallet, |m| m.agent_wallet.0[0] ^= 0x80),
    (Rule::ValidityOrder, |m| {
        m.valid_after = NOW.0;
        m.valid_until = NOW.0;
    }),
    (Rule::NotYetValid, |m| m.valid_after = NOW.0 + 1),
    (Rule::Expired, |m| m.valid_until = NOW.0),
    (Rule::ValidityTooLong, |m| m.valid_until = m.valid_after + VALIDITY_SECONDS_MAX + 1),
    (Rule::Network, |m| m.network.push('0')),
    (Rule::PayTo, |m| m.pay_to = OWNER.into()),
    (Rule::Asset, |m| m.asset = OWNER.into()),
    (Rule::Origin, |m| m.origin.push_str(":444")),
];

fn claim(delegation: &Delegation) -> Claim {
    let requirement = requirement("eip155:8453", TREASURY, &delegation.to_json());
    Claim::read(&requirement, &context(&v1_networks())).unwrap()
}

fn outcome(delegation: &Delegation) -> Outcome {
    decide(&claim(delegation), &facts(), &policy(), NOW).outcome
}

fn asks_contract(delegation: &Delegation) -> bool {
    let Plan::Read(questions) = plan(&claim(delegation), &policy()) else { panic!("a registry to read") };
    questions.signature.is_some()
}

#[test]
fn unbroken_it_is_valid() {
    assert_eq!(outcome(&sign(message(), &key())), Outcome::VerifiedDelegation);
}

#[test]
fn every_broken_field_names_its_rule() {
    for (rule, break_it) in BREAKS {
        let mut message = message();
        break_it(&mut message);
        let signed_again = sign(message, &key());
        assert_eq!(outcome(&signed_again), Outcome::InvalidDelegation(*rule));
        let mut changed_later = sign(crate::support::message(), &key());
        changed_later.message = signed_again.message;
        assert_eq!(outcome(&changed_later), Outcome::InvalidDelegation(*rule));
    }
    let covered: Vec<Rule> = BREAKS.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(covered, Rule::ALL[1..13]);
}

#[test]
fn of_two_broken_fields_the_first_is_named() {
    for (i, (first, break_first)) in BREAKS.iter().enumerate() {
        for (second, break_second) in &BREAKS[i + 1..] {
            let mut message = message();
            break_second(&mut message);
            break_first(&mut message);
            // The times are three rules on two fields: some pairs cannot both be broken.
            let both = !matches!(
                (first, second),
                (Rule::ValidityOrder, _)
                    | (_, Rule::ValidityOrder)
                    | (Rule::NotYetValid, Rule::Expired)
                    | (Rule::Expired, Rule::ValidityTooLong)
            );
            if both {
                assert_eq!(
                    outcome(&sign(message, &key())),
                    Outcome::InvalidDelegation(*first),
                    "{first} {second}"
                );
            }
        }
    }
}

#[test]
fn every_field_is_signed() {
    let changes: &[Break] = &[
        |m| m.valid_after -= 1,
        |m| m.valid_until += 1,
        |m| m.asset = "*".into(),
        |m| m.origin = "*".into(),
        |m| m.origin.push_str(":443"),
        |m| m.pay_to = m.pay_to.to_lowercase(),
        |m| m.asset = m.asset.to_lowercase(),
        |m| m.nonce = B256::ZERO,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut delegation = sign(message(), &key());
        change(&mut delegation.message);
        assert_eq!(outcome(&delegation), Outcome::InvalidDelegation(Rule::Signature), "{i}");
        assert_eq!(outcome(&sign(delegation.message, &key())), Outcome::VerifiedDelegation, "{i}");
    }
}

#[test]
fn a_member_of_another_type_is_malformed() {
    let good = sign(message(), &key()).to_json();
    let strings = ["network", "payTo", "asset", "origin"];
    let numbers = ["chainId", "agentId", "validAfter", "validUntil"];
    let hex = ["registry", "agentWallet", "nonce"];
    let mut bad: Vec<Value> =
        vec![json!([]), json!(1), json!("0x"), json!(false), json!({"message": {}, "signature": "0x"})];
    for field in strings.iter().chain(&numbers).chain(&hex) {
        for value in [Value::Null, json!([]), json!({}), json!(true), json!(-1), json!(1.5)] {
            let mut broken = good.clone();
            broken["message"][field] = value;
            bad.push(broken);
        }
        let mut missing = good.clone();
        missing["message"].as_object_mut().unwrap().remove(*field);
        bad.push(missing);
    }
    for (fields, values) in [
        (numbers.as_slice(), ["", "0x1", "01", "+1", "-1", "1e3", "1.0", " 1"].as_slice()),
        (&hex, &["", "0x", "0x0x11", "1111", "0xzz", "0x1"]),
    ] {
        for (field, value) in fields.iter().flat_map(|field| values.iter().map(move |value| (field, value))) {
            let mut broken = good.clone();
            broken["message"][field] = json!(value);
            bad.push(broken);
        }
    }
    for signature in [
        json!("ab"),
        json!("0xa"),
        json!("0xzz"),
        json!("0x0xab"),
        json!(null),
        json!(1),
        json!(format!("0x{}", "00".repeat(16_385))),
    ] {
        let mut broken = good.clone();
        broken["signature"] = signature;
        bad.push(broken);
    }
    for value in &bad {
        assert_eq!(Carried::read(Some(value)), Carried::Malformed, "{value}");
    }
    assert!(bad.len() > 100);
    let mut longest = good.clone();
    longest["signature"] = json!(format!("0x{}", "00".repeat(16_384)));
    assert!(matches!(Carried::read(Some(&longest)), Carried::Delegation(_)));
    assert!(matches!(Carried::read(Some(&good)), Carried::Delegation(_)));
}

#[test]
fn a_contract_is_asked_only_when_it_can_still_help() {
    let good = sign(message(), &key());
    assert!(!asks_contract(&good), "a key signed it");
    let mut by_contract = good.clone();
    by_contract.signature = vec![0xab; 200].into();
    assert!(asks_contract(&by_contract));
    for (rule, break_it) in BREAKS {
        let mut broken = by_contract.clone();
        break_it(&mut broken.message);
        // The wallet is known only once the registry has answered, and time may pass until then.
        let can_still_hold = [Rule::AgentWallet, Rule::NotYetValid, Rule::Expired].contains(rule);
        assert_eq!(asks_contract(&broken), can_still_hold, "{rule}");
    }
    let mut zero = by_contract;
    zero.message.agent_wallet = Default::default();
    assert!(!asks_contract(&zero));
}

#[test]
fn the_question_is_about_the_signature_as_it_came() {
    let wrapped = [vec![0x11; 96], bytes(&"6492".repeat(16))].concat();
    let delegation = Delegation { message: message(), signature: wrapped.clone().into() };
    let Plan::Read(questions) = plan(&claim(&delegation), &policy()) else { panic!() };
    let question = questions.signature.unwrap();
    assert_eq!(question.signature, wrapped);
    assert_eq!(question.wallet, wallet());
    assert_eq!(question.digest, message().digest(&identity()));
    assert_eq!(questions.identity, identity());
}

#[test]
fn an_answer_counts_whole_and_only_from_code() {
    let by_contract = Delegation { message: message(), signature: vec![1, 2, 3].into() };
    let outcome = |code, answer| {
        let mut facts = facts();
        facts.code = code;
        facts.erc1271 = answer;
        decide(&claim(&by_contract), &facts, &policy(), NOW).outcome
    };
    let invalid = Outcome::InvalidDelegation(Rule::Signature);
    for code in [WalletCode::Contract, WalletCode::Delegated(address(OWNER))] {
        let code = || Fact::Read(code);
        assert_eq!(outcome(code(), Fact::Read(magic())), Outcome::VerifiedDelegation);
        assert_eq!(outcome(code(), Fact::Read(erc1271(&magic().word[..4]))), invalid);
        assert_eq!(outcome(code(), Fact::Read(erc1271(&[]))), invalid);
        let reverted = quittance_protocol::facts::Erc1271Answer { success: false, ..magic() };
        assert_eq!(outcome(code(), Fact::Read(reverted)), invalid);
        assert_eq!(outcome(code(), unread()).as_str(), "not-read");
        assert_eq!(outcome(code(), Fact::NotAsked).as_str(), "not-read");
    }
    assert_eq!(outcome(Fact::Read(WalletCode::Empty), Fact::Read(magic())), invalid);
    assert_eq!(outcome(unread(), Fact::Read(magic())).as_str(), "not-read");
    assert_eq!(outcome(Fact::NotAsked, Fact::Read(magic())).as_str(), "not-read");
}

#[test]
fn both_spellings_of_a_signature_recover() {
    // Of both parities: a wrong `v` must not be mended into either.
    for parity in [27, 28] {
        let signed =
            (0..).map(|nonce| sign(Message { nonce: B256::repeat_byte(nonce), ..message() }, &key()));
        let mut parsed =
            signed.map(|delegation| (Ecdsa::from_bytes(&delegation.signature).unwrap(), delegation));
        let (parts, delegation) = parsed.find(|(parts, _)| parts.v == parity).unwrap();
        both_spellings_recover(parts, &delegation);
    }
}

fn both_spellings_recover(parts: Ecdsa, delegation: &Delegation) {
    let with = |parts: Ecdsa| Delegation { signature: parts.to_bytes(), ..delegation.clone() };
    let twin = parts.high_s_twin();
    assert!(!twin.is_canonical());
    for good in [parts, twin, Ecdsa { v: parts.v - 27, ..parts }, Ecdsa { v: twin.v - 27, ..twin }] {
        assert_eq!(outcome(&with(good)), Outcome::VerifiedDelegation);
    }
    let zero = B256::ZERO;
    for bad in [
        Ecdsa { v: 55 - parts.v, ..parts },
        Ecdsa { v: 29, ..twin },
        Ecdsa { v: parts.v + 10, ..parts },
        Ecdsa { r: zero, ..parts },
        Ecdsa { s: zero, ..parts },
        Ecdsa { r: B256::repeat_byte(0xff), s: B256::repeat_byte(0xff), ..parts },
    ] {
        assert_eq!(outcome(&with(bad)), Outcome::InvalidDelegation(Rule::Signature));
    }
}

#[test]
fn a_rotated_wallet_voids_what_it_signed() {
    let delegation = sign(message(), &key());
    let mut facts = facts();
    let new_wallet =
        alloy_primitives::Address::from_private_key(&SigningKey::from_slice(&[0x22; 32]).unwrap());
    let Fact::Read(registered) = &mut facts.registry else { panic!() };
    registered.agent_wallet = new_wallet;
    let answer = decide(&claim(&delegation), &facts, &policy(), NOW);
    assert_eq!(answer.outcome, Outcome::InvalidDelegation(Rule::AgentWallet));
}

#[test]
fn a_delegation_survives_its_json() {
    let delegation = sign(message(), &key());
    assert_eq!(carried(&delegation.to_json()), delegation);
}

proptest! {
    /// Whatever is changed in a signed delegation, except where two spellings mean the same, it is not valid any more.
    #[test]
    fn a_changed_bit_is_never_valid(at in 0_usize..65, bit in 0_u8..8) {
        let mut delegation = sign(message(), &key());
        let mut signature = delegation.signature.to_vec();
        signature[at] ^= 1 << bit;
        delegation.signature = signature.into();
        prop_assert_eq!(outcome(&delegation), Outcome::InvalidDelegation(Rule::Signature));
    }

    #[test]
    fn any_times_are_judged_without_overflow(after: u64, until: u64, now: u64) {
        let mut message = message();
        (message.valid_after, message.valid_until) = (after, until);
        let delegation = sign(message, &key());
        let outcome = decide(&claim(&delegation), &facts(), &policy(), quittance_protocol::units::UnixSeconds(now)).outcome;
        let (after, until, now) = (u128::from(after), u128::from(until), u128::from(now));
        let expected = if until <= after {
            Outcome::InvalidDelegation(Rule::ValidityOrder)
        } else if now < after {
            Outcome::InvalidDelegation(Rule::NotYetValid)
        } else if now >= until {
            Outcome::InvalidDelegation(Rule::Expired)
        } else if until - after > 31_536_000 {
            Outcome::InvalidDelegation(Rule::ValidityTooLong)
        } else {
            Outcome::VerifiedDelegation
        };
        prop_assert_eq!(outcome, expected);
    }

    #[test]
    fn any_json_is_a_delegation_or_malformed(text in "\\PC{0,60}", number: u64) {
        for value in [json!(text), json!(number), json!({"message": text}), json!({"message": {"chainId": number}, "signature": text})] {
            prop_assert_eq!(Carried::read(Some(&value)), Carried::Malformed);
        }
    }
}
