//! Every field of version 2 (spec: payload, accepted, requirements).

use super::mutate::{Field, Instead, every_field};
use crate::support::offline::Expect;
use quittance_testkit::X402Version;

const VERSION: Expect = Expect::Refused("invalid_x402_version");
const PAYLOAD: Expect = Expect::Refused("invalid_payload");
const REQUIREMENTS: Expect = Expect::Refused("invalid_payment_requirements");
const DOMAIN: Expect = Expect::Refused("invalid_exact_evm_missing_eip712_domain");
const UNSUPPORTED: Expect = Expect::Refused("unsupported_payload_type");

/// Absent and null are the same, and allowed.
const OPTIONAL: &[(Instead, Expect)] = &[(Instead::Nothing, Expect::Asked), (Instead::Null, Expect::Asked)];
const OPTIONAL_OBJECT: &[(Instead, Expect)] =
    &[(Instead::Nothing, Expect::Asked), (Instead::Null, Expect::Asked), (Instead::Object, Expect::Asked)];
const DOMAIN_PART: &[(Instead, Expect)] =
    &[(Instead::Nothing, DOMAIN), (Instead::Null, DOMAIN), (Instead::EmptyString, DOMAIN)];
/// Any positive number.
const NUMBER: &[(Instead, Expect)] = &[(Instead::Number, Expect::Asked)];

fn field(pointer: &'static str, otherwise: Expect, except: &'static [(Instead, Expect)]) -> Field {
    Field { pointer, otherwise, except }
}

fn fields() -> Vec<Field> {
    vec![
        field("/x402Version", VERSION, &[]),
        field("/paymentPayload", PAYLOAD, &[(Instead::Object, VERSION)]),
        field("/paymentPayload/x402Version", VERSION, &[]),
        field("/paymentPayload/resource", PAYLOAD, OPTIONAL),
        field("/paymentPayload/resource/url", PAYLOAD, &[]),
        field("/paymentPayload/resource/description", Expect::Asked, &[]),
        field("/paymentPayload/extensions", PAYLOAD, OPTIONAL_OBJECT),
        field("/paymentPayload/accepted", PAYLOAD, &[]),
        field("/paymentPayload/accepted/scheme", PAYLOAD, &[]),
        field("/paymentPayload/accepted/network", PAYLOAD, &[]),
        field("/paymentPayload/accepted/amount", PAYLOAD, &[]),
        field("/paymentPayload/accepted/asset", PAYLOAD, &[]),
        field("/paymentPayload/accepted/payTo", PAYLOAD, &[]),
        field("/paymentPayload/accepted/maxTimeoutSeconds", PAYLOAD, NUMBER),
        field("/paymentPayload/accepted/extra", PAYLOAD, OPTIONAL_OBJECT),
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
        field("/paymentRequirements/amount", REQUIREMENTS, &[]),
        field("/paymentRequirements/asset", REQUIREMENTS, &[]),
        field("/paymentRequirements/payTo", REQUIREMENTS, &[]),
        field("/paymentRequirements/maxTimeoutSeconds", REQUIREMENTS, NUMBER),
        field(
            "/paymentRequirements/extra",
            REQUIREMENTS,
            &[(Instead::Nothing, DOMAIN), (Instead::Null, DOMAIN), (Instead::Object, DOMAIN)],
        ),
        field("/paymentRequirements/extra/name", REQUIREMENTS, DOMAIN_PART),
        field("/paymentRequirements/extra/version", REQUIREMENTS, DOMAIN_PART),
        field(
            "/paymentRequirements/extra/assetTransferMethod",
            REQUIREMENTS,
            &[
                (Instead::Nothing, Expect::Asked),
                (Instead::Null, Expect::Asked),
                (Instead::EmptyString, UNSUPPORTED),
            ],
        ),
        // Nobody's field.
        field("/paymentRequirements/extra/more", Expect::Asked, &[]),
        field("/paymentRequirements/more", Expect::Asked, &[]),
        field("/paymentPayload/more", Expect::Asked, &[]),
        field("/more", Expect::Asked, &[]),
    ]
}

#[tokio::test]
async fn every_field_of_version_2_is_read_strictly() {
    every_field(X402Version::V2, &fields()).await;
}
