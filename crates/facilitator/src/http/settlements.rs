//! `GET /settlements/{id}` and `GET /settlements?network=&asset=&payer=&nonce=`.

use super::{
    App, guard,
    shape::{self, Endpoint},
};
use axum::{
    Json,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{Response, StatusCode},
    response::IntoResponse,
};
use quittance_protocol::{
    units::{AuthNonce, Network},
    wire::{Echo, parse_address},
};
use quittance_store::model::{PaymentFilter, SettlementId};
use serde_json::json;
use std::collections::BTreeSet;

/// Rows in one answer.
const ROWS_MAX: u32 = 100;

pub(super) async fn one(State(app): State<App>, id: Result<Path<String>, PathRejection>) -> Response<Body> {
    let Some(id) = id.ok().and_then(|Path(id)| id.parse().ok()) else {
        return bad("the settlement id must be a UUID");
    };
    match app.facilitator.store.payment(SettlementId(id)).await {
        Ok(Some(payment)) => Json(shape::settlement(&payment)).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, Json(json!({ "error": "not_found" }))).into_response(),
        Err(fault) => guard::fault(&fault.into(), Endpoint::Other, &Echo::default()),
    }
}

pub(super) async fn list(
    State(app): State<App>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response<Body> {
    let Ok(Query(query)) = query else { return bad("the query cannot be read") };
    let filter = match filter(&app, &query) {
        Ok(filter) => filter,
        Err(response) => return *response,
    };
    match app.facilitator.store.find(&filter, ROWS_MAX).await {
        Ok(payments) => {
            let rows: Vec<_> = payments.iter().map(shape::settlement).collect();
            Json(json!({ "settlements": rows })).into_response()
        }
        Err(fault) => guard::fault(&fault.into(), Endpoint::Other, &Echo::default()),
    }
}

fn filter(app: &App, query: &[(String, String)]) -> Result<PaymentFilter, Box<Response<Body>>> {
    let bad = |message| Box::new(bad(message));
    let mut filter = PaymentFilter::default();
    let mut names = BTreeSet::new();
    for (name, value) in query {
        if !names.insert(name) {
            return Err(bad("each filter can be given once"));
        }
        match name.as_str() {
            "network" => {
                filter.network = Some(network(app, value).ok_or_else(|| bad("network is not served here"))?)
            }
            "asset" => {
                filter.asset = Some(parse_address(value).ok_or_else(|| bad("asset must be an address"))?)
            }
            "payer" => {
                filter.payer = Some(parse_address(value).ok_or_else(|| bad("payer must be an address"))?)
            }
            "nonce" => {
                let nonce = value.parse().map_err(|_| bad("nonce must be 0x and 64 hex digits"))?;
                filter.auth_nonce = Some(AuthNonce(nonce));
            }
            _ => return Err(bad("known filters: network, asset, payer, nonce")),
        }
    }
    if filter == PaymentFilter::default() {
        return Err(bad("at least one of network, asset, payer, nonce is needed"));
    }
    Ok(filter)
}

fn network(app: &App, name: &str) -> Option<Network> {
    let served = &app.facilitator.served;
    served.v2.get(name).or_else(|| served.v1.get(name)).copied()
}

fn bad(message: &str) -> Response<Body> {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": "bad_request", "message": message }))).into_response()
}
