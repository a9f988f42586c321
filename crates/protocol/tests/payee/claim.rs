//! Reading payment requirements of both versions.

use crate::support::*;
use alloy_primitives::U256;
use quittance_protocol::{
    code::Code,
    payee::{
        Carried, Claim, Context, Facts, Named, Note, Origin, Outcome, Plan, RegistryId, SignedPayment,
        Source, decide, plan,
    },
};
use serde_json::{Value, json};

fn read(requirements: &Value) -> Claim {
    Claim::read(requirements, &context(&v1_networks())).expect("a requirement")
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut requirement = requirement("eip155:4663", TREASURY, &Value::Null);
    change(&mut requirement);
    requirement
}

fn refused(requirements: &Value) -> Code {
    Claim::read(requirements, &context(&v1_networks())).expect_err("refused").code
}

#[test]
fn both_versions_are_read() {
    let v2 = read(&with(|_| {}));
    assert_eq!(v2.amount, U256::from(50_000));
    assert_eq!(v2.identity(), (Named::Identity(identity()), Source::Requirement));
    let v1 = read(&with(|requirement| {
        requirement["maxAmountRequired"] = requirement["amount"].take();
        requirement["network"] = "base".into();
        requirement["extra"] = requirement["extra"].to_string().into();
    }));
    assert_eq!((v1.amount, v1.network.as_str()), (v2.amount, "eip155:8453"));
    assert_eq!(v1.named, v2.named);
}

#[test]
fn a_requirement_that_asks_for_nothing_is_refused() {
    for field in ["network", "asset", "amount", "payTo"] {
        for value in [Value::Null, json!(1), json!("")] {
            let code = refused(&with(|requirement| requirement[field] = value));
            assert_eq!(code, Code::InvalidPaymentRequirements, "{field}");
        }
    }
    for pay_to in ["0x 1", "a\u{202e}b", &"a".repeat(257)] {
        assert_eq!(refused(&with(|r| r["payTo"] = pay_to.into())), Code::InvalidPaymentRequirements);
    }
    for extra in [json!([]), json!(1), json!("x"), json!("[]")] {
        assert_eq!(refused(&with(|r| r["extra"] = extra)), Code::InvalidPaymentRequirements);
    }
    for network in
        ["nowhere", "eip155:0", "eip155:08453", "eip155:", "EIP155:1", "eip155:1:2", "eip155:+1", ":1"]
    {
        assert_eq!(refused(&with(|r| r["network"] = network.into())), Code::InvalidNetwork, "{network}");
    }
    for network in ["solana:mainnet", "stellar:pubnet", "hedera:mainnet", "cosmos:cosmoshub-3", "eip155:1"] {
        assert_eq!(read(&with(|r| r["network"] = network.into())).network, network);
    }
    assert_eq!(refused(&Value::Null), Code::InvalidPaymentRequirements);
}

#[test]
fn what_is_named_badly_is_still_named() {
    for bad in [
        json!(""),
        json!(0),
        json!(false),
        json!([]),
        json!({}),
        json!({"registry": REGISTRY}),
        json!({"registry": REGISTRY, "agentId": null}),
        json!({"registry": REGISTRY, "agentId": ""}),
        json!({"registry": REGISTRY, "agentId": "0x4e3e"}),
        json!({"registry": REGISTRY, "agentId": "-1"}),
        json!({"registry": REGISTRY, "agentId": 1.5}),
        json!({"registry": REGISTRY, "agentId": 2e4}),
        json!({"registry": REGISTRY, "agentId": -1}),
        json!({"registry": REGISTRY, "agentId": U256::MAX.to_string() + "0"}),
        json!({"registry": format!("{REGISTRY} "), "agentId": "1"}),
        json!({"registry": REGISTRY.to_uppercase(), "agentId": "1"}),
        json!({"registry": REGISTRY.replace("0x", ""), "agentId": "1"}),
        json!({"registry": REGISTRY.replace("4663", &"9".repeat(33)), "agentId": "1"}),
        json!({"registry": ["x"], "agentId": "1"}),
    ] {
        let claim = read(&with(|requirement| requirement["extra"]["erc8004"] = bad.clone()));
        assert!(matches!(claim.named, Named::Malformed(_)), "{bad}");
        assert_eq!(plan(&claim, &policy()), Plan::Nothing);
        let outcome = decide(&claim, &facts(), &policy(), NOW).outcome;
        assert_eq!(outcome.as_str(), "not-read", "{bad}");
    }
    let claim = read(&with(|r| r["extra"]["erc8004"]["agentId"] = U256::MAX.to_string().into()));
    assert!(matches!(claim.named, Named::Identity(identity) if identity.agent_id == U256::MAX));
    let long_chain = REGISTRY.replace("4663", &"9".repeat(32));
    let claim = read(&with(|r| r["extra"]["erc8004"]["registry"] = long_chain.clone().into()));
    assert!(matches!(claim.named, Named::Identity(identity) if identity.registry.to_string() == long_chain));
}

#[test]
fn the_payer_knows_better_or_knows_nothing() {
    let networks = v1_networks();
    let known = |registry: Value, agent_id: Value| {
        let known = Named::read(Some(&registry), Some(&agent_id));
        Claim::read(&with(|_| {}), &Context { known, ..context(&networks) }).unwrap()
    };
    let same = known(REGISTRY.into(), "20030".into());
    assert_eq!(same.identity(), (Named::Identity(identity()), Source::Payer));
    assert_eq!(decide(&same, &facts(), &policy(), NOW).notes, []);
    // Half an identity is not none, and is not made whole by what the seller says.
    for (registry, agent_id) in
        [(json!(REGISTRY), json!(null)), (json!(null), json!("20030")), (json!(1), json!(2))]
    {
        let half = known(registry, agent_id);
        let answer = decide(&half, &facts(), &policy(), NOW);
        assert_eq!(answer.outcome.as_str(), "not-read");
        assert_eq!(answer.notes, [Note::IdentityDiffers]);
    }
    let nothing = known(Value::Null, Value::Null);
    assert_eq!(nothing.identity().1, Source::Requirement);
    // The requirement's delegation still counts, and is held against the payer's identity.
    let claim = Claim::read(
        &with(|r| {
            r["network"] = "eip155:8453".into();
            r["extra"]["erc8004"] = json!({"delegation": sign(message(), &key()).to_json()});
        }),
        &Context { known: Named::Identity(identity()), ..context(&networks) },
    )
    .unwrap();
    let answer = decide(&claim, &facts(), &policy(), NOW);
    assert_eq!(answer.outcome, Outcome::VerifiedDelegation);
    assert_eq!(answer.notes, [Note::IdentityDiffers]);
}

#[test]
fn the_resource_is_the_first_that_is_said() {
    let networks = v1_networks();
    let payload = json!({"resource": {"url": "https://c.example/x"}});
    let origin = |own: Value, requested: Option<&str>, payload: Option<&Value>| {
        let context = Context { payload, requested_url: requested, ..context(&networks) };
        Claim::read(&with(|requirement| requirement["resource"] = own), &context).unwrap().origin
    };
    let of = |url: &str| Origin::of_url(url);
    let (a, b, c) = (of("https://a.example"), of("https://b.example"), of("https://c.example"));
    assert_eq!(origin(json!("https://a.example/x"), Some("https://b.example"), Some(&payload)), a);
    assert_eq!(origin(json!({"url": "https://a.example/x"}), Some("https://b.example"), None), a);
    assert_eq!(origin(Value::Null, Some("https://b.example"), Some(&payload)), b);
    assert_eq!(origin(Value::Null, None, Some(&payload)), c);
    assert_eq!(origin(Value::Null, None, Some(&json!({}))), None);
    // What is there and unusable is not passed over.
    for own in [json!("x"), json!(""), json!({}), json!(1), json!({"url": null})] {
        assert_eq!(origin(own.clone(), Some("https://b.example"), Some(&payload)), None, "{own}");
    }
    assert_eq!(origin(Value::Null, Some("x"), Some(&payload)), None);
}

#[test]
fn a_resource_elsewhere_than_asked_is_noted() {
    let networks = v1_networks();
    for (requested, differs) in [
        (None, false),
        (Some("https://example.com/other"), false),
        (Some("https://proxy.example/api/thing"), true),
        (Some("garbage"), true),
    ] {
        let context = Context { requested_url: requested, ..context(&networks) };
        let claim = Claim::read(&with(|_| {}), &context).unwrap();
        let notes = decide(&claim, &facts(), &policy(), NOW).notes;
        assert_eq!(notes.contains(&Note::ResourceDiffers), differs, "{requested:?}");
        let anonymous = Claim::read(&with(|r| r["extra"] = Value::Null), &context).unwrap();
        let notes = decide(&anonymous, &Facts::none(), &policy(), NOW).notes;
        assert_eq!(notes.contains(&Note::ResourceDiffers), differs, "{requested:?}");
    }
}

#[test]
fn a_signed_payment_is_found_in_both_schemes() {
    let payment = |to: &str, value: u64| SignedPayment { to: to.into(), value: Some(U256::from(value)) };
    let eip3009 = json!({"payload": {"authorization": {"to": TREASURY, "value": "7"}}});
    assert_eq!(SignedPayment::read(&eip3009), Some(payment(TREASURY, 7)));
    let permit2 = json!({"payload": {"permit2Authorization": {
        "permitted": {"token": USDC, "amount": "7"}, "witness": {"to": TREASURY}, "spender": OWNER,
    }}});
    assert_eq!(SignedPayment::read(&permit2), Some(payment(TREASURY, 7)));
    let broken = json!({"payload": {"authorization": {"to": 1, "value": "0x7"}}});
    assert_eq!(SignedPayment::read(&broken), Some(SignedPayment { to: String::new(), value: None }));
    assert_eq!(SignedPayment::read(&json!({"payload": {"transaction": "AQ=="}})), None);
    assert_eq!(SignedPayment::read(&json!({})), None);
}

#[test]
fn a_payment_differs_in_recipient_or_by_more() {
    let differs = |to: &str, value: Option<u64>| {
        let mut claim = read(&with(|_| {}));
        claim.payment = Some(SignedPayment { to: to.into(), value: value.map(U256::from) });
        decide(&claim, &facts(), &policy(), NOW).notes.contains(&Note::PaymentDiffers)
    };
    assert!(!differs(TREASURY, Some(50_000)));
    assert!(!differs(&TREASURY.to_lowercase(), Some(0)));
    assert!(differs(TREASURY, Some(50_001)));
    assert!(differs(TREASURY, None));
    assert!(differs(OWNER, Some(50_000)));
    assert!(differs("", Some(50_000)));
}

#[test]
fn debug_shows_no_signature() {
    let delegation = sign(message(), &key());
    let claim = read(&requirement("eip155:8453", TREASURY, &delegation.to_json()));
    assert!(matches!(&claim.delegation, Carried::Delegation(carried) if **carried == delegation));
    let mut bad = delegation.clone();
    bad.message.asset = "*".into();
    let question = plan(&read(&requirement("eip155:8453", TREASURY, &bad.to_json())), &policy());
    assert!(matches!(&question, Plan::Read(questions) if questions.signature.is_some()));
    let digits = alloy_primitives::hex::encode(&delegation.signature[..8]);
    for shown in [format!("{claim:?}"), format!("{question:?}")] {
        assert!(!shown.contains(&digits), "{shown}");
    }
}

#[test]
fn the_authors_registries_are_known_by_chain() {
    let known = |chain| RegistryId::canonical(chain).map(|registry| registry.to_string());
    assert_eq!(known(4663).as_deref(), Some(REGISTRY));
    assert_eq!(known(84532).as_deref(), Some("eip155:84532:0x8004A818BFB912233c491871b3d84c89A494BD9e"));
    assert_eq!(known(31337), None);
}
