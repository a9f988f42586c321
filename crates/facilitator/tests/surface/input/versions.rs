//! `x402Version` stands in two places, is a number, and agrees.

use crate::support::offline::{Offline, VERSIONS, payment};
use quittance_testkit::X402Version;
use serde_json::{Value, json};

const CODE: &str = "invalid_x402_version";

fn body(version: X402Version, outer: &Value, inner: &Value) -> Value {
    payment(version)
        .with_value("/x402Version", outer.clone())
        .with_value("/paymentPayload/x402Version", inner.clone())
        .body()
        .clone()
}

#[tokio::test]
async fn other_versions_are_refused() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        for other in [
            json!(0),
            json!(3),
            json!(-1),
            json!(-2),
            json!(402),
            json!(1.0),
            json!(2.0),
            json!(1.5),
            json!(2e0),
            json!("1"),
            json!("2"),
            json!("v2"),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1e300),
            json!([2]),
            json!({"major": 2}),
            json!(false),
        ] {
            bench.refused(&body(version, &other, &other), CODE, &format!("{version:?} as {other}")).await;
        }
    }
    bench.nothing_reserved().await;
}

#[tokio::test]
async fn the_two_places_must_agree() {
    let bench = Offline::start().await;
    for version in VERSIONS {
        let right = json!(version.number());
        for other in [json!(1), json!(2), json!(3), json!("2"), json!(2.0), json!(1.0), Value::Null] {
            if other == right {
                continue;
            }
            bench
                .refused(&body(version, &right, &other), CODE, &format!("{right} outside, {other} inside"))
                .await;
            bench
                .refused(&body(version, &other, &right), CODE, &format!("{other} outside, {right} inside"))
                .await;
        }
    }
    bench.nothing_reserved().await;
}

/// The version decides the shape: the other one's is not looked for.
#[tokio::test]
async fn the_shape_of_the_other_version_is_not_read() {
    let bench = Offline::start().await;
    bench.refused(&body(X402Version::V1, &json!(2), &json!(2)), "invalid_payload", "v1 shape as v2").await;
    bench.refused(&body(X402Version::V2, &json!(1), &json!(1)), "invalid_payload", "v2 shape as v1").await;
    // Only the requirements are of the other version.
    for (version, other) in [(X402Version::V1, X402Version::V2), (X402Version::V2, X402Version::V1)] {
        let mixed =
            payment(version).with_value("/paymentRequirements", payment(other).requirements().clone());
        bench
            .refused(mixed.body(), "invalid_payment_requirements", &format!("{other:?} terms in {version:?}"))
            .await;
    }
    bench.nothing_reserved().await;
}
