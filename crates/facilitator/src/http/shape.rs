//! Bodies of answers (spec/x402.md §1.5): absent instead of null; `transaction` and `network` always strings.

use crate::{fault::Fault, settle::shown_hash};
use alloy_primitives::Address;
use axum::{
    Json,
    body::Body,
    http::{HeaderName, Response, StatusCode},
    response::IntoResponse,
};
use quittance_protocol::{
    code::Code,
    wire::{Echo, Refusal},
};
use quittance_store::model::Payment;
use serde_json::{Map, Value, json};

/// Which answer a path gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Verify,
    Settle,
    /// Anything else: `{error, message}`, without a payment to judge.
    Other,
}

impl Endpoint {
    pub(crate) fn of_path(path: &str) -> Self {
        match path {
            "/verify" => Self::Verify,
            "/settle" => Self::Settle,
            _ => Self::Other,
        }
    }

    /// As a metric's label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Settle => "settle",
            Self::Other => "other",
        }
    }

    /// The code that blames nobody but us.
    pub(crate) fn unexpected(self) -> Code {
        match self {
            Self::Settle => Code::UnexpectedSettleError,
            Self::Verify | Self::Other => Code::UnexpectedVerifyError,
        }
    }

    /// An answer that says no, in full shape.
    pub(crate) fn no(self, code: Code, message: &str, echo: &Echo) -> Value {
        let mut body = Map::new();
        match self {
            Self::Verify => {
                body.insert("isValid".into(), json!(false));
                body.insert("invalidReason".into(), json!(code.wire()));
                body.insert("invalidMessage".into(), json!(message));
            }
            Self::Settle => {
                body.insert("success".into(), json!(false));
                body.insert("errorReason".into(), json!(code.wire()));
                body.insert("errorMessage".into(), json!(message));
                body.insert("transaction".into(), json!(""));
                body.insert("network".into(), json!(echo.network));
            }
            Self::Other => {
                body.insert("error".into(), json!("unavailable"));
                body.insert("message".into(), json!(message));
            }
        }
        if let Some(payer) = echo.payer {
            body.insert("payer".into(), json!(checksummed(payer)));
        }
        if let Some(cause) = code.cause() {
            body.insert("extra".into(), json!({ "cause": cause }));
        }
        Value::Object(body)
    }

    pub(crate) fn refusal(self, refusal: &Refusal, echo: &Echo) -> Value {
        self.no(refusal.code, &refusal.message, echo)
    }

    /// The body for an outage of ours. The text names no endpoint, key or node answer.
    pub(crate) fn fault(self, fault: &Fault, echo: &Echo) -> Value {
        let message = match fault {
            Fault::Rpc(_) => "the chain could not be read; try again",
            Fault::Store(_) => "the store is unavailable; try again",
            Fault::NoFundedLane => "no signer of this network can pay for gas at the moment; try again",
            Fault::FeeAboveCap => "fees are above this facilitator's cap at the moment; try again",
            Fault::Timeout => "no decision in time; try again",
            Fault::Busy => "too many requests at once; try again",
            Fault::Stopping => "this facilitator is stopping; try again",
            Fault::Internal => "internal error; try again",
        };
        self.no(self.unexpected(), message, echo)
    }
}

/// The reason code an answer carries, for metrics; absent on answers that say yes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said(pub(crate) Code);

/// On an answer that an idempotency key or payment identifier repeats.
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// An answer with its code noted.
pub(crate) fn answer(status: StatusCode, code: Option<Code>, body: Value) -> Response<Body> {
    let mut response = (status, Json(body)).into_response();
    if let Some(code) = code {
        response.extensions_mut().insert(Said(code));
    }
    response
}

/// Seconds after which an outage is worth another try.
pub(crate) const RETRY_AFTER_SECONDS: &str = "1";

pub(crate) fn checksummed(address: Address) -> String {
    address.to_checksum(None)
}

/// `isValid: true`.
pub(crate) fn valid(echo: &Echo, reserved: Option<&Payment>, payee: Option<Value>) -> Value {
    let mut body = json!({ "isValid": true });
    if let (Some(payer), Some(object)) = (echo.payer, body.as_object_mut()) {
        object.insert("payer".into(), json!(checksummed(payer)));
    }
    match reserved {
        Some(payment) => add_extra(&mut body, payment, None),
        None => add_payee(&mut body, payee),
    }
    body
}

/// An answer that says no about a payment without a row.
pub(crate) fn refused(endpoint: Endpoint, refusal: &Refusal, echo: &Echo, payee: Option<Value>) -> Value {
    let mut body = endpoint.refusal(refusal, echo);
    add_payee(&mut body, payee);
    body
}

/// `extra.replay`: whether this is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Nobody was told before.
    First,
    /// An earlier caller may have heard of it.
    Redelivered,
    /// Another caller has the success, or gets it.
    Duplicate,
}

impl Replay {
    /// Of an answer that only one caller at a time is told.
    pub(crate) fn of(payment: &Payment) -> Self {
        if payment.last_answer.is_none() { Self::First } else { Self::Redelivered }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Redelivered => "redelivered",
            Self::Duplicate => "duplicate",
        }
    }
}

/// `success: true`.
pub(crate) fn settled(echo: &Echo, payment: &Payment, replay: Replay) -> Value {
    let mut body = json!({
        "success": true,
        "transaction": shown_hash(payment),
        "network": echo.network,
        "payer": checksummed(payment.terms.key.authorizer),
        "amount": payment.terms.amount.to_string(),
    });
    add_extra(&mut body, payment, Some(replay));
    body
}

/// `success: false` about a payment with a row: the hash is never withheld.
pub(crate) fn not_settled(
    echo: &Echo,
    payment: &Payment,
    code: Code,
    message: &str,
    replay: Replay,
) -> Value {
    let mut body = Endpoint::Settle.no(code, message, echo);
    if let Some(object) = body.as_object_mut() {
        object.insert("transaction".into(), json!(shown_hash(payment)));
    }
    add_extra(&mut body, payment, Some(replay));
    body
}

fn add_extra(body: &mut Value, payment: &Payment, replay: Option<Replay>) {
    let mut extra = json!({ "settlementId": payment.id.to_string(), "status": payment.status.as_str() });
    if let (Some(replay), Some(object)) = (replay, extra.as_object_mut()) {
        object.insert("replay".into(), json!(replay.as_str()));
    }
    if let (Some(payee), Some(object)) = (stored_payee(payment), extra.as_object_mut()) {
        object.insert("payee".into(), payee);
    }
    extend_extra(body, extra);
}

fn add_payee(body: &mut Value, payee: Option<Value>) {
    if let Some(payee) = payee {
        extend_extra(body, json!({ "payee": payee }));
    }
}

fn extend_extra(body: &mut Value, extra: Value) {
    match body.get_mut("extra").and_then(Value::as_object_mut) {
        Some(known) => known.extend(extra.as_object().cloned().unwrap_or_default()),
        None => body["extra"] = extra,
    }
}

/// The payee check's answer as it was stored.
fn stored_payee(payment: &Payment) -> Option<Value> {
    payment.payee.as_deref().and_then(|answer| serde_json::from_str(answer).ok())
}

/// A row as `GET /settlements` shows it.
pub(crate) fn settlement(payment: &Payment) -> Value {
    let terms = &payment.terms;
    let mut body = json!({
        "settlementId": payment.id.to_string(),
        "status": payment.status.as_str(),
        "network": terms.key.network.to_string(),
        "asset": checksummed(terms.key.verifying_contract),
        "payer": checksummed(terms.key.authorizer),
        "nonce": terms.key.auth_nonce.to_string(),
        "payTo": checksummed(terms.pay_to),
        "amount": terms.amount.to_string(),
        "validBefore": terms.valid_before.to_string(),
        "transaction": shown_hash(payment),
        "createdAt": payment.created_at,
        "updatedAt": payment.updated_at,
    });
    if let Some(object) = body.as_object_mut() {
        if let Some(reason) = payment.reason {
            object.insert("reason".into(), json!(reason.as_str()));
        }
        if let Some(message) = &payment.message {
            object.insert("message".into(), json!(message));
        }
        if let Some(payee) = stored_payee(payment) {
            object.insert("payee".into(), payee);
        }
        if let Some(number) = payment.block_number {
            object.insert("blockNumber".into(), json!(number.to_string()));
        }
    }
    body
}

/// Transport faults of the request itself, all with a full body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransportFault {
    pub(crate) status: StatusCode,
    /// Its name on paths that are not about one payment.
    pub(crate) error: &'static str,
    pub(crate) message: &'static str,
}

impl TransportFault {
    pub(crate) const NOT_JSON: Self =
        Self { status: StatusCode::BAD_REQUEST, error: "not_json", message: "the request body is not JSON" };
    pub(crate) const BROKEN_BODY: Self = Self {
        status: StatusCode::BAD_REQUEST,
        error: "broken_body",
        message: "the request body could not be read",
    };
    pub(crate) const BAD_IDEMPOTENCY_KEY: Self = Self {
        status: StatusCode::BAD_REQUEST,
        error: "bad_idempotency_key",
        message: "Idempotency-Key must be 1 to 255 printable ASCII characters",
    };
    pub(crate) const KEY_OF_ANOTHER_PAYMENT: Self = Self {
        status: StatusCode::CONFLICT,
        error: "conflict",
        message: "this idempotency key or payment identifier belongs to another payment, resource or signature",
    };
    pub(crate) const WRONG_CONTENT_TYPE: Self = Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error: "unsupported_media_type",
        message: "Content-Type must be application/json",
    };
    pub(crate) const WRONG_CHARSET: Self = Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error: "unsupported_media_type",
        message: "the charset of a JSON body is UTF-8",
    };
    pub(crate) const WRONG_CONTENT_ENCODING: Self = Self {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error: "unsupported_media_type",
        message: "Content-Encoding must be identity: compressed bodies are not read",
    };
    pub(crate) const TOO_LARGE: Self = Self {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        error: "too_large",
        message: "the request body is larger than server.body_bytes_max",
    };
    pub(crate) const SLOW_BODY: Self = Self {
        status: StatusCode::REQUEST_TIMEOUT,
        error: "slow_body",
        message: "the request body did not come in time",
    };
    pub(crate) const WRONG_METHOD: Self = Self {
        status: StatusCode::METHOD_NOT_ALLOWED,
        error: "method_not_allowed",
        message: "this path does not take this method",
    };
    pub(crate) const UNAUTHORIZED: Self = Self {
        status: StatusCode::UNAUTHORIZED,
        error: "unauthorized",
        message: "a valid Authorization: Bearer key is needed",
    };

    /// Each of them, so that they are counted from zero.
    pub(crate) const ALL: [Self; 11] = [
        Self::NOT_JSON,
        Self::BROKEN_BODY,
        Self::BAD_IDEMPOTENCY_KEY,
        Self::KEY_OF_ANOTHER_PAYMENT,
        Self::WRONG_CONTENT_TYPE,
        Self::WRONG_CHARSET,
        Self::WRONG_CONTENT_ENCODING,
        Self::TOO_LARGE,
        Self::SLOW_BODY,
        Self::WRONG_METHOD,
        Self::UNAUTHORIZED,
    ];

    /// The body in full shape.
    pub(crate) fn body(self, endpoint: Endpoint, echo: &Echo) -> Value {
        match endpoint {
            Endpoint::Other => json!({ "error": self.error, "message": self.message }),
            Endpoint::Verify | Endpoint::Settle => endpoint.no(self.code(endpoint), self.message, echo),
        }
    }

    /// The code in the body: the request is at fault for what it sent, and nobody is for the rest.
    pub(crate) fn code(self, endpoint: Endpoint) -> Code {
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNAUTHORIZED | StatusCode::REQUEST_TIMEOUT => {
                endpoint.unexpected()
            }
            _ => Code::InvalidPayload,
        }
    }
}
