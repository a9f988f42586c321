//! x402 version 1 (spec/x402.md §1.3).

use super::{Json, Object, Refusal, Request, Served, Version, same_kind, served_network};
use crate::{
    code::Code,
    payment::{Payment, Requirement},
};
use serde_json::Value;

pub(super) fn parse(
    payload: Object<'_>,
    requirements: Object<'_>,
    served: &Served,
) -> Result<Request, Refusal> {
    let payload_kind = (payload.non_empty_str("scheme")?, payload.non_empty_str("network")?);
    let scheme_payload = payload.object("payload", "paymentPayload.payload")?;
    let required_kind = (requirements.non_empty_str("scheme")?, requirements.non_empty_str("network")?);
    for field in ["maxAmountRequired", "asset", "payTo"] {
        requirements.non_empty_str(field)?;
    }
    let resource = requirements.str("resource")?;
    requirements.str("description")?;
    requirements.optional_str("mimeType")?;
    requirements.optional_object("outputSchema", "paymentRequirements.outputSchema")?;
    requirements.positive_number("maxTimeoutSeconds")?;
    let extra = extra(&requirements)?;

    let network = served_network(required_kind, &requirements, &served.v1)?;
    same_kind(payload_kind, required_kind, "paymentPayload")?;

    let requirement = Requirement::read(&requirements, network, "maxAmountRequired", extra)?;
    Ok(Request {
        version: Version::V1,
        payment: Payment::read(&scheme_payload, requirement.transfer_method.as_deref())?,
        requirement,
        resource: Some(resource.into()),
        payment_identifier: None,
    })
}

/// An object, or an object encoded as a JSON string: the Python SDK sends both (spec/x402.md §1.3).
fn extra(requirements: &Object<'_>) -> Result<Option<Value>, Refusal> {
    let refuse = || {
        Refusal::new(
            Code::InvalidPaymentRequirements,
            "paymentRequirements.extra must be an object, or one as a JSON string",
        )
    };
    match requirements.get("extra") {
        None => Ok(None),
        Some(extra @ Value::Object(_)) => Ok(Some(extra.clone())),
        Some(Value::String(text)) => match Json::read(text.as_bytes()).as_ref().map(Json::whole) {
            Some(Ok(Value::Null)) => Ok(None),
            Some(Ok(extra @ Value::Object(_))) => Ok(Some(extra.clone())),
            _ => Err(refuse()),
        },
        Some(_) => Err(refuse()),
    }
}
