//! What people and logs get to see: never a capability, never what a stranger wants them to see.

use crate::support::{
    NOW,
    chain::revert_data,
    policy, served,
    steps::{self, Base},
};
use alloy_primitives::{Bytes, hex, keccak256};
use quittance_protocol::{
    code::Code,
    facts::{ChainFacts, Simulation},
    rules::{check, revert_text},
    units::UnixSeconds,
    wire::{Refusal, Version, parse},
};
use serde_json::json;

/// The refusal when the transfer reverts with `data`.
fn reverting(base: Base, data: Bytes, change: impl FnOnce(&mut ChainFacts)) -> Refusal {
    let (terms, chain) = steps::base(base, Version::V2);
    let request = parse(&terms.body(), &served()).expect("a request");
    let policy = policy();
    let mut facts = chain.facts(&request, &policy);
    for simulation in facts.direct.iter_mut().chain(&mut facts.deploying) {
        *simulation = Simulation { success: false, return_data: data.clone(), ..simulation.clone() };
    }
    change(&mut facts);
    check(&request, &facts, &policy, UnixSeconds(NOW)).expect_err("refused")
}

fn says(text: &str) -> Refusal {
    reverting(Base::Eoa, revert_data(text), |_| {})
}

#[test]
fn a_revert_reason_is_shown_clean_and_short() {
    for (text, shown) in [
        ("FiatTokenV2: invalid signature", "FiatTokenV2: invalid signature"),
        ("a\u{0}b\r\nc", "ab c"),
        ("\u{1b}[2Jgone", "[2Jgone"),
        ("\u{202e}reversed", "reversed"),
        ("call https://rpc.example/v2/KEY please", "call (url) please"),
        ("http:\u{1}//rpc.example/KEY", "(url)"),
        ("", ""),
    ] {
        assert_eq!(revert_text(&revert_data_of(text)), shown, "{text:?}");
    }
    assert_eq!(revert_text(&revert_data_of(&"x".repeat(5000))), "x".repeat(200));
    let signature = hex::encode([0xab; 65]);
    assert_eq!(revert_text(&revert_data_of(&format!("bad 0x{signature}"))), "bad (hex)");
}

/// Also for no text at all.
fn revert_data_of(text: &str) -> Bytes {
    if text.is_empty() {
        let word = |n: u8| [[0; 31].as_slice(), &[n]].concat();
        return [[0x08, 0xc3, 0x79, 0xa0].as_slice(), &word(32), &word(0)].concat().into();
    }
    revert_data(text)
}

#[test]
fn other_revert_data_is_named_by_its_selector() {
    for (data, shown) in [
        (vec![], ""),
        (vec![1, 2, 3], ""),
        (vec![0xd9, 0x3c, 0x06, 0x65], "error 0xd93c0665"),
        (vec![0xab; 100], "error 0xabababab"),
        // Error(string) in name only.
        (vec![0x08, 0xc3, 0x79, 0xa0], "error 0x08c379a0"),
        (revert_data("text")[..67].to_vec(), "error 0x08c379a0"),
    ] {
        assert_eq!(revert_text(&data), shown, "{data:?}");
    }
    // An error of the contract's own that carries a string as well.
    let mut own = revert_data("text").to_vec();
    own[0] = 0xab;
    assert_eq!(revert_text(&own), "error 0xabc379a0");
    let mut odd_offset = revert_data("text").to_vec();
    odd_offset[4 + 31] = 64;
    assert_eq!(revert_text(&odd_offset), "error 0x08c379a0");
    // The facts keep only the beginning of long revert data: the part that is there is shown.
    assert_eq!(revert_text(&revert_data("a reason")[..68 + 3]), "a r");
    let mut endless = revert_data("a reason").to_vec();
    endless[36..68].fill(0xff);
    assert_eq!(revert_text(&endless[..68 + 8]), "a reason");
    let mut broken = revert_data("ab").to_vec();
    broken[68] = 0xff;
    assert_eq!(revert_text(&broken), "b");
}

#[test]
fn causes_that_tokens_name_have_their_codes() {
    for (text, code) in [
        ("Pausable: paused", Code::TokenPaused),
        ("PAUSED", Code::TokenPaused),
        ("Blacklistable: account is blacklisted", Code::AccountBlacklisted),
        ("account is blocklisted", Code::AccountBlacklisted),
        ("DenyList: denylisted", Code::AccountBlacklisted),
        ("ERC20: transfer amount exceeds balance", Code::InsufficientBalance),
        ("insufficient balance", Code::InsufficientBalance),
        ("FiatTokenV2: invalid signature", Code::SimulationFailed),
        ("pause", Code::SimulationFailed),
    ] {
        let refusal = says(text);
        assert_eq!(refusal.code, code, "{text}");
        assert_eq!(refusal.message, format!("the transfer reverts in simulation: {text}"));
    }
    let silent = says("");
    assert_eq!(silent.code, Code::SimulationFailed);
    assert_eq!(silent.message, "the transfer reverts in simulation: without a reason");
}

#[test]
fn causes_by_custom_error_are_those_of_openzeppelin() {
    for (error, code) in [
        ("EnforcedPause()", Code::TokenPaused),
        ("ERC20InsufficientBalance(address,uint256,uint256)", Code::InsufficientBalance),
        ("ERC20InvalidReceiver(address)", Code::SimulationFailed),
    ] {
        let data = Bytes::copy_from_slice(&keccak256(error)[..4]);
        assert_eq!(reverting(Base::Eoa, data, |_| {}).code, code, "{error}");
    }
}

#[test]
fn a_deployment_does_not_hide_what_the_token_says() {
    let hidden = revert_data("Multicall3: call failed");
    let refusal = reverting(Base::Undeployed, hidden.clone(), |f| {
        f.direct[0].return_data = revert_data("Pausable: paused");
    });
    assert_eq!(refusal.code, Code::TokenPaused);
    assert!(refusal.message.ends_with("Pausable: paused"));
    // What says nothing of its own leaves the deployment's words.
    let refusal = reverting(Base::Undeployed, hidden, |f| {
        f.direct[0].return_data = revert_data("FiatTokenV2: invalid signature");
    });
    assert_eq!(refusal.code, Code::SimulationFailed);
    assert!(refusal.message.ends_with("Multicall3: call failed"), "{}", refusal.message);
}

#[test]
fn a_tokens_own_name_is_shown_clean() {
    let refusal = |name: &str| {
        let (terms, chain) = steps::base(Base::Eoa, Version::V2);
        let request = parse(&terms.body(), &served()).expect("a request");
        let mut facts = chain.facts(&request, &policy());
        facts.domain_separator = None;
        facts.eip5267 = Some((name.to_owned(), "2".into()));
        check(&request, &facts, &policy(), UnixSeconds(NOW)).expect_err("another name").message
    };
    assert!(refusal("USD Coin").ends_with("name \"USD Coin\""));
    assert!(refusal("x\u{0}\n\u{202e}y").ends_with("name \"x y\""));
    assert!(refusal("https://phish.example").ends_with("name \"(url)\""));
    let long = refusal(&"n".repeat(5000));
    assert!(long.ends_with(&format!("name \"{}\"", "n".repeat(64))), "{long}");
    // A quote in a name cannot end the sentence early.
    assert!(refusal("a\"b").ends_with(r#"name "a\"b""#));
}

#[test]
fn debug_shows_no_capability() {
    let (mut terms, chain) = steps::base(Base::Eoa, Version::V2);
    terms.extra.insert("erc8004".into(), json!({ "delegation": { "signature": "0xdede1e9a7e" } }));
    let mut body = terms.body();
    body["paymentPayload"]["resource"]["url"] = json!("https://seller.example/?token=SECRET");
    let request = parse(&body, &served()).expect("a request");
    let mut facts = chain.facts(&request, &policy());
    let signature = terms.signature_bytes();
    let verified = check(&request, &facts, &policy(), UnixSeconds(NOW)).expect("valid");
    facts.direct[0].return_data = signature.clone().into();
    let shown = format!("{request:?} {facts:?} {verified:?} {:?}", request.payment.signature);
    let hex = hex::encode(&signature);
    for secret in [&hex[..64], &hex[64..128], "dede1e9a7e", "SECRET", "seller.example"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    // Nor as a list of numbers, as derived implementations print bytes.
    let numbers = format!("{}, {}, {}", signature[0], signature[1], signature[2]);
    assert!(!shown.contains(&numbers), "{shown}");
    // What tells payments apart is still there.
    let from = terms.message.from.to_string().to_lowercase();
    for part in [
        format!("Request {{ version: V2, payment: Payment {{ from: {from}"),
        "requirement: Requirement { network: Network(84532)".to_owned(),
        "Simulation { success: true, gas_used: 60000".to_owned(),
        "Call { to: ".to_owned(),
    ] {
        assert!(shown.contains(&part), "{part} not in {shown}");
    }
}
