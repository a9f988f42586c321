//! Every field of version 1.

use super::mutate::{Field, Instead, every_field};
use crate::support::offline::{Expect, Offline, payment};
use quittance_testkit::X402Version;
use serde_json::json;

const VERSION: Expect = Expect::Refused("invalid_x402_version");
const PAYLOAD: Expect = Expect::Refused("invalid_payload");
const REQUIREMENTS: Expect = Expect::Refused("invalid_payment_requirements");
const DOMAIN: Expect = Expect::Refused("invalid_exact_evm_missing_eip712_domain");

const DOMAIN_PART: &[(Instead, Expect)] =
    &[(Instead::Nothing, DOMAIN), (Instead::Null, DOMAIN), (Instead::EmptyString, DOMAIN)];
const OPTIONAL_STRING: &[(Instead, Expect)] = &[
    (Instead::Nothing, Expect::Asked),
    (Instead::Null, Expect::Asked),
    (Instead::EmptyString, Expect::Asked),
];

fn field(pointer: &'static str, otherwise: Expect, except: &'static [(Instead, Expect)]) -> Field {
    Field { pointer, otherwise, except }
}

fn fields() -> Vec<Field> {
    vec![
        field("/x402Version", VERSION, &[]),
        field("/paymentPayload", PAYLOAD, &[(Instead::Object, VERSION)]),
        field("/paymentPayload/x402Version", VERSION, &[]),
        field("/paymentPayload/scheme", PAYLOAD, &[]),
        field("/paymentPayload/network", PAYLOAD, &[]),
        field("/paymentPayload/payload", PAYLOAD, &[]),
        field("/paymentPayload/payload/signature", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/from", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/to", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/value", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/validAfter", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/validBefore", PAYLOAD, &[]),
        field("/paymentPayload/payload/authorization/nonce", PAYLOAD, &[]),
        field("/paymentRequirements", REQUIREMENTS, &[]),
        field("/paymentRequirements/scheme", REQUIREMENTS, &[]),
        field("/paymentRequirements/network", REQUIREMENTS, &[]),
        field("/paymentRequirements/maxAmountRequired", REQUIREMENTS, &[]),
        field("/paymentRequirements/asset", REQUIREMENTS, &[]),
        field("/paymentRequirements/payTo", REQUIREMENTS, &[]),
        field("/paymentRequirements/resource", REQUIREMENTS, &[(Instead::EmptyString, Expect::Asked)]),
        field("/paymentRequirements/description", REQUIREMENTS, &[(Instead::EmptyString, Expect::Asked)]),
        field("/paymentRequirements/mimeType", REQUIREMENTS, OPTIONAL_STRING),
        field(
            "/paymentRequirements/outputSchema",
            REQUIREMENTS,
            &[
                (Instead::Nothing, Expect::Asked),
                (Instead::Null, Expect::Asked),
                (Instead::Object, Expect::Asked),
            ],
        ),
        field("/paymentRequirements/maxTimeoutSeconds", REQUIREMENTS, &[(Instead::Number, Expect::Asked)]),
        field(
            "/paymentRequirements/extra",
            REQUIREMENTS,
            &[(Instead::Nothing, DOMAIN), (Instead::Null, DOMAIN), (Instead::Object, DOMAIN)],
        ),
        field("/paymentRequirements/extra/name", REQUIREMENTS, DOMAIN_PART),
        field("/paymentRequirements/extra/version", REQUIREMENTS, DOMAIN_PART),
        field("/paymentRequirements/more", Expect::Asked, &[]),
        field("/paymentPayload/more", Expect::Asked, &[]),
    ]
}

#[tokio::test]
async fn every_field_of_version_1_is_read_strictly() {
    every_field(X402Version::V1, &fields()).await;
}

/// Python sellers send `extra` as a JSON string; only version 1 knows that.
#[tokio::test]
async fn extra_may_be_a_string_in_version_1_alone() {
    let bench = Offline::start().await;
    let with = |version, extra: &str| {
        payment(version).with_value("/paymentRequirements/extra", json!(extra)).body().clone()
    };
    let domain = r#"{"name":"USDC","version":"2"}"#;
    bench.expect(&with(X402Version::V1, domain), Expect::Asked, "an object in a string").await;
    bench.expect(&with(X402Version::V2, domain), REQUIREMENTS, "version 2").await;
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for (extra, expect) in [
        ("null", DOMAIN),
        ("{}", DOMAIN),
        (r#"{"name":7,"version":"2"}"#, REQUIREMENTS),
        ("7", REQUIREMENTS),
        ("[]", REQUIREMENTS),
        ("USDC", REQUIREMENTS),
        (r#""{\"name\":\"USDC\",\"version\":\"2\"}""#, REQUIREMENTS),
        (r#"{"name":"USDC","version":"2"} "#, Expect::Asked),
        (r#"{"name":"USDC","version":"2"}x"#, REQUIREMENTS),
        (deep.as_str(), REQUIREMENTS),
    ] {
        bench.expect(&with(X402Version::V1, extra), expect, extra.get(..40).unwrap_or(extra)).await;
    }
    bench.nothing_reserved().await;
}
