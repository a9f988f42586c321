//! `POST /verify` and `POST /settle`.

use super::{
    App,
    body::{DeliveredBody, read_json},
    guard,
    shape::{self, Endpoint, Said, TransportFault},
};
use crate::{
    answer::{Delivery, Outbox},
    fault::Fault,
    idempotency::{self, Binding},
    settle::{self, Begun, Outcome},
    verify::{self, service_of},
};
use axum::{
    Extension, Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, Request, Response, StatusCode, header},
    response::IntoResponse,
};
use quittance_protocol::{
    code::Code,
    payment::fingerprint,
    wire::{self, Echo, Refusal},
};
use quittance_store::model::IdempotencyKey;
use serde_json::Value;
use tokio::time::Instant;

pub(super) async fn verify(State(app): State<App>, request: Request<Body>) -> Response<Body> {
    let mut echo = Echo::default();
    match tokio::time::timeout(app.request_timeout, verify_within(&app, request, &mut echo)).await {
        Ok(response) => response,
        Err(_) => guard::fault(&Fault::Timeout, Endpoint::Verify, &echo),
    }
}

async fn verify_within(app: &App, request: Request<Body>, echo: &mut Echo) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match read_json(&parts.headers, body, app.body_bytes_max).await {
        Ok(body) => body,
        Err(fault) => return guard::transport_fault_with(fault, Endpoint::Verify, echo),
    };
    *echo = Echo::of(&body);
    let request = match wire::parse(&body, &app.facilitator.served) {
        Ok(request) => request,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    match verify::verify(&app.facilitator, &request).await {
        Ok(Ok(reserved)) => Json(shape::valid(echo, reserved.as_ref())).into_response(),
        Ok(Err(refusal)) => refused(Endpoint::Verify, &refusal, echo),
        Err(fault) => guard::fault(&fault, Endpoint::Verify, echo),
    }
}

pub(super) async fn settle(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Request<Body>,
) -> Response<Body> {
    #[allow(clippy::disallowed_methods)] // the edge where a request's time begins
    let started = Instant::now();
    let mut echo = Echo::default();
    match tokio::time::timeout(app.request_timeout, settle_within(&app, outbox, request, &mut echo, started))
        .await
    {
        Ok(response) => response,
        Err(_) => guard::fault(&Fault::Timeout, Endpoint::Settle, &echo),
    }
}

async fn settle_within(
    app: &App,
    outbox: Outbox,
    request: Request<Body>,
    echo: &mut Echo,
    started: Instant,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match read_json(&parts.headers, body, app.body_bytes_max).await {
        Ok(body) => body,
        Err(fault) => return guard::transport_fault_with(fault, Endpoint::Settle, echo),
    };
    *echo = Echo::of(&body);
    let keys = match idempotency::header_key(&parts.headers) {
        Ok(key) => key,
        Err(fault) => return guard::transport_fault_with(fault, Endpoint::Settle, echo),
    };
    let request = match wire::parse(&body, &app.facilitator.served) {
        Ok(request) => request,
        Err(refusal) => return refused(Endpoint::Settle, &refusal, echo),
    };
    let key = keys.or_else(|| idempotency::extension_key(&parts.headers, &request));
    if let Some(key) = &key {
        match idempotency::bind(&app.facilitator, key, &fingerprint(&request.payment, &request.requirement))
            .await
        {
            Ok(Binding::Proceed) => {}
            Ok(Binding::Answered(answer)) => return stored(answer),
            Ok(Binding::Conflict) => {
                return guard::transport_fault_with(
                    TransportFault::KEY_OF_ANOTHER_PAYMENT,
                    Endpoint::Settle,
                    echo,
                );
            }
            Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
        }
    }
    let outcome = match outcome(app, &request, started).await {
        Ok(outcome) => outcome,
        Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
    };
    answer(app, outbox, outcome, key.as_ref(), echo).await
}

/// The work runs in a task of its own: a caller that hangs up only stops waiting.
async fn outcome(app: &App, request: &wire::Request, started: Instant) -> Result<Outcome, Fault> {
    let facilitator = app.facilitator.clone();
    let service = service_of(&facilitator, request)?.clone();
    let deadline = started + facilitator.settle_wait;
    let begun = {
        let (facilitator, request) = (facilitator.clone(), request.clone());
        facilitator.tasks.clone().spawn(async move { settle::begin(&facilitator, &request, deadline).await })
    };
    match begun.await.map_err(|_| Fault::Internal)?? {
        Begun::Refused(refusal) => Ok(Outcome::Refused(refusal, None)),
        Begun::Payment(id) => settle::follow(&facilitator, &service, id, deadline).await,
    }
}

async fn answer(
    app: &App,
    outbox: Outbox,
    outcome: Outcome,
    key: Option<&IdempotencyKey>,
    echo: &Echo,
) -> Response<Body> {
    let (body, code, delivery) = match outcome {
        Outcome::Refused(refusal, payment) => {
            let body = match payment {
                Some(payment) => shape::not_settled(echo, &payment, refusal.code, &refusal.message, "first"),
                None => Endpoint::Settle.refusal(&refusal, echo),
            };
            (body, Some(refusal.code), None)
        }
        Outcome::Success(payment, delivery) => {
            let replay = if payment.last_answer.is_none() { "first" } else { "redelivered" };
            (shape::settled(echo, &payment, replay), None, Some(delivery))
        }
        Outcome::Pending(payment, delivery) => {
            let code = Code::SettlementPending;
            let message = "sent, not final yet; ask again with the same payment";
            let body = shape::not_settled(echo, &payment, code, message, "first");
            // Not final, so not bound to the key.
            return delivered(body, Some(code), delivery, outbox);
        }
        Outcome::Duplicate(payment) => {
            // The key's own answer may have been stored by a parallel request with the same key.
            if let Some(key) = key {
                let fingerprint = payment.terms.fingerprint;
                if let Ok(Binding::Answered(answer)) =
                    idempotency::bind(&app.facilitator, key, &fingerprint).await
                {
                    return stored(answer);
                }
            }
            let code = Code::DuplicateSettlement;
            let message = "this payment was settled, and its success was given to another request";
            (shape::not_settled(echo, &payment, code, message, "duplicate"), Some(code), None)
        }
        Outcome::Failed(payment) => {
            let code = payment.reason.unwrap_or(Code::TransactionFailed);
            let message = payment.message.clone().unwrap_or_default();
            (shape::not_settled(echo, &payment, code, &message, "first"), Some(code), None)
        }
    };
    if let Some(key) = key
        && let Err(fault) = idempotency::store_answer(&app.facilitator, key, &body).await
    {
        // Nothing was said yet: it is taken back, and the next call gets the outcome.
        return guard::fault(&fault, Endpoint::Settle, echo);
    }
    match delivery {
        Some(delivery) => delivered(body, code, delivery, outbox),
        None => shape::answer(StatusCode::OK, code, body),
    }
}

fn refused(endpoint: Endpoint, refusal: &Refusal, echo: &Echo) -> Response<Body> {
    shape::answer(StatusCode::OK, Some(refusal.code), endpoint.refusal(refusal, echo))
}

fn delivered(body: Value, code: Option<Code>, delivery: Delivery, outbox: Outbox) -> Response<Body> {
    let bytes = Bytes::from(body.to_string());
    let mut response = Response::new(Body::new(DeliveredBody::new(bytes, delivery, outbox)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(code) = code {
        response.extensions_mut().insert(Said(code));
    }
    response
}

fn stored(answer: String) -> Response<Body> {
    (StatusCode::OK, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], answer)
        .into_response()
}
