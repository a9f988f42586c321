//! `GET /healthz`: the process is up. `GET /readyz`: it would take payments, or why not.

use super::{App, shape::RETRY_AFTER_SECONDS};
use crate::network::NetworkService;
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{Response, StatusCode, header},
    response::IntoResponse,
};
use futures::future::join_all;
use quittance_evm::watch;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn healthz() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// Store, and on every network an endpoint of the right chain and a signer that can pay for a settlement. A pending
/// transaction never turns readiness off.
pub(super) async fn readyz(State(app): State<App>) -> Response<Body> {
    let mut reasons = Vec::new();
    if app.facilitator.stopping.is_cancelled() {
        reasons.push("the server is stopping".to_owned());
    }
    if app.facilitator.store.ping().await.is_err() {
        reasons.push("the store is unavailable".to_owned());
    }
    let checks = app.facilitator.networks.values().map(|service| reason(service.clone()));
    reasons.extend(join_all(checks).await.into_iter().flatten());
    if reasons.is_empty() {
        return Json(json!({ "status": "ready" })).into_response();
    }
    let body = Json(json!({ "status": "not ready", "reasons": reasons }));
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, RETRY_AFTER_SECONDS)], body).into_response()
}

async fn reason(service: Arc<NetworkService>) -> Option<String> {
    let network = service.network();
    match watch::chain_id(&service.pool).await {
        Ok(id) if id == network.chain_id() => {}
        Ok(id) => return Some(format!("{network}: the RPC endpoint serves chain {id}")),
        Err(_) => return Some(format!("{network}: no RPC endpoint answers")),
    }
    match service.has_gas_money().await {
        Ok(true) => None,
        Ok(false) => Some(format!("{network}: no signer can pay for a settlement's gas")),
        Err(_) => Some(format!("{network}: no RPC endpoint answers")),
    }
}
