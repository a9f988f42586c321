//! testdata/payee/payee_delegation.json.

use crate::support::*;
use alloy_primitives::{B256, U256, keccak256};
use quittance_protocol::{
    payee::{
        Carried, Claim, Fact, FailedRead, Identity, Origin, Outcome, Registered, RegistryId, Rule, Subject,
        Verdict, WalletCode, decide, recover, type_hash,
    },
    units::UnixSeconds,
};
use serde_json::{Value, json};

struct Case<'a> {
    context: &'a Value,
    identity: Identity,
    code: Fact<WalletCode>,
    erc1271: Fact<quittance_protocol::facts::Erc1271Answer>,
    now: UnixSeconds,
}

impl<'a> Case<'a> {
    fn of(vector: &'a Value) -> Self {
        let context = &vector["context"];
        let code = |code: &str| WalletCode::of(bytes(code).len(), &bytes(code));
        Self {
            context,
            identity: identity_of(context),
            code: text(context, "/walletCode").map_or_else(unread, |hex| Fact::Read(code(hex))),
            erc1271: text(context, "/isValidSignature")
                .map_or_else(unread, |hex| Fact::Read(erc1271(&bytes(hex)))),
            now: UnixSeconds(context["now"].as_u64().unwrap()),
        }
    }

    fn text(&self, field: &str) -> &'a str {
        self.context[field].as_str().unwrap()
    }
}

/// Of a context, or of a message.
fn identity_of(value: &Value) -> Identity {
    let number = |field: &str| match &value[field] {
        Value::String(digits) => digits.parse::<U256>().unwrap(),
        number => U256::from(number.as_u64().unwrap()),
    };
    let registry = RegistryId::new(number("chainId"), address(value["registry"].as_str().unwrap()));
    Identity { registry: registry.unwrap(), agent_id: number("agentId") }
}

fn expected(vector: &Value) -> Verdict {
    let expected = &vector["expected"];
    let reason = |fact: Fact<()>| fact.value().unwrap_err();
    match (expected["valid"].as_bool(), text(expected, "/rule"), text(expected, "/unread")) {
        (Some(true), None, None) => Verdict::Valid,
        (Some(false), Some(rule), None) => {
            Verdict::Invalid(*Rule::ALL.iter().find(|known| known.as_str() == rule).unwrap())
        }
        (None, None, Some("code")) => Verdict::Unread(FailedRead::Code, reason(unread())),
        (None, None, Some("signature")) => Verdict::Unread(FailedRead::Signature, reason(unread())),
        _ => panic!("{expected}"),
    }
}

#[test]
fn every_delegation_in_the_data_is_judged() {
    let data = data("payee_delegation");
    let vectors = list(&data, "vectors");
    for vector in vectors {
        let case = Case::of(vector);
        let origin = Origin::of_url(case.text("resource"));
        let subject = Subject {
            identity: &case.identity,
            network: case.text("network"),
            pay_to: case.text("payTo"),
            asset: case.text("asset"),
            origin: origin.as_ref(),
        };
        let verdict = match Carried::read(Some(&vector["delegation"])) {
            Carried::Delegation(delegation) => delegation.check(
                &subject,
                address(case.text("agentWallet")),
                &case.code,
                &case.erc1271,
                case.now,
            ),
            Carried::Malformed => Verdict::Invalid(Rule::Malformed),
            Carried::Nothing => panic!("there is one"),
        };
        assert_eq!(verdict, expected(vector), "{}", vector["id"]);
    }
    assert_eq!(vectors.len(), 65);
    let valid = vectors.iter().filter(|vector| vector["expected"]["valid"] == true).count();
    assert_eq!(valid, 19);
}

#[test]
fn every_delegation_in_the_data_decides_the_outcome() {
    let data = data("payee_delegation");
    for vector in list(&data, "vectors") {
        let case = Case::of(vector);
        let requirement = json!({
            "network": case.text("network"), "asset": case.text("asset"), "amount": "1",
            "payTo": case.text("payTo"), "resource": case.text("resource"),
            "extra": {"erc8004": {
                "registry": case.identity.registry.to_string(),
                "agentId": case.identity.agent_id.to_string(),
                "delegation": vector["delegation"],
            }},
        });
        let claim = Claim::read(&requirement, &context(&v1_networks())).unwrap();
        let mut facts = facts();
        let agent_wallet = address(case.text("agentWallet"));
        facts.registry = Fact::Read(Registered { agent_wallet, owner: Some(address(OWNER)) });
        facts.file = Fact::Read(file(&json!({"services": [{"endpoint": case.text("resource")}]})));
        facts.code = case.code.clone();
        facts.erc1271 = case.erc1271;
        let outcome = decide(&claim, &facts, &policy(), case.now).outcome;
        let expected = match expected(vector) {
            // Without an agent wallet no delegation is looked at.
            _ if agent_wallet.is_zero() => Outcome::NoAgentWallet,
            Verdict::Valid => Outcome::VerifiedDelegation,
            Verdict::Invalid(rule) => Outcome::InvalidDelegation(rule),
            Verdict::Unread(read, reason) => Outcome::NotRead(read, reason),
        };
        assert_eq!(outcome, expected, "{}", vector["id"]);
    }
}

#[test]
fn every_digest_in_the_data() {
    let data = data("payee_delegation");
    let word = |value: &Value| value.as_str().unwrap().parse::<B256>().unwrap();
    assert_eq!(type_hash(), word(&data["typeHash"]));
    assert_eq!(
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
        word(&data["domainTypeHash"]),
    );
    let (mut digests, mut signers) = (0, 0);
    for vector in list(&data, "vectors").iter().filter(|vector| vector["digest"].is_string()) {
        // What is signed may be a message that cannot be read, so it is taken from the typed data.
        let typed = json!({"message": vector["typedData"]["message"], "signature": vector["delegation"]["signature"]});
        let delegation = carried(&typed);
        let identity = identity_of(&vector["typedData"]["message"]);
        let digest = delegation.message.digest(&identity);
        let struct_hash = delegation.message.struct_hash();
        assert_eq!(struct_hash, word(&vector["structHash"]), "{}", vector["id"]);
        assert_eq!(digest, word(&vector["digest"]), "{}", vector["id"]);
        let separator = word(&vector["domainSeparator"]);
        let preimage = [&[0x19, 0x01], separator.as_slice(), struct_hash.as_slice()].concat();
        assert_eq!(keccak256(preimage), digest, "{}", vector["id"]);
        digests += 1;
        // Signatures over another digest than the right one name it.
        let signed = vector.get("signedDigest").filter(|value| value.is_string()).map_or(digest, word);
        if let (Some(signer), Some(recovered)) =
            (text(vector, "/signer"), recover(&delegation.signature, signed))
        {
            signers += usize::from(recovered == address(signer));
        }
    }
    assert_eq!(digests, 63);
    assert!(signers > 40, "{signers}");
}

#[test]
fn the_rules_are_those_of_the_data_in_their_order() {
    let data = data("payee_delegation");
    let order: Vec<&str> = list(&data, "ruleOrder").iter().map(|rule| rule.as_str().unwrap()).collect();
    let rules: Vec<&str> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(rules, order);
}
