//! The operator's listener: `/metrics`. Without authentication, so loopback by default.

use crate::{facilitator::Facilitator, network::NetworkService};
use axum::{Router, extract::State, http::header, routing::get};
use futures::future::join_all;
use metrics_exporter_prometheus::PrometheusHandle;
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// How often recorded samples are folded; without it, histograms grow until the next scrape.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until `stopping`.
pub(crate) async fn serve(listener: TcpListener, handle: PrometheusHandle, facilitator: Arc<Facilitator>) {
    let stopping = facilitator.stopping.clone();
    let upkeep = {
        let handle = handle.clone();
        async move {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        }
    };
    let routes = Router::new().route("/metrics", get(metrics)).with_state((handle, facilitator));
    tokio::select! {
        () = upkeep => {}
        _ = axum::serve(listener, routes) => {}
        () = stopping.cancelled() => {}
    }
}

async fn metrics(
    State((handle, facilitator)): State<(PrometheusHandle, Arc<Facilitator>)>,
) -> impl axum::response::IntoResponse {
    join_all(facilitator.networks.values().map(NetworkService::freshen_funds)).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render())
}
