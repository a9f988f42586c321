//! Bodies of `/verify` and `/settle`: answered, and read as they were written.

use alloy_primitives::U256;
use quittance_protocol::{
    interop::{InteropAddress, coherent},
    payee::{self, Claim, Context, Facts, Named},
    payment::{fingerprint, replay_key},
    rules::{Policy, check_offline},
    scheme::exact_eip3009::{deployable, direct_calls},
    signature::Shape,
    units::{Network, UnixSeconds},
    wire::{Json, Refusal, Request, Served, Version, parse},
};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// The input as the body of a request.
pub fn check(input: &[u8]) {
    let json = Json::read(input);
    assert_eq!(json.is_some(), is_json(input));
    let Some(json) = json else { return };
    let echo = json.echo();
    assert!(!echo.network.is_empty() && echo.network.len() <= 64);
    let body = match json.whole() {
        Ok(body) => body,
        Err(refusal) => return explained(&refusal),
    };
    match parse(body, &served()) {
        Err(refusal) => explained(&refusal),
        Ok(request) => {
            as_written(&request, body);
            assert_eq!(echo.payer, Some(request.payment.authorization.from));
            assert_eq!(Some(echo.network.as_str()), body["paymentRequirements"]["network"].as_str());
            judged(&request);
        }
    }
    claimed(body);
}

/// By its grammar, whatever can be held of it.
fn is_json(input: &[u8]) -> bool {
    std::str::from_utf8(input).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

fn network() -> Network {
    Network::from_chain_id(84_532).expect("a chain id")
}

fn served() -> Served {
    Served {
        v1: [("base-sepolia".into(), network())].into(),
        v2: [("eip155:84532".into(), network())].into(),
    }
}

/// A sentence of our own: nothing of the body is repeated in it.
fn explained(refusal: &Refusal) {
    assert!(!refusal.code.wire().is_empty() && !refusal.message.is_empty());
    assert!(refusal.message.is_ascii() && refusal.message.len() < 250, "{}", refusal.message);
    assert!(!refusal.message.contains("://"), "{}", refusal.message);
}

/// The fields, looked up a second time.
fn as_written(request: &Request, body: &Value) {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).expect(pointer).to_owned();
    let lower = |pointer: &str| text(pointer).to_lowercase();
    let (a, r) = (&request.payment.authorization, &request.requirement);
    let authorization = |field: &str| format!("/paymentPayload/payload/authorization/{field}");
    assert_eq!(format!("{:#x}", a.from), lower(&authorization("from")));
    assert_eq!(format!("{:#x}", a.to), lower(&authorization("to")));
    assert_eq!(a.value.to_string(), text(&authorization("value")));
    assert_eq!(a.valid_after.to_string(), text(&authorization("validAfter")));
    assert_eq!(a.valid_before.to_string(), text(&authorization("validBefore")));
    assert_eq!(format!("{:#x}", a.nonce.0), lower(&authorization("nonce")));
    assert_eq!(
        alloy_primitives::hex::encode_prefixed(request.payment.signature.bytes()),
        lower("/paymentPayload/payload/signature")
    );
    for (field, address) in [("payTo", r.pay_to), ("asset", r.asset)] {
        let text = text(&format!("/paymentRequirements/{field}"));
        assert_eq!(format!("{address:#x}"), text.to_lowercase());
        // No pair that contradicts itself gets here.
        let account = InteropAddress::evm(U256::from(84_532), address);
        assert_eq!(coherent("eip155:84532", field, &text), Ok(account));
    }
    assert!(!r.pay_to.is_zero());
    assert_eq!(r.network, network());
    let amount = match request.version {
        Version::V1 => "maxAmountRequired",
        Version::V2 => "amount",
    };
    assert_eq!(r.amount.to_string(), text(&format!("/paymentRequirements/{amount}")));
    if let Some(id) = &request.payment_identifier {
        assert!((16..=128).contains(&id.len()));
        assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    }
}

/// What comes next without a chain: twice the same, whatever was signed.
fn judged(request: &Request) {
    let policy = Policy {
        validity_margin_seconds: 6,
        authorization_lifetime_seconds_max: 0,
        gas_per_settlement_max: 3_000_000,
        wallet_factories: vec![request.requirement.asset],
        forbidden_payers: Vec::new(),
    };
    let verdict = check_offline(request, &policy, NOW);
    assert_eq!(verdict, check_offline(request, &policy, NOW));
    if let Err(refusal) = &verdict {
        explained(refusal);
    }
    let (payment, requirement) = (&request.payment, &request.requirement);
    assert_eq!(replay_key(payment, requirement).auth_nonce, payment.authorization.nonce);
    assert_eq!(fingerprint(payment, requirement), fingerprint(payment, requirement));
    let calls = direct_calls(payment, requirement.asset);
    assert!(!calls.is_empty() && calls.iter().all(|call| call.to == requirement.asset));
    if let Some(wrapper) = deployable(payment, &policy.wallet_factories) {
        assert!(matches!(payment.signature.shape(), Shape::Erc6492(_)) && wrapper.is_complete());
    }
}

/// The payee check of the same body, before anything was read: it verifies nobody.
fn claimed(body: &Value) {
    let names = BTreeMap::from([("base-sepolia".to_owned(), "eip155:84532".to_owned())]);
    let context = Context {
        payload: body.get("paymentPayload"),
        requested_url: None,
        known: Named::Nothing,
        v1_networks: &names,
    };
    let Some(requirements) = body.get("paymentRequirements") else { return };
    match Claim::read(requirements, &context) {
        Err(refusal) => explained(&refusal),
        Ok(claim) => {
            let answer = payee::decide(&claim, &Facts::none(), &payee::Policy::default(), NOW);
            assert!(!answer.outcome.is_verified(), "{:?}", answer.outcome);
        }
    }
}
