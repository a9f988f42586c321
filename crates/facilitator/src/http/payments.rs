//! `POST /verify` and `POST /settle`.

use super::{
    App,
    body::{DeliveredBody, Received},
    guard,
    places::PayerPlace,
    shape::{self, Endpoint, TransportFault},
};
use crate::{
    answer::{AnswerLease, Outbox},
    fault::Fault,
    fault_point::{Point, reached},
    idempotency::{self, Binding},
    names::log_unjudged,
    payee::PaymentCheck,
    settle::{self, Begun, Outcome, Patience},
    verify::{self, service_of},
};
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderValue, Response, StatusCode, header},
};
use quittance_protocol::{
    code::Code,
    payment::fingerprint,
    wire::{self, Echo, Refusal},
};
use quittance_store::model::{IdempotencyKey, LastAnswer, Payment};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

pub(super) async fn verify(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Received,
) -> Response<Body> {
    let echo = Echo::of(&request.body);
    guard::in_time(&app, request.started, verify_within(&app, outbox, request, &echo))
        .await
        .unwrap_or_else(|fault| guard::fault(&fault, Endpoint::Verify, &echo))
}

async fn verify_within(app: &App, outbox: Outbox, received: Received, echo: &Echo) -> Response<Body> {
    let Received { headers, body, place, .. } = &received;
    let request = match wire::parse(body, &app.facilitator.served) {
        Ok(request) => request,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    let payee = match PaymentCheck::of(&app.facilitator, body) {
        Ok(payee) => payee,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    let Some(_place) = app.places.take_for(request.payment.authorization.from, place.clone()) else {
        return guard::fault(&Fault::Busy, Endpoint::Verify, echo);
    };
    match verify::verify(&app.facilitator, &request, payee.as_ref()).await {
        Ok(Ok(Some(promise))) => {
            let text = shape::valid(echo, Some(promise.payment()), None).to_string();
            json(Body::new(DeliveredBody::new(text.into(), Box::new(promise), outbox)))
        }
        Ok(Ok(None)) => json(Body::from(shape::valid(echo, None, report(payee.as_ref())).to_string())),
        Ok(Err(refusal)) => {
            let body = shape::refused(Endpoint::Verify, &refusal, echo, report(payee.as_ref()));
            shape::answer(StatusCode::OK, Some(refusal.code), body)
        }
        Err(fault) => guard::fault(&fault, Endpoint::Verify, echo),
    }
}

pub(super) async fn settle(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Received,
) -> Response<Body> {
    let echo = Echo::of(&request.body);
    guard::in_time(&app, request.started, settle_within(&app, outbox, request, &echo))
        .await
        .unwrap_or_else(|fault| guard::fault(&fault, Endpoint::Settle, &echo))
}

async fn settle_within(app: &App, outbox: Outbox, received: Received, echo: &Echo) -> Response<Body> {
    let Received { headers, body, place, started, .. } = &received;
    let keys = match idempotency::header_key(headers) {
        Ok(key) => key,
        Err(fault) => return guard::transport_fault_with(fault, Endpoint::Settle, echo),
    };
    let request = match wire::parse(body, &app.facilitator.served) {
        Ok(request) => request,
        Err(refusal) => return refused(Endpoint::Settle, &refusal, echo),
    };
    let payee = match PaymentCheck::of(&app.facilitator, body) {
        Ok(payee) => payee.map(Arc::new),
        Err(refusal) => return refused(Endpoint::Settle, &refusal, echo),
    };
    let Some(place) = app.places.take_for(request.payment.authorization.from, place.clone()) else {
        return guard::fault(&Fault::Busy, Endpoint::Settle, echo);
    };
    let key = keys.or_else(|| idempotency::extension_key(headers, &request));
    if let Some(key) = &key {
        match idempotency::bind(&app.facilitator, key, &fingerprint(&request.payment, &request.requirement))
            .await
        {
            Ok(Binding::Proceed) => reached(Point::KeyBound),
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
    let outcome = match outcome(app, Arc::new(place), &request, payee.clone(), *started).await {
        Ok(outcome) => outcome,
        Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
    };
    answer(app, outbox, outcome, report(payee.as_deref()), key.as_ref(), echo).await
}

/// `extra.payee`, for answers without a row that has it.
fn report(payee: Option<&PaymentCheck>) -> Option<Value> {
    payee.and_then(PaymentCheck::report)
}

/// The work runs in a task of its own: a caller that hangs up only stops waiting. Its place is free when both have ended.
async fn outcome(
    app: &App,
    place: Arc<PayerPlace>,
    request: &wire::Request,
    payee: Option<Arc<PaymentCheck>>,
    started: Instant,
) -> Result<Outcome, Fault> {
    let facilitator = app.facilitator.clone();
    let service = service_of(&facilitator, request)?.clone();
    let patience = Patience::new(started, facilitator.settle_wait, app.request_timeout);
    let begun = {
        let (facilitator, request, place) = (facilitator.clone(), request.clone(), place.clone());
        let tasks = facilitator.tasks.clone();
        tasks.spawn(async move {
            let _place = place;
            settle::begin(&facilitator, &request, payee.as_deref(), patience).await
        })
    };
    match begun.await.map_err(|_| Fault::Internal)?? {
        Begun::Refused(refusal) => Ok(Outcome::Refused(refusal, None)),
        Begun::Payment(id, answers_seen) => {
            settle::follow(&facilitator, &service, id, answers_seen, patience).await
        }
    }
}

async fn answer(
    app: &App,
    outbox: Outbox,
    outcome: Outcome,
    payee: Option<Value>,
    key: Option<&IdempotencyKey>,
    echo: &Echo,
) -> Response<Body> {
    let (body, code) = match outcome {
        Outcome::Success(payment, lease) => {
            let replay = if payment.last_answer.is_none() { "first" } else { "redelivered" };
            let body = shape::settled(echo, &payment, replay);
            let said = Said { body, code: None, says: LastAnswer::Success };
            return say(app, outbox, said, payment, lease, key, echo).await;
        }
        Outcome::Pending(payment, lease) => {
            let code = Code::SettlementPending;
            let message = "sent, not final yet; ask again with the same payment";
            let body = shape::not_settled(echo, &payment, code, message, "first");
            let said = Said { body, code: Some(code), says: LastAnswer::Pending };
            // Not final, so not bound to the key.
            return say(app, outbox, said, payment, lease, None, echo).await;
        }
        Outcome::Duplicate(payment) => return duplicate(app, &payment, key, echo).await,
        Outcome::Refused(refusal, payment) => {
            let body = match payment {
                Some(payment) => shape::not_settled(echo, &payment, refusal.code, &refusal.message, "first"),
                None => shape::refused(Endpoint::Settle, &refusal, echo, payee),
            };
            (body, refusal.code)
        }
        Outcome::Failed(payment) => {
            let code = payment.reason.unwrap_or(Code::TransactionFailed);
            let message = payment.message.clone().unwrap_or_default();
            (shape::not_settled(echo, &payment, code, &message, "first"), code)
        }
    };
    if let Some(key) = key
        && let Err(fault) = idempotency::store_answer(&app.facilitator, key, &body).await
    {
        return guard::fault(&fault, Endpoint::Settle, echo);
    }
    shape::answer(StatusCode::OK, Some(code), body)
}

/// An answer that only one caller may get.
struct Said {
    body: Value,
    code: Option<Code>,
    says: LastAnswer,
}

/// Recorded first, then written.
async fn say(
    app: &App,
    outbox: Outbox,
    said: Said,
    payment: Box<Payment>,
    lease: AnswerLease,
    key: Option<&IdempotencyKey>,
    echo: &Echo,
) -> Response<Body> {
    let text = said.body.to_string();
    match lease.begin(said.says, key.map(|key| (key.clone(), text.clone()))).await {
        Ok(Some(delivery)) => {
            let mut response = json(Body::new(DeliveredBody::new(text.into(), Box::new(delivery), outbox)));
            if let Some(code) = said.code {
                response.extensions_mut().insert(shape::Said(code));
            }
            response
        }
        Ok(None) => duplicate(app, &payment, key, echo).await,
        Err(fault) => guard::fault(&fault, Endpoint::Settle, echo),
    }
}

async fn duplicate(
    app: &App,
    payment: &Payment,
    key: Option<&IdempotencyKey>,
    echo: &Echo,
) -> Response<Body> {
    // A parallel request with the same key may have been given the answer: then it is this one's as well.
    let code = Code::DuplicateSettlement;
    let message = "this payment was settled, or is being settled, for another request";
    let body = shape::not_settled(echo, payment, code, message, "duplicate");
    if let Some(key) = key {
        match idempotency::bind(&app.facilitator, key, &payment.terms.fingerprint).await {
            Ok(Binding::Answered(answer)) => return stored(answer),
            Ok(_) if payment.status.is_terminal() => {
                if let Err(fault) = idempotency::store_answer(&app.facilitator, key, &body).await {
                    return guard::fault(&fault, Endpoint::Settle, echo);
                }
            }
            Ok(_) => {}
            Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
        }
    }
    shape::answer(StatusCode::OK, Some(code), body)
}

fn refused(endpoint: Endpoint, refusal: &Refusal, echo: &Echo) -> Response<Body> {
    if refusal.code == Code::InvalidNetwork {
        log_unjudged(&echo.network);
    }
    shape::answer(StatusCode::OK, Some(refusal.code), endpoint.refusal(refusal, echo))
}

fn stored(answer: String) -> Response<Body> {
    json(Body::from(answer))
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
