//! A running facilitator: listener, keepers, and their orderly end.

use crate::{
    config::Settings,
    descriptors,
    facilitator::Facilitator,
    fault_point::{Point, reached},
    http,
    lane::keeper::{self, Keeper},
    metrics, operator, sweep,
};
use metrics_exporter_prometheus::PrometheusHandle;
use quittance_store::StoreError;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longest time the first look at what an earlier process left may take before the listener opens; the keepers go on
/// with it. A dead node must not keep the other networks closed.
const RECOVERY_BEFORE_LISTENING: Duration = Duration::from_secs(5);
/// Longest time for work in flight to be written down once the process is to stop.
const PARK_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error("store.url")]
    Store(#[source] StoreError),
    /// The URL itself cannot be used; the error names the key.
    #[error(transparent)]
    StoreUrl(StoreError),
    /// No HTTP client could be made.
    #[error("the HTTP client for RPC endpoints could not be made")]
    Client(#[source] reqwest::Error),
    /// Metrics are already recorded by another server of this process.
    #[error("server.operator_listen: another server of this process has the metrics; set it to \"\"")]
    Metrics(#[source] metrics_exporter_prometheus::BuildError),
    /// The address cannot be listened on.
    #[error("{key}: {address} cannot be listened on: {reason}")]
    Listen {
        /// Setting.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// The system's reason.
        reason: std::io::ErrorKind,
    },
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Url(_) => Self::StoreUrl(error),
            _ => Self::Store(error),
        }
    }
}

/// A server that has begun to listen.
#[derive(Debug)]
pub struct Server {
    facilitator: Arc<Facilitator>,
    listener: TcpListener,
    operator: Option<(TcpListener, PrometheusHandle)>,
    router: axum::Router,
    connections_max: usize,
}

impl Server {
    /// Opens the store, looks after what an earlier process left, and listens.
    pub async fn start(settings: &Settings) -> Result<Self, StartError> {
        let connections_max = descriptors::room_for(settings.server.connections_max);
        // Before anything is counted.
        let operator = match settings.server.operator_listen {
            None => None,
            Some(address) => match listen("server.operator_listen", address).await {
                Ok(listener) => Some((listener, metrics::install().map_err(StartError::Metrics)?)),
                // Nobody asked for this address: a second process on one machine must not fail on it.
                Err(error) if settings.server.operator_listen_is_default => {
                    tracing::warn!(%error, "no operator listener");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let store = quittance_store::open(settings.store_url.expose()).await?;
        let facilitator = Facilitator::new(settings, store).map_err(StartError::Client)?;
        metrics::begin();
        facilitator.networks.values().for_each(|service| metrics::begin_network(service));
        let recovery = recover(&facilitator);
        if tokio::time::timeout(RECOVERY_BEFORE_LISTENING, recovery).await.is_err() {
            tracing::warn!("recovery takes longer; the keepers go on with it");
        }
        let listener = listen("server.listen", settings.server.listen).await?;
        let router = http::router(facilitator.clone(), &settings.server);
        Ok(Self { facilitator, listener, operator, router, connections_max })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Ends the server when canceled.
    pub fn stopper(&self) -> CancellationToken {
        self.facilitator.stopping.clone()
    }

    /// Serves until the stopper is canceled. What is in flight is finished, or parked with every byte of it stored.
    pub async fn run(self) {
        let Self { facilitator, listener, operator, router, connections_max } = self;
        if let Some((listener, handle)) = operator {
            tokio::spawn(operator::serve(listener, handle, facilitator.clone()));
        }
        for service in facilitator.networks.values() {
            tokio::spawn(keeper::run(facilitator.clone(), service.clone()));
            tokio::spawn(sweep::reservations(facilitator.clone(), service.clone()));
        }
        tokio::spawn(sweep::keys(facilitator.clone()));
        http::serve(listener, router, connections_max, facilitator.stopping.clone()).await;
        reached(Point::Stopping);
        facilitator.tasks.close();
        if tokio::time::timeout(PARK_TIMEOUT, facilitator.tasks.wait()).await.is_err() {
            tracing::warn!("stopped with work in flight; the next start goes on with it");
        }
    }
}

async fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Listen {
        key,
        address,
        reason: error.kind(),
    })
}

/// The signers' transaction counts and the prices, then one keeper pass on every network, and what the signers have for gas.
async fn recover(facilitator: &Arc<Facilitator>) {
    let passes = facilitator.networks.values().map(|service| async move {
        for lane in &service.lanes {
            if let Err(fault) = lane.introduce(&service.pool, facilitator.store.as_ref()).await {
                tracing::warn!(network = %service.network(), %fault, "a signer's transaction count is not known yet");
            }
        }
        if let Err(fault) = service.refresh_prices().await {
            tracing::warn!(network = %service.network(), %fault, "prices are not known yet");
        }
        if let Ok(work) = facilitator.store.open_work(service.network()).await
            && !work.slots.is_empty()
        {
            tracing::info!(network = %service.network(), slots = work.slots.len(), "going on with what an earlier process left");
            metrics::recovered(service, work.slots.len());
        }
        if let Err(fault) = Keeper::new(facilitator, service).pass().await {
            tracing::warn!(network = %service.network(), %fault, "recovery will be repeated");
        }
        service.freshen_funds().await;
    });
    futures::future::join_all(passes).await;
}
