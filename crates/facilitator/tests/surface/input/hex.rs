//! Nonces and signatures: 0x and hex digits, the nonce exactly 64 of them.

use crate::support::offline::{Expect, Offline, VERSIONS, payment};
use serde_json::json;

const NONCE: &str = "/paymentPayload/payload/authorization/nonce";
const SIGNATURE: &str = "/paymentPayload/payload/signature";

#[tokio::test]
async fn a_nonce_is_32_bytes() {
    let bench = Offline::start().await;
    let digits = "aB".repeat(32);
    for version in VERSIONS {
        for bad in [
            digits.clone(),
            format!("0X{digits}"),
            format!("0x{}", &digits[1..]),
            format!("0x{}", &digits[2..]),
            format!("0x{digits}0"),
            format!("0x{digits}00"),
            format!("0x0x{}", &digits[2..]),
            format!("0x{}g", &digits[1..]),
            format!(" 0x{digits}"),
            format!("0x{digits} "),
            format!("0x{}", "é".repeat(32)),
            "0x".to_owned(),
            "0x1".to_owned(),
            "1".to_owned(),
            "0".to_owned(),
        ] {
            let body = payment(version).with_value(NONCE, json!(bad));
            bench.refused(body.body(), "invalid_payload", &format!("{version:?} {bad}")).await;
        }
        for good in
            [digits.to_lowercase(), digits.to_uppercase(), digits.clone(), "0".repeat(64), "f".repeat(64)]
        {
            let body = payment(version).with_value(NONCE, json!(format!("0x{good}")));
            bench.expect(body.body(), Expect::Asked, &format!("{version:?} {good}")).await;
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn a_signature_is_whole_bytes() {
    let bench = Offline::start().await;
    let digits = "1b".repeat(65);
    for version in VERSIONS {
        for bad in [
            digits.clone(),
            format!("0X{digits}"),
            format!("0x{}", &digits[1..]),
            format!("0x{digits}0"),
            format!("0x0x{digits}"),
            format!("0x{}gg", &digits[2..]),
            format!(" 0x{digits}"),
            format!("0x{digits}\n"),
            format!("0x{}", "é".repeat(65)),
            "0".to_owned(),
            "0x0".to_owned(),
            "base64==".to_owned(),
        ] {
            let body = payment(version).with_value(SIGNATURE, json!(bad));
            bench.refused(body.body(), "invalid_payload", &format!("{version:?} {bad}")).await;
        }
        // Whatever the bytes are, whether they prove anything depends on the payer's code: the chain is asked.
        for good in
            ["", "00", &digits, &digits.to_uppercase(), &digits[2..], &"1b".repeat(66), &"1b".repeat(300)]
        {
            let body = payment(version).with_value(SIGNATURE, json!(format!("0x{good}")));
            bench.expect(body.body(), Expect::Asked, &format!("{version:?} {good:.20}")).await;
        }
    }
    bench.nothing_reserved().await;
}
