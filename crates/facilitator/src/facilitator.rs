//! Everything a running facilitator holds.

use crate::{
    config::{NetworkSettings, PayeeMode, Settings},
    fault::Fault,
    network::{NetworkService, PolicySettings},
    payee::Checker,
};
use alloy_primitives::{Address, U256};
use quittance_protocol::{units::Network, wire::Served};
use quittance_store::{Store, model::HolderId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

/// The facilitator: shared by all requests and keepers.
#[derive(Debug)]
pub(crate) struct Facilitator {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) networks: BTreeMap<Network, Arc<NetworkService>>,
    pub(crate) served: Served,
    pub(crate) reserve_on_verify: bool,
    pub(crate) fee_per_settlement_wei_max: Option<U256>,
    pub(crate) settle_wait: Duration,
    /// How long the newest slot of a lane is watched after it was closed.
    pub(crate) reorg_watch: Duration,
    /// Whether a payment that somebody else's transaction has executed is told as a success.
    pub(crate) accept_settled_elsewhere: bool,
    /// What `/verify` and `/settle` do with the payee check.
    pub(crate) payee_mode: PayeeMode,
    pub(crate) payee: Checker,
    /// This process, as a keeper.
    pub(crate) holder: HolderId,
    /// Work that outlives the request that began it; waited for at the end.
    pub(crate) tasks: TaskTracker,
    /// Set when the process is to stop: waiting callers are answered, nothing new begins.
    pub(crate) stopping: CancellationToken,
}

impl Facilitator {
    /// From settings and an open store.
    pub(crate) fn new(settings: &Settings, store: Arc<dyn Store>) -> Result<Arc<Self>, reqwest::Error> {
        let signers: Vec<Address> =
            settings.networks.iter().flat_map(|n| n.signers.iter().map(|signer| signer.address())).collect();
        let policy = PolicySettings {
            validity_margin_seconds: settings.validity_margin_seconds,
            authorization_lifetime_seconds_max: settings.authorization_lifetime_seconds_max,
            gas_per_settlement_max: settings.gas_per_settlement_max,
        };
        let networks = settings
            .networks
            .iter()
            .map(|n| Ok((n.network, Arc::new(NetworkService::new(n, &policy, &signers)?))))
            .collect::<Result<_, reqwest::Error>>()?;
        Ok(Arc::new(Self {
            payee: Checker::new(&settings.payee, Some(store.clone()))?,
            store,
            networks,
            served: served(&settings.networks),
            reserve_on_verify: settings.reserve_on_verify,
            fee_per_settlement_wei_max: settings.fee_per_settlement_wei_max,
            settle_wait: settings.settle_wait,
            reorg_watch: settings.reorg_watch,
            accept_settled_elsewhere: settings.accept_settled_elsewhere,
            payee_mode: settings.payee.mode,
            holder: HolderId(Uuid::new_v4()),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }))
    }

    /// Resolves when the process has been told to stop this long ago.
    pub(crate) async fn stopping_for(&self, grace: Duration) {
        self.stopping.cancelled().await;
        tokio::time::sleep(grace).await;
    }

    /// Whether a settlement of this cost is within the operator's bound.
    pub(crate) fn check_fee_cap(&self, cost_max: U256) -> Result<(), Fault> {
        match self.fee_per_settlement_wei_max {
            Some(cap) if cost_max > cap => Err(Fault::FeeAboveCap),
            _ => Ok(()),
        }
    }

    /// The service of a network that parsing has already found to be served.
    pub(crate) fn service(&self, network: Network) -> Option<&Arc<NetworkService>> {
        self.networks.get(&network)
    }
}

fn served(networks: &[NetworkSettings]) -> Served {
    let mut served = Served::default();
    for network in networks {
        served.v2.insert(network.network.to_string(), network.network);
        if let Some(name) = &network.v1_name {
            served.v1.insert(name.clone(), network.network);
        }
    }
    served
}
