//! Addresses: 0x and 40 hex digits of any case, in every field that holds one.

use crate::support::offline::{Expect, Offline, VERSIONS, payment};
use quittance_testkit::SignedPayment;
use serde_json::{Value, json};

const FROM: &str = "/paymentPayload/payload/authorization/from";
const TO: &str = "/paymentPayload/payload/authorization/to";
const PAY_TO: &str = "/paymentRequirements/payTo";
const ASSET: &str = "/paymentRequirements/asset";

fn text(payment: &SignedPayment, pointer: &str) -> String {
    payment.body().pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
}

#[tokio::test]
async fn any_case_is_the_same_address() {
    let bench = Offline::start().await;
    type Change = fn(&str) -> String;
    let cases: [(&str, Change); 4] = [
        ("lower", str::to_lowercase),
        ("upper", |text| format!("0x{}", text[2..].to_uppercase())),
        // A checksum that is wrong is no error: some sellers write addresses by hand.
        ("the other case", |text| {
            let flip =
                |c: char| if c.is_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
            format!("0x{}", text[2..].chars().map(flip).collect::<String>())
        }),
        ("one letter wrong", |text| {
            let at = text.rfind(|c: char| c.is_ascii_alphabetic()).unwrap();
            let turned = text[at..=at].to_lowercase();
            format!("{}{turned}{}", &text[..at], &text[at + 1..])
        }),
    ];
    for version in VERSIONS {
        for (case, change) in cases {
            for pointer in [FROM, TO, PAY_TO, ASSET] {
                let payment = payment(version);
                let changed = change(&text(&payment, pointer));
                let body = payment.with_value(pointer, json!(changed));
                bench.expect(body.body(), Expect::Asked, &format!("{version:?} {pointer} in {case}")).await;
            }
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn odd_addresses_are_refused() {
    let bench = Offline::start().await;
    let digits = "209693Bc6afc0C5328bA36FaF03C514EF312287C";
    let odd = [
        digits.to_owned(),
        format!("0X{digits}"),
        format!("0x{}", &digits[1..]),
        format!("0x{}", &digits[2..]),
        format!("0x{digits}0"),
        format!("0x{digits}00"),
        format!("0x0x{}", &digits[2..]),
        format!("0x{}", "0".repeat(64)),
        format!(" 0x{digits}"),
        format!("0x{digits} "),
        format!("0x{digits}\n"),
        format!("0x{}g", &digits[1..]),
        format!("0x{}\u{0}", &digits[1..]),
        format!("0x+{}", &digits[1..]),
        format!("eip155:84532:0x{digits}"),
        format!("xdc{digits}"),
        "0x".to_owned(),
        "vitalik.eth".to_owned(),
        // As many bytes, other characters.
        format!("0x{}", "é".repeat(20)),
        "0x".to_owned() + &"0".repeat(10_000),
    ];
    for version in VERSIONS {
        for address in &odd {
            for (pointer, code) in [
                (FROM, "invalid_payload"),
                (TO, "invalid_payload"),
                (PAY_TO, "invalid_payment_requirements"),
                (ASSET, "invalid_payment_requirements"),
            ] {
                let body = payment(version).with_value(pointer, json!(address));
                bench.refused(body.body(), code, &format!("{version:?} {pointer} {address:.70?}")).await;
            }
        }
    }
    bench.nothing_reserved().await;
}

/// Whom nobody can be paid to, and who can never pay.
#[tokio::test]
async fn some_addresses_are_nobody() {
    let bench = Offline::start().await;
    let zero = json!("0x0000000000000000000000000000000000000000");
    let signer = quittance_testkit::dev_address(0);
    for version in VERSIONS {
        let body = payment(version).with_value(PAY_TO, zero.clone()).with_value(TO, zero.clone());
        bench.refused(body.body(), "invalid_payment_requirements", "paid to zero").await;
        let body = payment(version).with_value(TO, zero.clone());
        bench.refused(body.body(), "invalid_exact_evm_recipient_mismatch", "signed to zero").await;
        for payer in [
            // The facilitator's own signer, Multicall3, Permit2 and its two proxies.
            signer.to_string(),
            signer.to_string().to_lowercase(),
            "0xcA11bde05977b3631167028862bE2a173976CA11".to_owned(),
            "0x000000000022D473030F116dDEE9F6B43aC78BA3".to_owned(),
            "0x402085c248EeA27D92E8b30b2C58ed07f9E20001".to_owned(),
            "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002".to_owned(),
        ] {
            let body = payment(version).with_value(FROM, json!(payer));
            bench.refused(body.body(), "invalid_payload", &format!("{version:?} paid by {payer}")).await;
        }
        let elsewhere = json!("0x00000000000000000000000000000000000000fE");
        let body = payment(version).with_value(TO, elsewhere.clone());
        bench.refused(body.body(), "invalid_exact_evm_recipient_mismatch", "to another").await;
        let body = payment(version).with_value(PAY_TO, elsewhere);
        bench.refused(body.body(), "invalid_exact_evm_recipient_mismatch", "pay another").await;
    }
    bench.nothing_reserved().await;
}

/// A requirement of one kind of chain under the name of another: the answer names the pair, and repeats nothing of it.
#[tokio::test]
async fn an_address_of_another_kind_of_chain_is_refused_with_its_pair() {
    let bench = Offline::start().await;
    let solana = "MJKqp326RZCHnAAbew9MDdui3iCKWco7fsK9sVuZTX2";
    for version in VERSIONS {
        for (pointer, field) in [(PAY_TO, "payTo"), (ASSET, "asset")] {
            for address in [solana, "0.0.1234", "GBRPYHIL2CI3FNQ4BXLFMNDLFJUNPU2HY3ZMFSHONUCEOASW7QC7OX2H"] {
                let payment = payment(version).with_value(pointer, json!(address));
                let case = format!("{version:?} {field} {address}");
                bench.refused(payment.body(), "invalid_payment_requirements", &case).await;
                for (path, message) in [("/verify", "invalidMessage"), ("/settle", "errorMessage")] {
                    let answer = bench.client.post(path, payment.body(), &[]).await.unwrap();
                    let message = answer.json[message].as_str().unwrap();
                    let pair = format!("paymentRequirements.network and paymentRequirements.{field} ");
                    assert!(message.starts_with(&pair) && !message.contains(address), "{case}: {message}");
                }
            }
        }
    }
    bench.nothing_reserved().await;
}
