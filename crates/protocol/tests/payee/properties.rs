//! What must hold whatever is read and whatever is claimed.

use crate::support::*;
use alloy_primitives::Address;
use proptest::prelude::*;
use quittance_protocol::payee::{Claim, Fact, Facts, Outcome, Registered, WalletCode, decide};
use serde_json::{Value, json};

fn claims() -> impl Strategy<Value = Claim> {
    let delegation = prop::sample::select(vec![0_u8, 1, 2, 3, 4]);
    let network = prop::sample::select(vec!["eip155:4663", "eip155:8453", "base", SOLANA]);
    let pay_to = prop::sample::select(vec![wallet().to_string(), OWNER.into(), TREASURY.into()]);
    let resource = prop::sample::select(vec!["https://example.com/x", "https://evil.example/", "garbage"]);
    (delegation, network, pay_to, resource).prop_map(|(delegation, network, pay_to, resource)| {
        let mut message = message();
        message.pay_to = pay_to.clone();
        message.network = if network == "base" { "eip155:8453" } else { network }.into();
        let delegation = match delegation {
            0 => Value::Null,
            1 => json!({}),
            2 => sign(message, &key()).to_json(),
            3 => json!({"message": message.to_json(), "signature": "0xab"}),
            _ => {
                message.valid_until = NOW.0;
                sign(message, &key()).to_json()
            }
        };
        let mut requirement = requirement(network, &pay_to, &delegation);
        requirement["resource"] = resource.into();
        Claim::read(&requirement, &context(&v1_networks())).unwrap()
    })
}

fn all_read() -> impl Strategy<Value = Facts> {
    let wallets = prop::sample::select(vec![wallet(), Address::ZERO, address(OWNER)]);
    let codes = prop::sample::select(vec![
        WalletCode::Empty,
        WalletCode::Contract,
        WalletCode::Delegated(address(OWNER)),
    ]);
    let answers = prop::sample::select(vec![magic(), erc1271(&[]), erc1271(&[0xff; 32])]);
    let owners = prop::sample::select(vec![Some(address(OWNER)), None]);
    (wallets, codes, answers, owners).prop_map(|(agent_wallet, code, answer, owner)| Facts {
        registry: Fact::Read(Registered { agent_wallet, owner }),
        code: Fact::Read(code),
        erc1271: Fact::Read(answer),
        ..facts()
    })
}

/// The same facts, some of them not read.
fn spoil(facts: &Facts, spoiled: [u8; 5]) -> Facts {
    fn one<T: Clone>(fact: &Fact<T>, how: u8) -> Fact<T> {
        match how {
            0 => unread(),
            1 => Fact::NotAsked,
            _ => fact.clone(),
        }
    }
    Facts {
        block: one(&facts.block, spoiled[0]),
        registry: one(&facts.registry, spoiled[1]),
        file: one(&facts.file, spoiled[2]),
        code: one(&facts.code, spoiled[3]),
        erc1271: one(&facts.erc1271, spoiled[4]),
        remembered: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A failed read can hide an outcome, never make one. There is one way to another outcome: where the code is unread,
    /// 2(a) is open, and a valid delegation binds by 2(b).
    #[test]
    fn a_failed_read_hides_the_outcome_or_changes_nothing(
        claim in claims(), facts in all_read(), spoiled in prop::array::uniform5(0_u8..6),
    ) {
        let whole = decide(&claim, &facts, &policy(), NOW).outcome;
        let partly = decide(&claim, &spoil(&facts, spoiled), &policy(), NOW).outcome;
        let hidden = matches!(partly, Outcome::NotRead(..));
        let other_way = (&whole, &partly) == (&Outcome::VerifiedWallet, &Outcome::VerifiedDelegation) && spoiled[3] < 2;
        prop_assert!(hidden || partly == whole || other_way, "{whole:?} became {partly:?}");
    }

    /// What the binding means, said once more without any of the code that decides it.
    #[test]
    fn verified_means_listed_and_the_wallets_own_doing(claim in claims(), facts in all_read()) {
        let answer = decide(&claim, &facts, &policy(), NOW);
        let wallet = answer.agent_wallet.map(|wallet| wallet.to_string().to_lowercase());
        let is_wallet = Some(answer.pay_to.to_lowercase()) == wallet;
        match answer.outcome {
            Outcome::VerifiedWallet => {
                prop_assert!(is_wallet);
                prop_assert!(answer.network == "eip155:4663" || facts.code == Fact::Read(WalletCode::Empty));
            }
            Outcome::VerifiedDelegation => prop_assert!(!matches!(
                claim.delegation,
                quittance_protocol::payee::Carried::Nothing | quittance_protocol::payee::Carried::Malformed
            )),
            _ => return Ok(()),
        }
        let origin = answer.origin.as_ref().map(ToString::to_string);
        prop_assert_eq!(origin.as_deref(), Some("https://example.com"));
        prop_assert!(answer.block.is_some() && answer.agent_wallet.is_some_and(|wallet| !wallet.is_zero()));
        prop_assert!(answer.refusal().is_none());
    }

    /// On the wire exactly one outcome, with the detail that belongs to it and no other.
    #[test]
    fn there_is_exactly_one_outcome(claim in claims(), facts in all_read(), spoiled in prop::array::uniform5(0_u8..6)) {
        let answer = decide(&claim, &spoil(&facts, spoiled), &policy(), NOW);
        let wire = serde_json::to_value(&answer).unwrap();
        let nine = [
            "verified-wallet", "verified-delegation", "mismatch", "invalid-delegation", "endpoint-unlisted",
            "owner-only", "no-agent-wallet", "no-identity", "not-read",
        ];
        prop_assert_eq!(nine.iter().filter(|outcome| wire["outcome"] == **outcome).count(), 1);
        prop_assert_eq!(wire["failedRead"].is_string(), wire["outcome"] == "not-read");
        prop_assert_eq!(wire["rule"].is_string(), wire["outcome"] == "invalid-delegation");
    }

    /// Requirements of any shape are read or refused, and what is read is decided.
    #[test]
    fn any_requirement_is_read_or_refused(network in "\\PC{0,12}", pay_to in "\\PC{0,12}", resource in "\\PC{0,20}", named in "\\PC{0,12}", amount in "[0-9]{0,5}") {
        let requirement = json!({
            "network": network, "payTo": pay_to, "asset": "x", "amount": amount, "resource": resource,
            "extra": {"erc8004": {"registry": named, "agentId": amount, "delegation": {"message": named}}},
        });
        if let Ok(claim) = Claim::read(&requirement, &context(&v1_networks())) {
            prop_assert!(!decide(&claim, &facts(), &policy(), NOW).outcome.is_verified());
        }
    }
}
