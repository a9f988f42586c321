//! Numbers on the wire are decimal uint256 in strings, written in the one canonical way.

use crate::support::offline::{Expect, Offline, VERSIONS, payment};
use quittance_testkit::{PaymentBuilder, SignedPayment, X402Version};
use serde_json::json;

const MAX: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
const OVER: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639936";

fn odd_numbers() -> Vec<String> {
    let digits_79 = "9".repeat(79);
    let many = "1".repeat(10_000);
    [
        "0x2710",
        "0X2710",
        "0b1",
        "2710h",
        "-1",
        "-0",
        "+1",
        "1e3",
        "1E3",
        "01",
        "00",
        "000010000",
        " 10000",
        "10000 ",
        "10000\n",
        "1.0",
        "1.",
        ".5",
        "1_000",
        "1,000",
        "10 000",
        "0x",
        "NaN",
        "Infinity",
        "null",
        "\u{661}",
        "１０",
        "10000\u{0}",
        "ten",
        OVER,
        &digits_79,
        &many,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn amount_field(version: X402Version) -> &'static str {
    match version {
        X402Version::V1 => "/paymentRequirements/maxAmountRequired",
        X402Version::V2 => "/paymentRequirements/amount",
    }
}

#[tokio::test]
async fn odd_numbers_are_refused_in_every_field() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        for number in odd_numbers() {
            for field in ["value", "validAfter", "validBefore"] {
                let pointer = format!("/paymentPayload/payload/authorization/{field}");
                let body = payment(version).with_value(&pointer, json!(number));
                let case = format!("{version:?} {field} {:.40}", number);
                bench.refused(body.body(), "invalid_payload", &case).await;
            }
            let body = payment(version).with_value(amount_field(version), json!(number));
            let case = format!("{version:?} amount {:.40}", number);
            bench.refused(body.body(), "invalid_payment_requirements", &case).await;
        }
    }
    bench.nothing_reserved().await;
}

/// The same value as a JSON number is not the string it should be.
#[tokio::test]
async fn json_numbers_are_refused() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        for number in [json!(10_000), json!(10_000.0), json!(0), json!(1e18)] {
            for field in ["value", "validAfter", "validBefore"] {
                let pointer = format!("/paymentPayload/payload/authorization/{field}");
                let body = payment(version).with_value(&pointer, number.clone());
                bench.refused(body.body(), "invalid_payload", &format!("{field} {number}")).await;
            }
            let body = payment(version).with_value(amount_field(version), number.clone());
            bench.refused(body.body(), "invalid_payment_requirements", &format!("amount {number}")).await;
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn the_ends_of_uint256_are_numbers() {
    let bench = Offline::start().await;
    let builder = |version| {
        let asset = payment(version).asset();
        PaymentBuilder::new(crate::support::CHAIN_ID, asset).version(version)
    };
    let max: alloy_primitives::U256 = MAX.parse().unwrap();
    for version in VERSIONS {
        let expect = async |payment: SignedPayment, expect, case: &str| {
            bench.expect(payment.body(), expect, &format!("{version:?} {case}")).await;
        };
        expect(builder(version).amount(max).sign(), Expect::Asked, "all of it").await;
        expect(builder(version).amount(0).sign(), Expect::Asked, "nothing").await;
        expect(builder(version).valid_before(max).sign(), Expect::Asked, "for ever").await;
        expect(builder(version).valid_after(0).sign(), Expect::Asked, "from the beginning").await;
        let (after, before) = (
            Expect::Refused("invalid_exact_evm_payload_authorization_valid_after"),
            Expect::Refused("invalid_exact_evm_payload_authorization_valid_before"),
        );
        expect(builder(version).valid_after(max).sign(), after, "after the end of time").await;
        expect(builder(version).valid_before(0).sign(), before, "before the beginning").await;
        let value = match version {
            X402Version::V1 => "invalid_exact_evm_authorization_value",
            X402Version::V2 => "invalid_exact_evm_payload_authorization_value_mismatch",
        };
        // Nothing wraps around.
        expect(builder(version).amount(0).value(max).sign(), Expect::Refused(value), "max for nothing").await;
        expect(builder(version).amount(max).value(0).sign(), Expect::Refused(value), "nothing for max").await;
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn max_timeout_seconds_is_a_positive_number() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        for bad in [json!(0), json!(-1), json!(-0.5), json!(0.0), json!("300"), json!(i64::MIN)] {
            let body = payment(version).with_value("/paymentRequirements/maxTimeoutSeconds", bad.clone());
            bench.refused(body.body(), "invalid_payment_requirements", &format!("{version:?} {bad}")).await;
        }
        for good in [json!(1), json!(0.5), json!(60.0), json!(1e300), json!(u64::MAX)] {
            let body = payment(version).with_value("/paymentRequirements/maxTimeoutSeconds", good.clone());
            bench.expect(body.body(), Expect::Asked, &format!("{version:?} {good}")).await;
        }
    }
    bench.nothing_reserved().await;
}
