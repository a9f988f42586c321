//! `GET /supported`: what this facilitator can do (spec/x402.md §1.5).

use super::{App, shape::checksummed};
use axum::{Json, extract::State};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) async fn supported(State(app): State<App>) -> Json<Value> {
    let facilitator = &app.facilitator;
    let kind =
        |version: u8, name: &String| json!({ "x402Version": version, "scheme": "exact", "network": name });
    let v2 = facilitator.served.v2.keys().map(|name| kind(2, name));
    let v1 = facilitator.served.v1.keys().map(|name| kind(1, name));
    let signers: BTreeSet<String> = facilitator
        .networks
        .values()
        .flat_map(|service| service.lanes.iter().map(|lane| checksummed(lane.address())))
        .collect();
    Json(json!({
        "kinds": v2.chain(v1).collect::<Vec<_>>(),
        "extensions": ["payment-identifier"],
        "signers": { "eip155:*": signers },
    }))
}
