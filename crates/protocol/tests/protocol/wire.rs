//! Reading requests, beyond the rows of `testdata/rules/wire.json`.

use crate::support::{V1_NETWORK, V2_NETWORK, network, served, terms::Terms};
use alloy_primitives::{B256, U256, hex};
use quittance_protocol::{
    code::Code,
    units::{AuthNonce, LaneNonce, Network, TokenAmount},
    wire::{Echo, Refusal, Request, Served, Version, parse, parse_address},
};
use serde_json::{Value, json};

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];

fn read(body: &Value) -> Result<Request, Refusal> {
    parse(body, &served())
}

#[test]
fn a_request_is_read_as_it_was_written() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let request = read(&terms.body()).expect("a request");
        let (a, r, m) = (&request.payment.authorization, &request.requirement, &terms.message);
        assert_eq!(request.version, version);
        assert_eq!((a.from, a.to, a.value.0), (m.from, m.to, m.value));
        assert_eq!((a.valid_after, a.valid_before, a.nonce.0), (m.valid_after, m.valid_before, m.nonce));
        assert_eq!(request.payment.signature.bytes()[..], terms.signature_bytes());
        assert_eq!(
            (r.network, r.asset, r.pay_to, r.amount.0),
            (network(), terms.asset, terms.pay_to, terms.amount)
        );
        assert_eq!((r.domain_name.as_deref(), r.domain_version.as_deref()), (Some("USDC"), Some("2")));
        assert_eq!(r.transfer_method, None);
        assert_eq!(r.extra, Some(json!({ "name": "USDC", "version": "2" })));
        assert_eq!(request.resource.as_deref(), Some("https://seller.example/report"));
        assert_eq!(request.payment_identifier, None);
    }
}

#[test]
fn what_is_optional_may_be_missing_or_null() {
    let mut body = Terms::new(Version::V2).body();
    body["paymentPayload"]["resource"] = Value::Null;
    assert_eq!(read(&body).expect("a request").resource, None);
    body["paymentPayload"]["extensions"] = json!({ "payment-identifier": null, "bazaar": 7 });
    assert_eq!(read(&body).expect("a request").payment_identifier, None);
    for version in VERSIONS {
        let mut body = Terms::new(version).body();
        for extra in
            [json!(null), json!({}), json!({ "name": null, "version": null, "assetTransferMethod": null })]
        {
            body["paymentRequirements"]["extra"] = extra;
            let requirement = read(&body).expect("a request").requirement;
            assert_eq!((requirement.domain_name, requirement.domain_version), (None, None));
        }
        body["paymentRequirements"].as_object_mut().expect("an object").remove("extra");
        assert_eq!(read(&body).expect("a request").requirement.extra, None);
    }
}

#[test]
fn extra_as_a_json_string_is_read_like_an_object() {
    let mut body = Terms::new(Version::V1).body();
    let object = read(&body).expect("a request").requirement;
    body["paymentRequirements"]["extra"] = json!(object.extra.as_ref().expect("extra").to_string());
    assert_eq!(read(&body).expect("a request").requirement, object);
    body["paymentRequirements"]["extra"] = json!("null");
    assert_eq!(read(&body).expect("a request").requirement.extra, None);
    for bad in ["", "{", "[]", "\"{}\"", "1", "{} {}"] {
        body["paymentRequirements"]["extra"] = json!(bad);
        assert_eq!(read(&body).expect_err(bad).code, Code::InvalidPaymentRequirements);
    }
    // What the string hides is checked all the same.
    body["paymentRequirements"]["extra"] =
        json!(r#"{"name":"USDC","version":"2","verifyingContract":"0x1"}"#);
    assert_eq!(read(&body).expect_err("refused").code, Code::UnsupportedPayloadType);
}

#[test]
fn payment_identifiers_have_16_to_128_characters() {
    let with = |id: Value| {
        let mut body = Terms::new(Version::V2).body();
        body["paymentPayload"]["extensions"] =
            json!({ "payment-identifier": { "info": { "required": false, "id": id } } });
        read(&body)
    };
    for good in ["a".repeat(16), "Z".repeat(128), "0_-A".repeat(5)] {
        assert_eq!(with(json!(good)).expect("a request").payment_identifier, Some(good));
    }
    for bad in
        ["", &"a".repeat(15), &"a".repeat(129), "0123456789abcde ", "0123456789abcdeé", "0123456789abcde\n"]
    {
        assert_eq!(with(json!(bad)).expect_err(bad).code, Code::InvalidPayload);
    }
    assert_eq!(with(json!(7)).expect_err("a number").code, Code::InvalidPayload);
    assert_eq!(with(Value::Null).expect("a request").payment_identifier, None);
    for (info, ok) in [
        (json!({ "required": true, "id": "0123456789abcdef" }), true),
        (json!({ "required": true }), false),
        (json!({ "required": "yes" }), false),
        (json!({}), true),
        (json!(null), false),
        (json!([]), false),
    ] {
        let mut body = Terms::new(Version::V2).body();
        body["paymentPayload"]["extensions"] = json!({ "payment-identifier": { "info": info } });
        assert_eq!(read(&body).is_ok(), ok, "{info}");
    }
}

#[test]
fn addresses_of_any_case_are_the_same() {
    for version in VERSIONS {
        let terms = Terms::new(version);
        let checksummed = terms.body();
        let expected = read(&checksummed).expect("a request");
        for change in [|s: &str| s.to_lowercase(), |s: &str| s.to_uppercase()] {
            let mut body = checksummed.clone();
            let mut set = |pointer: &str| {
                let text = body.pointer(pointer).and_then(Value::as_str).expect("a string");
                let changed = format!("0x{}", change(&text[2..]));
                *body.pointer_mut(pointer).expect("a place") = json!(changed);
            };
            for pointer in [
                "/paymentPayload/payload/authorization/from",
                "/paymentPayload/payload/authorization/to",
                "/paymentPayload/payload/authorization/nonce",
                "/paymentPayload/payload/signature",
                "/paymentRequirements/payTo",
                "/paymentRequirements/asset",
            ] {
                set(pointer);
            }
            let got = read(&body).expect("a request");
            assert_eq!(got.payment, expected.payment);
            assert_eq!(got.requirement, expected.requirement);
            assert_eq!(Echo::of(&body).payer, Some(terms.message.from));
        }
    }
}

#[test]
fn address_forms() {
    let digits = "abcdefABCDEF0123456789abcdefABCDEF012345";
    assert!(parse_address(&format!("0x{digits}")).is_some());
    for bad in [
        String::new(),
        "0x".into(),
        digits.into(),
        format!("0X{digits}"),
        format!(" 0x{digits}"),
        format!("0x{digits} "),
        format!("0x{}", &digits[1..]),
        format!("0x{digits}0"),
        format!("0x0x{}", &digits[2..]),
        format!("0x0x{digits}"),
        format!("0x{}g", &digits[1..]),
        format!("0x{}é", &digits[2..]),
    ] {
        assert_eq!(parse_address(&bad), None, "{bad}");
    }
}

/// Refusals name the field, so that whoever built the request finds it.
#[test]
fn refusals_name_the_field() {
    let cases: &[(Version, &str, Value, &str)] = &[
        (Version::V2, "/paymentPayload", json!([]), "paymentPayload must be an object"),
        (Version::V2, "/paymentPayload", Value::Null, "paymentPayload is missing"),
        (Version::V2, "/paymentPayload/accepted", Value::Null, "paymentPayload.accepted is missing"),
        (
            Version::V2,
            "/paymentPayload/accepted/asset",
            json!(""),
            "paymentPayload.accepted.asset must not be empty",
        ),
        (
            Version::V2,
            "/paymentPayload/accepted/extra",
            json!(1),
            "paymentPayload.accepted.extra must be an object",
        ),
        (Version::V2, "/paymentRequirements/extra", json!(1), "paymentRequirements.extra must be an object"),
        (
            Version::V2,
            "/paymentRequirements/extra/name",
            json!(1),
            "paymentRequirements.extra.name must be a string",
        ),
        (Version::V2, "/paymentRequirements/amount", json!(1), "paymentRequirements.amount must be a string"),
        (
            Version::V1,
            "/paymentRequirements/maxAmountRequired",
            json!("01"),
            "paymentRequirements.maxAmountRequired must be a decimal uint256 without sign or leading zeros",
        ),
        (
            Version::V1,
            "/paymentRequirements/maxTimeoutSeconds",
            json!(0),
            "paymentRequirements.maxTimeoutSeconds must be a positive number",
        ),
        (
            Version::V1,
            "/paymentRequirements/description",
            Value::Null,
            "paymentRequirements.description is missing",
        ),
        (
            Version::V1,
            "/paymentRequirements/mimeType",
            json!(1),
            "paymentRequirements.mimeType must be a string",
        ),
        (
            Version::V1,
            "/paymentRequirements/outputSchema",
            json!(1),
            "paymentRequirements.outputSchema must be an object",
        ),
        (
            Version::V1,
            "/paymentPayload/payload/authorization/from",
            json!("0x1"),
            "paymentPayload.payload.authorization.from must be 0x and 40 hex digits",
        ),
        (
            Version::V1,
            "/paymentPayload/payload/authorization/nonce",
            json!("0x1"),
            "paymentPayload.payload.authorization.nonce must be 0x and 64 hex digits",
        ),
        (
            Version::V1,
            "/paymentPayload/payload/signature",
            json!("0x1"),
            "paymentPayload.payload.signature must be 0x and an even number of hex digits",
        ),
    ];
    for (version, pointer, value, message) in cases {
        let mut body = Terms::new(*version).body();
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        body.pointer_mut(parent).expect("a parent")[field] = value.clone();
        assert_eq!(read(&body).expect_err(pointer).message, *message);
    }
    for body in [Value::Null, json!([]), json!("{}"), json!(1)] {
        assert_eq!(read(&body).expect_err("refused").code, Code::InvalidPayload);
    }
    assert_eq!(read(&json!([])).expect_err("refused").message, "the request body must be an object");
}

#[test]
fn of_a_key_given_twice_the_last_counts_as_it_does_for_every_client() {
    let text = Terms::new(Version::V2).body().to_string();
    let twice = text.replacen("\"x402Version\":2", "\"x402Version\":1,\"x402Version\":2", 2);
    assert_ne!(twice, text);
    assert!(read(&serde_json::from_str(&twice).expect("JSON")).is_ok());
}

#[test]
fn the_echo_reads_what_it_can() {
    let echo = |body: Value| {
        let echo = Echo::of(&body);
        (echo.network, echo.payer.is_some())
    };
    let unknown = || ("unknown:unknown".to_owned(), false);
    assert_eq!(echo(json!(null)), unknown());
    assert_eq!(echo(json!({})), unknown());
    assert_eq!(Echo::default(), Echo::of(&json!({})));
    assert_eq!(echo(json!({ "paymentRequirements": { "network": "" } })), unknown());
    assert_eq!(echo(json!({ "paymentRequirements": { "network": 7 } })), unknown());
    let long = |n| json!({ "paymentRequirements": { "network": "n".repeat(n) } });
    assert_eq!(echo(long(64)).0.len(), 64);
    assert_eq!(echo(long(65)), unknown());
    // The requirements' name first, then the payload's.
    let v2 = json!({ "paymentRequirements": { "network": null }, "paymentPayload": { "accepted": { "network": V2_NETWORK } } });
    assert_eq!(echo(v2).0, V2_NETWORK);
    let v1 = json!({ "paymentPayload": { "network": V1_NETWORK } });
    assert_eq!(echo(v1).0, V1_NETWORK);
    let both = json!({ "paymentRequirements": { "network": "a" }, "paymentPayload": { "network": "b" } });
    assert_eq!(echo(both).0, "a");
    // A payer of any payload, served or not.
    let payer = "0x1111111111111111111111111111111111111111";
    for payload in [
        json!({ "authorization": { "from": payer } }),
        json!({ "permit2Authorization": { "from": payer } }),
        json!({ "delegator": payer }),
    ] {
        assert_eq!(echo(json!({ "paymentPayload": { "payload": payload } })), (unknown().0, true));
    }
    let bad = json!({ "paymentPayload": { "payload": { "authorization": { "from": "0x1" } } } });
    assert_eq!(echo(bad), unknown());
}

#[test]
fn only_served_networks_are_read() {
    for version in VERSIONS {
        let body = Terms::new(version).body();
        let none = parse(&body, &Served::default()).expect_err("nothing served");
        assert_eq!(none.code, Code::InvalidNetwork);
        // Each version has its own names: serving one does not serve the other.
        let mut other = served();
        match version {
            Version::V1 => other.v1.clear(),
            Version::V2 => other.v2.clear(),
        }
        assert_eq!(parse(&body, &other).expect_err("not served").code, Code::InvalidNetwork);
    }
}

#[test]
fn quantities_write_themselves_plainly() {
    assert_eq!(TokenAmount(U256::MAX).to_string(), U256::MAX.to_string());
    assert_eq!(TokenAmount(U256::from(10_000)).to_string(), "10000");
    assert_eq!(LaneNonce(7).to_string(), "7");
    let nonce = AuthNonce(B256::repeat_byte(0x11));
    assert_eq!(nonce.to_string(), format!("0x{}", hex::encode([0x11; 32])));
    assert_eq!(Network::from_chain_id(0), None);
    assert_eq!(Network::from_chain_id(Network::CHAIN_ID_MAX + 1), None);
    assert_eq!(Network::from_chain_id(1).expect("a network").to_string(), "eip155:1");
    assert_eq!(Network::CHAIN_ID_MAX, 9_007_199_254_740_991);
}

const SOLANA: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const SOLANA_ADDRESS: &str = "MJKqp326RZCHnAAbew9MDdui3iCKWco7fsK9sVuZTX2";

/// The refusal of a good request in which these fields of the requirements are others. The payload follows its network.
fn misfit(version: Version, network: Option<&str>, field: &str, address: &str) -> Refusal {
    let mut body = Terms::new(version).body();
    body["paymentRequirements"][field] = json!(address);
    if let Some(network) = network {
        body["paymentRequirements"]["network"] = json!(network);
        match version {
            Version::V1 => body["paymentPayload"]["network"] = json!(network),
            Version::V2 => body["paymentPayload"]["accepted"]["network"] = json!(network),
        }
    }
    read(&body).expect_err("refused")
}

#[test]
fn an_address_of_another_kind_of_chain_is_refused_with_its_pair() {
    for version in VERSIONS {
        for field in ["payTo", "asset"] {
            for address in [SOLANA_ADDRESS, "0.0.1234", "0x1", "seller.eth"] {
                let refusal = misfit(version, None, field, address);
                assert_eq!(refusal.code, Code::InvalidPaymentRequirements);
                let pair = format!("paymentRequirements.network and paymentRequirements.{field} ");
                assert!(refusal.message.starts_with(&pair), "{}", refusal.message);
            }
        }
    }
}

#[test]
fn a_network_that_is_not_served_is_the_answer_whatever_its_addresses() {
    let evm = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    for (version, network, address, fits) in [
        // Of two kinds of chain, which is said as well.
        (Version::V2, SOLANA, evm, false),
        (Version::V1, SOLANA, evm, false),
        (Version::V2, "eip155:8453", SOLANA_ADDRESS, false),
        (Version::V2, "eip155:8453", evm, true),
        // Nobody can judge these.
        (Version::V2, "hedera:mainnet", "0.0.1234", true),
        (Version::V2, "solana:unknown", evm, true),
        (Version::V1, "base", SOLANA_ADDRESS, true),
    ] {
        for field in ["payTo", "asset"] {
            // The other field is an EVM address, so on Solana both are of the wrong kind: the first is named.
            let refusal = misfit(version, Some(network), field, address);
            let case = format!("{version:?} {network} {field} {address}: {}", refusal.message);
            assert_eq!(refusal.code, Code::InvalidNetwork, "{case}");
            let named = if network == SOLANA { "payTo" } else { field };
            let says = refusal.message.ends_with(&format!("fit together with paymentRequirements.{named}"));
            assert_eq!(says, !fits, "{case}");
        }
    }
}

/// x402 takes addresses of any case, and a checksum that is wrong is an address all the same (spec/x402.md §7, 27).
#[test]
fn a_wrong_checksum_is_no_misfit() {
    let wrong = "0x209693bc6AFC0C5328bA36FaF03C514EF312287C";
    for version in VERSIONS {
        for field in ["payTo", "asset"] {
            let mut body = Terms::new(version).body();
            body["paymentRequirements"][field] = json!(wrong);
            let requirement = read(&body).expect("a request").requirement;
            let address = if field == "payTo" { requirement.pay_to } else { requirement.asset };
            assert_eq!(Some(address), parse_address(wrong));
        }
    }
}
