//! The operator's listener: `/metrics`. Without authentication, so loopback by default.

use axum::{Router, extract::State, http::header, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How often recorded samples are folded; without it, histograms grow until the next scrape.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Serves until `stopping`.
pub(crate) async fn serve(listener: TcpListener, handle: PrometheusHandle, stopping: CancellationToken) {
    let upkeep = {
        let handle = handle.clone();
        async move {
            loop {
                tokio::time::sleep(UPKEEP_EVERY).await;
                handle.run_upkeep();
            }
        }
    };
    let routes = Router::new().route("/metrics", get(metrics)).with_state(handle);
    tokio::select! {
        () = upkeep => {}
        _ = axum::serve(listener, routes) => {}
        () = stopping.cancelled() => {}
    }
}

async fn metrics(State(handle): State<PrometheusHandle>) -> impl axum::response::IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render())
}
