//! Payloads of methods that are not served, payloads that could be read in two ways, and the payment identifier.

use crate::support::offline::{Expect, Offline, VERSIONS, payment};
use quittance_testkit::X402Version;
use serde_json::{Value, json};

const UNSUPPORTED: &str = "unsupported_payload_type";
const PAYLOAD: &str = "/paymentPayload/payload";

fn permit2() -> Value {
    json!({
        "from": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        "permitted": {"token": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "amount": "10000"},
        "spender": "0x402085c248EeA27D92E8b30b2C58ed07f9E20001",
        "nonce": "1", "deadline": "99999999999",
        "witness": {"to": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "validAfter": "0"},
    })
}

#[tokio::test]
async fn other_methods_are_named_as_unsupported() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        let extra = |key: &str, value: Value| {
            payment(version).with_value(&format!("/paymentRequirements/extra/{key}"), value)
        };
        for (case, body) in [
            ("both keys", payment(version).with_value(&format!("{PAYLOAD}/permit2Authorization"), permit2())),
            (
                "an empty second key",
                payment(version).with_value(&format!("{PAYLOAD}/permit2Authorization"), json!({})),
            ),
            (
                "a delegation beside it",
                payment(version).with_value(&format!("{PAYLOAD}/delegationManager"), json!("0x")),
            ),
            ("permit2 is asked for", extra("assetTransferMethod", json!("permit2"))),
            ("erc7710 is asked for", extra("assetTransferMethod", json!("erc7710"))),
            ("another case", extra("assetTransferMethod", json!("EIP3009"))),
            (
                "another contract keeps the nonce",
                extra("verifyingContract", json!("0x036CbD53842c5426634e7929541eC2318f3dCF7e")),
            ),
        ] {
            bench.refused(body.body(), UNSUPPORTED, &format!("{version:?} {case}")).await;
        }
        bench
            .expect(extra("assetTransferMethod", json!("eip3009")).body(), Expect::Asked, "its own name")
            .await;
        bench.expect(extra("verifyingContract", Value::Null).body(), Expect::Asked, "null is absent").await;
        let nulls = payment(version)
            .with_value(&format!("{PAYLOAD}/permit2Authorization"), Value::Null)
            .with_value(&format!("{PAYLOAD}/delegator"), Value::Null);
        bench.expect(nulls.body(), Expect::Asked, "null is absent").await;
    }
    bench.nothing_reserved().await;
}

/// The payer is named even when its payload is of a method that is not served.
#[tokio::test]
async fn the_payer_of_another_method_is_named() {
    let bench = Offline::start().await;
    let signature = json!(format!("0x{}", "1b".repeat(65)));
    let payer = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
    for payload in [
        json!({"signature": signature, "permit2Authorization": permit2()}),
        json!({"delegationManager": payer, "permissionContext": "0x", "delegator": payer}),
    ] {
        let body = payment(X402Version::V2).with_value(PAYLOAD, payload);
        for path in ["/verify", "/settle"] {
            let answer = bench.client.post(path, body.body(), &[]).await.unwrap();
            assert_eq!((answer.status, &answer.json["payer"]), (200, &json!(payer)), "{}", answer.text);
            let reason = if path == "/verify" { "invalidReason" } else { "errorReason" };
            assert_eq!(answer.json[reason], UNSUPPORTED, "{}", answer.text);
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_payment_identifier_has_its_form() {
    let bench = Offline::start().await;
    let with = |extension: Value| {
        payment(X402Version::V2)
            .with_value("/paymentPayload/extensions", json!({"payment-identifier": extension}))
            .body()
            .clone()
    };
    let id = "pay_0123456789abcdef";
    for (extension, expect) in [
        (json!({"info": {"required": true, "id": id}}), Expect::Asked),
        (json!({"info": {"id": "x".repeat(16)}}), Expect::Asked),
        (json!({"info": {"id": "x".repeat(128)}}), Expect::Asked),
        (json!({"info": {}}), Expect::Asked),
        (json!({"info": {"required": false, "id": null}}), Expect::Asked),
        (Value::Null, Expect::Asked),
        (json!({"info": {"required": true}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"required": "yes", "id": id}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": ""}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": 7}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": "x".repeat(15)}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": "x".repeat(129)}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": "pay 0123456789abcdef"}}), Expect::Refused("invalid_payload")),
        (json!({"info": {"id": "päy_0123456789abcdef"}}), Expect::Refused("invalid_payload")),
        (json!({"info": []}), Expect::Refused("invalid_payload")),
        (json!({}), Expect::Refused("invalid_payload")),
        (json!([]), Expect::Refused("invalid_payload")),
        (json!("id"), Expect::Refused("invalid_payload")),
    ] {
        bench.expect(&with(extension.clone()), expect, &extension.to_string()).await;
    }
    bench.nothing_reserved().await;
}

/// The header of the same purpose: a key nobody could have meant is the request's fault.
#[tokio::test]
async fn an_idempotency_key_is_printable_and_short() {
    let bench = Offline::start().await;
    let body = payment(X402Version::V2);
    let long = "k".repeat(256);
    for key in ["", "\t", "ключ", long.as_str()] {
        let answer = bench.client.settle_with(body.body(), &[("idempotency-key", key)]).await.unwrap();
        assert_eq!((answer.status, &answer.json["errorReason"]), (400, &json!("invalid_payload")), "{key:?}");
        assert_eq!(answer.json["network"], body.network(), "{key:?}");
    }
    let two = [("idempotency-key", "one"), ("idempotency-key", "two")];
    assert_eq!(bench.client.settle_with(body.body(), &two).await.unwrap().status, 400);
    for key in ["k", &long[1..], "with spaces, commas; and = signs"] {
        let answer = bench.client.settle_with(body.body(), &[("idempotency-key", key)]).await.unwrap();
        assert_eq!(answer.status, 503, "{key:?} {}", answer.text);
    }
    bench.nothing_reserved().await;
}
