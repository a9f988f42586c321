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
    guard::in_time(&app, request.started, payee_within(&app, &request.body))
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
    let Some(requirements) = part("paymentRequirements") else {
        return bad("paymentRequirements must be an object");
    };
    let known = Named::read(part("registry"), part("agentId"));
    let checker = &app.facilitator.payee;
    match checker.claim(requirements, part("paymentPayload"), resource, known) {
        Ok(claim) => Json(checker.check(&claim).await).into_response(),
        Err(Refusal { code, message }) => shape::answer(
            StatusCode::BAD_REQUEST,
            Some(code),
            json!({ "error": code.as_str(), "message": message }),
        ),
    }
}

fn bad(message: &str) -> Response<Body> {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": "bad_request", "message": message }))).into_response()
}
