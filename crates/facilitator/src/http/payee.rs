//! `POST /payee`: the payee check for anybody who asks, such as a buyer before it signs (docs/PAYEE.md). A payer must not
//! rely on a facilitator that the same 402 named.

use super::{
    App,
    body::Received,
    guard,
    shape::{self, Endpoint},
};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{Response, StatusCode},
    response::IntoResponse,
};
use quittance_protocol::{
    payee::Named,
    wire::{Echo, Refusal},
};
use serde_json::{Value, json};

pub(super) async fn payee(State(app): State<App>, request: Received) -> Response<Body> {
    let answer = async {
        match request.json.whole() {
            Ok(body) => payee_within(&app, body).await,
            Err(refusal) => refused(refusal),
        }
    };
    guard::in_time(&app, request.started, answer)
        .await
        .unwrap_or_else(|fault| guard::fault(&fault, Endpoint::Other, &Echo::default()))
}

async fn payee_within(app: &App, body: &Value) -> Response<Body> {
    let part = |name: &str| body.get(name).filter(|value| !value.is_null());
    let resource = match part("resource") {
        None => None,
        Some(Value::String(url)) => Some(url.as_str()),
        Some(_) => return bad("resource must be the URL that the payer asked for"),
    };
    let payload = part("paymentPayload");
    // A payment that is passed over would read as one that was compared.
    if payload.is_some_and(|payload| !payload.is_object()) {
        return bad("paymentPayload must be the payment that the payer signed");
    }
    let known = Named::read(part("registry"), part("agentId"));
    let checker = &app.facilitator.payee;
    let requirements = part("paymentRequirements").unwrap_or(&Value::Null);
    match checker.claim(requirements, payload, resource, known) {
        Ok(claim) => Json(checker.check(&claim).await).into_response(),
        Err(refusal) => refused(refusal),
    }
}

fn refused(Refusal { code, message }: Refusal) -> Response<Body> {
    shape::answer(StatusCode::BAD_REQUEST, Some(code), json!({ "error": code.as_str(), "message": message }))
}

fn bad(message: &str) -> Response<Body> {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": "bad_request", "message": message }))).into_response()
}
