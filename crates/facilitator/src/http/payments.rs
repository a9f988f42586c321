//! `POST /verify` and `POST /settle`.

use super::{
    App,
    body::{DeliveredBody, Received},
    guard,
    places::PayerPlace,
    shape::{self, Endpoint, Replay, TransportFault},
};
use crate::{
    answer::{AnswerLease, Outbox, Recorded},
    fault::Fault,
    idempotency::{self, Binding, Keys},
    names::log_unjudged,
    payee::PaymentCheck,
    settle::{self, Begun, Outcome, Patience},
    verify::{self, Verdict, service_of},
};
use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderValue, Response, StatusCode, header},
};
use quittance_protocol::{
    code::Code,
    wire::{self, Echo, Refusal},
};
use quittance_store::model::{KeyUse, LastAnswer, Payment};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

pub(super) async fn verify(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Received,
) -> Response<Body> {
    let echo = request.json.echo();
    guard::in_time(&app, request.started, verify_within(&app, outbox, request, &echo))
        .await
        .unwrap_or_else(|fault| guard::fault(&fault, Endpoint::Verify, &echo))
}

async fn verify_within(app: &App, outbox: Outbox, received: Received, echo: &Echo) -> Response<Body> {
    let Received { headers, json: sent, place, .. } = &received;
    let body = match sent.whole() {
        Ok(body) => body,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    let request = match wire::parse(body, &app.facilitator.served) {
        Ok(request) => request,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    let payee = match PaymentCheck::of(&app.facilitator, body) {
        Ok(payee) => payee,
        Err(refusal) => return refused(Endpoint::Verify, &refusal, echo),
    };
    let Some(place) = app.places.take_for(request.payment.authorization.from, place.clone()) else {
        return guard::fault(&Fault::Busy, Endpoint::Verify, echo);
    };
    let identifier = idempotency::identifier(headers, &request);
    match verify::verify(&app.facilitator, &request, payee.as_ref(), identifier, place).await {
        Ok(Verdict::Promised(promise)) => {
            let text = shape::valid(echo, Some(promise.payment()), None).to_string();
            json(Body::new(DeliveredBody::new(text.into(), promise, outbox)))
        }
        Ok(Verdict::Good) => json(Body::from(shape::valid(echo, None, report(payee.as_ref())).to_string())),
        Ok(Verdict::Refused(refusal)) => {
            let body = shape::refused(Endpoint::Verify, &refusal, echo, report(payee.as_ref()));
            shape::answer(StatusCode::OK, Some(refusal.code), body)
        }
        Ok(Verdict::IdentifierTaken) => key_conflict(Endpoint::Verify, echo),
        Err(fault) => guard::fault(&fault, Endpoint::Verify, echo),
    }
}

pub(super) async fn settle(
    State(app): State<App>,
    Extension(outbox): Extension<Outbox>,
    request: Received,
) -> Response<Body> {
    let echo = request.json.echo();
    guard::in_time(&app, request.started, settle_within(&app, outbox, request, &echo))
        .await
        .unwrap_or_else(|fault| guard::fault(&fault, Endpoint::Settle, &echo))
}

async fn settle_within(app: &App, outbox: Outbox, received: Received, echo: &Echo) -> Response<Body> {
    let Received { headers, json: sent, place, started, .. } = &received;
    let header_key = match idempotency::header_key(headers) {
        Ok(key) => key,
        Err(fault) => return guard::transport_fault_with(fault, Endpoint::Settle, echo),
    };
    let body = match sent.whole() {
        Ok(body) => body,
        Err(refusal) => return refused(Endpoint::Settle, &refusal, echo),
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
    let mut keys = Keys::new(headers, header_key, &request);
    match keys.open(&app.facilitator).await {
        Ok(Binding::Proceed) => {}
        Ok(Binding::Answered(answer)) => return replayed(answer),
        Ok(Binding::Conflict) => return key_conflict(Endpoint::Settle, echo),
        Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
    }
    let outcome = match outcome(app, Arc::new(place), &request, payee.clone(), keys.to_bind(), *started).await
    {
        Ok(outcome) => outcome,
        Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
    };
    answer(app, outbox, outcome, report(payee.as_deref()), &keys, echo).await
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
    identifier: Option<KeyUse>,
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
            settle::begin(&facilitator, &request, payee.as_deref(), identifier.as_ref(), patience).await
        })
    };
    match begun.await.map_err(|_| Fault::Internal)?? {
        Begun::Refused(refusal) => Ok(Outcome::Refused(refusal, None)),
        Begun::IdentifierTaken => Ok(Outcome::IdentifierTaken),
        Begun::Payment(found) => settle::follow(&facilitator, &service, found, patience).await,
    }
}

async fn answer(
    app: &App,
    outbox: Outbox,
    outcome: Outcome,
    payee: Option<Value>,
    keys: &Keys,
    echo: &Echo,
) -> Response<Body> {
    let (body, code, kept) = match outcome {
        Outcome::Success(payment, lease) => {
            let body = shape::settled(echo, &payment, Replay::of(&payment));
            let said = Said { body, code: None, says: LastAnswer::Success };
            return say(app, outbox, said, payment, lease, keys, echo).await;
        }
        Outcome::Pending(payment, lease) => {
            let code = Code::SettlementPending;
            let message = "sent, not final yet; ask again with the same payment";
            let body = shape::not_settled(echo, &payment, code, message, Replay::of(&payment));
            let said = Said { body, code: Some(code), says: LastAnswer::Pending };
            return say(app, outbox, said, payment, lease, keys, echo).await;
        }
        Outcome::Duplicate(payment) => return duplicate(app, &payment, keys, echo).await,
        Outcome::IdentifierTaken => return key_conflict(Endpoint::Settle, echo),
        Outcome::Refused(refusal, payment) => {
            let (code, message) = (refusal.code, &refusal.message);
            let body = match payment {
                Some(payment) => shape::not_settled(echo, &payment, code, message, Replay::First),
                None => shape::refused(Endpoint::Settle, &refusal, echo, payee),
            };
            let kept = keys.keep_refusal(&app.facilitator, &body).await;
            (body, code, kept)
        }
        Outcome::Failed { payment, is_old } => {
            let code = payment.reason.unwrap_or(Code::TransactionFailed);
            let message = payment.message.clone().unwrap_or_default();
            let replay = if is_old { Replay::Redelivered } else { Replay::First };
            let body = shape::not_settled(echo, &payment, code, &message, replay);
            let kept = keys.keep(&app.facilitator, &body).await;
            (body, code, kept)
        }
    };
    match kept {
        Ok(()) => shape::answer(StatusCode::OK, Some(code), body),
        Err(fault) => guard::fault(&fault, Endpoint::Settle, echo),
    }
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
    keys: &Keys,
    echo: &Echo,
) -> Response<Body> {
    let text = said.body.to_string();
    // "Pending" is not final, so no key keeps it.
    let keys_that_keep: Vec<KeyUse> = match said.says {
        LastAnswer::Success => keys.all().cloned().collect(),
        LastAnswer::Pending => Vec::new(),
    };
    let kept = (!keys_that_keep.is_empty()).then(|| (keys_that_keep, text.clone()));
    match lease.begin(said.says, kept).await {
        Ok(Recorded::OnItsWay(delivery)) => {
            let mut response = json(Body::new(DeliveredBody::new(text.into(), Box::new(delivery), outbox)));
            if let Some(code) = said.code {
                response.extensions_mut().insert(shape::Said(code));
            }
            response
        }
        Ok(Recorded::TakenOver) => duplicate(app, &payment, keys, echo).await,
        Ok(Recorded::KeyTaken) => key_conflict(Endpoint::Settle, echo),
        Err(fault) => guard::fault(&fault, Endpoint::Settle, echo),
    }
}

async fn duplicate(app: &App, payment: &Payment, keys: &Keys, echo: &Echo) -> Response<Body> {
    // A parallel request with the same key may have been given the answer: then it is this one's as well.
    match keys.look(&app.facilitator).await {
        Ok(Binding::Proceed) => {}
        Ok(Binding::Answered(answer)) => return replayed(answer),
        Ok(Binding::Conflict) => return key_conflict(Endpoint::Settle, echo),
        Err(fault) => return guard::fault(&fault, Endpoint::Settle, echo),
    }
    let code = Code::DuplicateSettlement;
    let message = "this payment was settled, or is being settled, for another request";
    let body = shape::not_settled(echo, payment, code, message, Replay::Duplicate);
    if payment.status.is_terminal()
        && let Err(fault) = keys.keep(&app.facilitator, &body).await
    {
        return guard::fault(&fault, Endpoint::Settle, echo);
    }
    shape::answer(StatusCode::OK, Some(code), body)
}

fn refused(endpoint: Endpoint, refusal: &Refusal, echo: &Echo) -> Response<Body> {
    if refusal.code == Code::InvalidNetwork {
        log_unjudged(&echo.network);
    }
    shape::answer(StatusCode::OK, Some(refusal.code), endpoint.refusal(refusal, echo))
}

fn key_conflict(endpoint: Endpoint, echo: &Echo) -> Response<Body> {
    guard::transport_fault_with(TransportFault::KEY_OF_ANOTHER_PAYMENT, endpoint, echo)
}

/// What was answered under one of the request's keys before, word for word. The header tells a seller that this is no
/// second success.
fn replayed(answer: String) -> Response<Body> {
    let mut response = json(Body::from(answer));
    response.headers_mut().insert(shape::IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
