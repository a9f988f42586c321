//! `Idempotency-Key` and the payment-identifier extension: same key and same payment, same answer.

use crate::{
    clock,
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    http::shape::TransportFault,
};
use alloy_primitives::keccak256;
use axum::http::{HeaderMap, header};
use quittance_protocol::{settlement::Fingerprint, wire::Request};
use quittance_store::model::{IdempotencyKey, KeyBinding};
use serde_json::Value;

/// Longest key, in characters.
const KEY_CHARACTERS_MAX: usize = 255;

/// What a key says about a request.
#[derive(Debug)]
pub(crate) enum Binding {
    /// First use, or not answered yet.
    Proceed,
    /// The final answer, as it was given.
    Answered(String),
    /// The key belongs to another payment.
    Conflict,
}

/// The key in the `Idempotency-Key` header, if there is one.
pub(crate) fn header_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, TransportFault> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let printable = bytes.iter().all(|b| (0x20..=0x7e).contains(b));
    if values.next().is_some() || bytes.is_empty() || bytes.len() > KEY_CHARACTERS_MAX || !printable {
        return Err(TransportFault::BAD_IDEMPOTENCY_KEY);
    }
    let key = String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(IdempotencyKey { scope: scope(headers, "header"), key }))
}

/// The key in `extensions["payment-identifier"]`, if there is one.
pub(crate) fn extension_key(headers: &HeaderMap, request: &Request) -> Option<IdempotencyKey> {
    let key = request.payment_identifier.clone()?;
    Some(IdempotencyKey { scope: scope(headers, "payment-identifier"), key })
}

/// Keys of one tenant never meet those of another: the scope is a digest of the API key, which is not stored.
fn scope(headers: &HeaderMap, kind: &str) -> String {
    match headers.get(header::AUTHORIZATION) {
        Some(value) => format!("{kind}:{}", keccak256(value.as_bytes())),
        None => kind.to_owned(),
    }
}

pub(crate) async fn bind(
    facilitator: &Facilitator,
    key: &IdempotencyKey,
    fingerprint: &Fingerprint,
) -> Result<Binding, Fault> {
    Ok(match facilitator.store.bind_idempotency_key(key, fingerprint, clock::now()).await? {
        KeyBinding::First | KeyBinding::Same(None) => Binding::Proceed,
        KeyBinding::Same(Some(answer)) => Binding::Answered(answer),
        KeyBinding::Other => Binding::Conflict,
    })
}

pub(crate) async fn store_answer(
    facilitator: &Facilitator,
    key: &IdempotencyKey,
    answer: &Value,
) -> Result<(), Fault> {
    reached(Point::KeyedAnswerDue);
    facilitator.store.store_idempotent_answer(key, &answer.to_string()).await?;
    reached(Point::KeyedAnswerStored);
    Ok(())
}
