//! The decision a second time, as a table over what matters, and every combination of it.

use crate::support::*;
use alloy_primitives::Address;
use quittance_protocol::payee::{
    Claim, Fact, Facts, Note, Outcome, Policy, Registered, RegistrationFile, WalletCode, decide,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Read {
    Done,
    Failed,
    NotAsked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    Nothing,
    Garbage,
    Stranger,
    Agent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wallet {
    Unset,
    Key,
    Contract,
    Delegated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PayTo {
    Wallet,
    Owner,
    Treasury,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Network {
    Registry,
    OtherEvm,
    Solana,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    None,
    Malformed,
    BrokenRule,
    ByKey,
    /// No key made it; the wallet's contract may vouch for it.
    Opaque,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    named: Named,
    registry: Read,
    agent_exists: bool,
    file: Read,
    listed: bool,
    wallet: Wallet,
    code: Read,
    pay_to: PayTo,
    network: Network,
    proof: Proof,
    contract: Read,
    contract_agrees: bool,
    eip7702_is_eoa: bool,
}

/// spec/payee.md §2.2, step by step.
fn expected(c: &Case) -> &'static str {
    match c.named {
        Named::Nothing => return "no-identity",
        Named::Garbage => return "not-read identity",
        Named::Stranger => return "not-read registry",
        Named::Agent => {}
    }
    if c.registry != Read::Done || !c.agent_exists {
        return "not-read registry";
    }
    if c.file != Read::Done {
        return "not-read file";
    }
    if !c.listed {
        return "endpoint-unlisted";
    }
    if c.wallet == Wallet::Unset {
        let is_owner = c.pay_to == PayTo::Owner && c.network == Network::Registry;
        return if is_owner { "owner-only" } else { "no-agent-wallet" };
    }
    let mut code_missed = false;
    if c.pay_to == PayTo::Wallet {
        match c.network {
            Network::Registry => return "verified-wallet",
            Network::OtherEvm if c.code != Read::Done => code_missed = true,
            Network::OtherEvm if c.wallet == Wallet::Key => return "verified-wallet",
            Network::OtherEvm if c.wallet == Wallet::Delegated && c.eip7702_is_eoa => {
                return "verified-wallet";
            }
            Network::OtherEvm | Network::Solana => {}
        }
    }
    let has_code = c.wallet != Wallet::Key;
    let rest = match c.proof {
        Proof::ByKey => return "verified-delegation",
        Proof::Opaque
            if c.code == Read::Done && has_code && c.contract == Read::Done && c.contract_agrees =>
        {
            return "verified-delegation";
        }
        Proof::None => "mismatch",
        Proof::Malformed => "invalid-delegation malformed",
        Proof::BrokenRule => "invalid-delegation asset",
        Proof::Opaque if c.code != Read::Done => "not-read code",
        Proof::Opaque if has_code && c.contract != Read::Done => "not-read signature",
        Proof::Opaque => "invalid-delegation signature",
    };
    if code_missed { "not-read code" } else { rest }
}

fn fact<T>(read: Read, value: T) -> Fact<T> {
    match read {
        Read::Done => Fact::Read(value),
        Read::Failed => unread(),
        Read::NotAsked => Fact::NotAsked,
    }
}

fn facts_of(c: &Case, registration: &RegistrationFile) -> Facts {
    let agent_wallet = if c.wallet == Wallet::Unset { Address::ZERO } else { wallet() };
    Facts {
        block: Fact::Read(block(1)),
        registry: fact(
            c.registry,
            Registered { agent_wallet, owner: c.agent_exists.then(|| address(OWNER)) },
        ),
        file: fact(c.file, registration.clone()),
        code: fact(
            c.code,
            match c.wallet {
                Wallet::Unset | Wallet::Key => WalletCode::Empty,
                Wallet::Contract => WalletCode::Contract,
                Wallet::Delegated => WalletCode::Delegated(address(OWNER)),
            },
        ),
        erc1271: fact(c.contract, if c.contract_agrees { magic() } else { erc1271(&[0xff; 32]) }),
        remembered: None,
    }
}

fn claim_of(named: Named, pay_to: PayTo, network: Network, proof: Proof) -> Claim {
    let network = match network {
        Network::Registry => "eip155:4663",
        Network::OtherEvm => "eip155:8453",
        Network::Solana => SOLANA,
    };
    let pay_to = match pay_to {
        PayTo::Wallet => wallet().to_string(),
        PayTo::Owner => OWNER.into(),
        PayTo::Treasury => TREASURY.into(),
    };
    let mut message = message();
    (message.network, message.pay_to) = (network.into(), pay_to.clone());
    let delegation = match proof {
        Proof::None => Value::Null,
        Proof::Malformed => json!("0x"),
        Proof::BrokenRule => {
            message.asset = OWNER.into();
            sign(message, &key()).to_json()
        }
        Proof::ByKey => sign(message, &key()).to_json(),
        Proof::Opaque => json!({"message": message.to_json(), "signature": "0x010203"}),
    };
    let mut requirement = requirement(network, &pay_to, &delegation);
    match named {
        Named::Agent => {}
        Named::Nothing => requirement["extra"]["erc8004"] = Value::Null,
        Named::Garbage => requirement["extra"]["erc8004"]["agentId"] = json!("020030"),
        Named::Stranger => requirement["extra"]["erc8004"]["registry"] = json!(REGISTRY.replace("4663", "1")),
    }
    Claim::read(&requirement, &context(&v1_networks())).unwrap()
}

/// The combinations, numbered.
fn case(number: usize) -> Case {
    const READS: [Read; 3] = [Read::Done, Read::Failed, Read::NotAsked];
    struct Digits(usize);
    impl Digits {
        fn pick<T: Copy>(&mut self, of: &[T]) -> T {
            let digit = self.0 % of.len();
            self.0 /= of.len();
            of[digit]
        }
    }
    let mut digits = Digits(number);
    let both = [false, true];
    Case {
        contract: digits.pick(&READS),
        contract_agrees: digits.pick(&both),
        code: digits.pick(&READS),
        wallet: digits.pick(&[Wallet::Unset, Wallet::Key, Wallet::Contract, Wallet::Delegated]),
        listed: digits.pick(&both),
        file: digits.pick(&READS),
        agent_exists: digits.pick(&both),
        registry: digits.pick(&READS),
        named: digits.pick(&[Named::Nothing, Named::Garbage, Named::Stranger, Named::Agent]),
        pay_to: digits.pick(&[PayTo::Wallet, PayTo::Owner, PayTo::Treasury]),
        network: digits.pick(&[Network::Registry, Network::OtherEvm, Network::Solana]),
        proof: digits.pick(&[Proof::None, Proof::Malformed, Proof::BrokenRule, Proof::ByKey, Proof::Opaque]),
        eip7702_is_eoa: digits.pick(&both),
    }
}

const COMBINATIONS: usize = 3 * 2 * 3 * 4 * 2 * 3 * 2 * 3 * 4 * 3 * 3 * 5 * 2;

#[test]
fn every_combination_is_decided_as_the_table_says() {
    let files = [false, true].map(|listed| {
        let endpoint = if listed { "https://example.com/" } else { "https://other.example/" };
        file(&json!({"services": [{"endpoint": endpoint}]}))
    });
    let mut seen = BTreeMap::<String, u32>::new();
    let mut claims = BTreeMap::new();
    for number in 0..COMBINATIONS {
        let case = case(number);
        // Behind an early way out nothing matters: there a sample is enough, and 29 shares no factor with the choices.
        let late = case.named == Named::Agent
            && (case.registry, case.agent_exists) == (Read::Done, true)
            && (case.file, case.listed) == (Read::Done, true);
        if !late && number % 29 != 0 {
            continue;
        }
        let claim = claims
            .entry((case.named, case.pay_to, case.network, case.proof))
            .or_insert_with(|| claim_of(case.named, case.pay_to, case.network, case.proof));
        let facts = facts_of(&case, &files[usize::from(case.listed)]);
        let policy = Policy { eip7702_is_eoa: case.eip7702_is_eoa, ..policy() };
        let answer = decide(claim, &facts, &policy, NOW);
        // What only the option allows says so, and nothing else does.
        let literal = expected(&Case { eip7702_is_eoa: false, ..case });
        assert_eq!(answer.notes.contains(&Note::Eip7702IsEoa), literal != expected(&case), "{case:?}");
        let outcome = answer.outcome;
        let detail = match &outcome {
            Outcome::InvalidDelegation(rule) => format!(" {rule}"),
            Outcome::NotRead(read, _) => format!(" {read}"),
            _ => String::new(),
        };
        let shown = format!("{outcome}{detail}");
        assert_eq!(shown, expected(&case), "{case:?}");
        *seen.entry(shown).or_default() += 1;
    }
    assert_eq!(seen.len(), 15, "{seen:?}");
}
