//! x402 version 2 (spec/x402.md §1.2).

use super::{Object, Refusal, Request, Served, Version, same_kind, served_network};
use crate::payment::{Payment, Requirement};

pub(super) fn parse(
    payload: Object<'_>,
    requirements: Object<'_>,
    served: &Served,
) -> Result<Request, Refusal> {
    let accepted = payload.object("accepted", "paymentPayload.accepted")?;
    let accepted_kind = kind(&accepted, "paymentPayload.accepted.extra")?;
    let scheme_payload = payload.object("payload", "paymentPayload.payload")?;
    let resource = payload
        .optional_object("resource", "paymentPayload.resource")?
        .map(|resource| resource.non_empty_str("url"))
        .transpose()?;
    let extensions = payload.optional_object("extensions", "paymentPayload.extensions")?;
    let required_kind = kind(&requirements, "paymentRequirements.extra")?;

    let network = served_network(required_kind, &requirements, &served.v2)?;
    same_kind(accepted_kind, required_kind, "paymentPayload.accepted")?;

    let requirement =
        Requirement::read(&requirements, network, "amount", requirements.get("extra").cloned())?;
    let payment_identifier = match extensions {
        None => None,
        Some(extensions) => payment_identifier(extensions)?,
    };
    Ok(Request {
        version: Version::V2,
        payment: Payment::read(&scheme_payload, requirement.transfer_method.as_deref())?,
        requirement,
        resource: resource.map(Into::into),
        payment_identifier,
    })
}

/// The schema both `accepted` and the requirements follow. Values are judged on the requirements only: safety rests on
/// what the payer signed, and hand-built sellers send odd `accepted` values (spec/x402.md §7, 3).
fn kind<'a>(object: &Object<'a>, extra_path: &'a str) -> Result<(&'a str, &'a str), Refusal> {
    let scheme = object.non_empty_str("scheme")?;
    let network = object.non_empty_str("network")?;
    for field in ["amount", "asset", "payTo"] {
        object.non_empty_str(field)?;
    }
    object.positive_number("maxTimeoutSeconds")?;
    object.optional_object("extra", extra_path)?;
    Ok((scheme, network))
}

/// `extensions["payment-identifier"].info {required, id}` (spec/x402.md §6).
fn payment_identifier(extensions: Object<'_>) -> Result<Option<String>, Refusal> {
    let Some(extension) = extensions.optional_object("payment-identifier", "payment-identifier")? else {
        return Ok(None);
    };
    let info = extension.object("info", "payment-identifier.info")?;
    let required = match info.get("required") {
        None => false,
        Some(serde_json::Value::Bool(required)) => *required,
        Some(_) => return Err(info.bad("required", "must be true or false")),
    };
    match info.optional_str("id")? {
        None if required => Err(info.bad("id", "is required by the seller and missing")),
        None => Ok(None),
        Some(id) if is_payment_identifier(id) => Ok(Some(id.into())),
        Some(_) => Err(info.bad("id", "must be 16 to 128 characters of A-Z a-z 0-9 _ -")),
    }
}

fn is_payment_identifier(id: &str) -> bool {
    (16..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
