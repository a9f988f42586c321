//! One network as served: endpoints, policy, lanes, and the signal that something moved.

use crate::{
    clock,
    config::NetworkSettings,
    fault::Fault,
    lane::{self, Lane, room::Queues, sent::Sent, tally::Tally, trace::Traces},
    metrics,
    prices::Prices,
    waiting::Waiting,
};
use alloy_primitives::{Address, U256};
use quittance_evm::{
    RpcFault,
    pool::RpcPool,
    watch::{self, Head},
};
use quittance_protocol::{
    rules::Policy,
    scheme::exact_eip3009::{EXACT_PERMIT2_PROXY, PERMIT2, UPTO_PERMIT2_PROXY},
    units::Network,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool};
use tokio::{
    sync::{Notify, watch as channel},
    time::{Duration, Instant},
};

/// Prices older than this are read again beside the next settlement, which does not wait for them. They move with the blocks
/// of an L1, one in twelve seconds.
const PRICES_AGE_MAX: Duration = Duration::from_secs(20);
/// A head older than this says nothing about the next block's base fee, which moves by an eighth a block.
const HEAD_AGE_MAX: Duration = Duration::from_secs(6);

/// Gas money that was seen longer ago is read again for whoever looks at it.
const FUNDS_AGE_MAX: Duration = Duration::from_secs(5);
/// How long somebody who looks waits for it.
const FUNDS_WAIT_MAX: Duration = Duration::from_secs(1);

/// A served network.
#[derive(Debug)]
pub(crate) struct NetworkService {
    /// Endpoints.
    pub(crate) pool: RpcPool,
    /// Rules the operator set.
    pub(crate) policy: Policy,
    /// One per signer.
    pub(crate) lanes: Vec<Lane>,
    /// Depth at which outcomes are believed.
    pub(crate) confirmations: u64,
    /// Wakes the keeper: something was signed.
    pub(crate) wake: Notify,
    /// Callers that wait for their payment.
    pub(crate) waiting: Waiting,
    /// Counts the keeper's passes that moved something: there may be room now.
    pub(crate) passes: channel::Sender<u64>,
    /// Payments that are signed and not final, and those on their way there, by payer.
    pub(crate) open_by_payer: Tally,
    /// Where they wait for their turn.
    pub(crate) queues: Queues,
    /// Open slots by signer.
    pub(crate) open_by_lane: Tally,
    /// What this process has sent.
    pub(crate) sent: Sent,
    /// Searches for what used an authorization.
    pub(crate) traces: Traces,
    /// A node said that a nonce is consumed: look at the lanes at once.
    pub(crate) doubt: AtomicBool,
    /// When the lanes' gas money was last seen.
    funds_seen_at: Mutex<Option<Instant>>,
    prices: Mutex<PriceCache>,
    head_base_fee: Mutex<Option<(u128, Instant)>>,
}

#[derive(Debug, Default)]
struct PriceCache {
    /// With the time of their reading.
    known: Option<(Prices, Instant)>,
    /// When they were last asked for, with or without success.
    asked_at: Option<Instant>,
}

fn is_old(at: Option<Instant>) -> bool {
    at.is_none_or(|at| at.elapsed() > PRICES_AGE_MAX)
}

impl NetworkService {
    /// From settings. `signers` are the addresses of all signers of all networks: none of them can be a payer.
    pub(crate) fn new(
        settings: &NetworkSettings,
        policy: &PolicySettings,
        signers: &[Address],
    ) -> Result<Self, reqwest::Error> {
        let mut forbidden_payers = signers.to_vec();
        forbidden_payers.extend([PERMIT2, EXACT_PERMIT2_PROXY, UPTO_PERMIT2_PROXY]);
        Ok(Self {
            pool: RpcPool::new(settings.network, &settings.rpc_urls)?,
            policy: Policy {
                validity_margin_seconds: policy.validity_margin_seconds,
                authorization_lifetime_seconds_max: policy.authorization_lifetime_seconds_max,
                gas_per_settlement_max: policy.gas_per_settlement_max,
                wallet_factories: settings.wallet_factories.clone(),
                forbidden_payers,
            },
            lanes: settings
                .signers
                .iter()
                .map(|signer| Lane::new(settings.network, signer.clone()))
                .collect(),
            confirmations: settings.confirmations,
            wake: Notify::new(),
            waiting: Waiting::default(),
            passes: channel::Sender::new(0),
            open_by_payer: Tally::default(),
            queues: Queues::default(),
            open_by_lane: Tally::default(),
            sent: Sent::default(),
            traces: Traces::default(),
            doubt: AtomicBool::new(false),
            funds_seen_at: Mutex::default(),
            prices: Mutex::default(),
            head_base_fee: Mutex::new(None),
        })
    }

    /// Chain.
    pub(crate) fn network(&self) -> Network {
        self.pool.network()
    }

    /// Addresses of the lanes, in their order.
    pub(crate) fn lane_addresses(&self) -> Vec<Address> {
        self.lanes.iter().map(Lane::address).collect()
    }

    /// What to offer beside the base fee. Read from the node only when nothing is known.
    pub(crate) async fn prices(&self) -> Result<Prices, RpcFault> {
        let known = self.price_cache().known;
        match known {
            Some((prices, _)) => Ok(prices),
            None => self.read_prices().await,
        }
    }

    /// Begins to read the prices again when they are old, and does not wait for them: to be called when they are about to be
    /// used, so that an idle server asks nothing.
    pub(crate) fn freshen_prices(self: &Arc<Self>) {
        if !is_old(self.price_cache().asked_at) {
            return;
        }
        self.note_prices_asked();
        let service = self.clone();
        tokio::spawn(async move {
            if let Err(fault) = service.read_prices().await {
                tracing::warn!(network = %service.network(), %fault, "prices could not be read; the old ones stay");
            }
        });
    }

    /// Reads the prices again when they are old, and waits for them.
    pub(crate) async fn refresh_prices(&self) -> Result<(), RpcFault> {
        if is_old(self.price_cache().known.map(|(_, read_at)| read_at)) {
            self.read_prices().await?;
        }
        Ok(())
    }

    async fn read_prices(&self) -> Result<Prices, RpcFault> {
        self.note_prices_asked();
        let prices = Prices::read(&self.pool, &self.read_head().await?).await?;
        self.price_cache().known = Some((prices, clock::instant()));
        Ok(prices)
    }

    fn note_prices_asked(&self) {
        self.price_cache().asked_at = Some(clock::instant());
    }

    fn price_cache(&self) -> MutexGuard<'_, PriceCache> {
        self.prices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The base fee to offer on. geth and its kin show contracts a base fee of zero in `eth_call`; then the header's counts,
    /// from the last head that was read if it is young.
    pub(crate) async fn base_fee(&self, as_contracts_see_it: u128) -> Result<u128, RpcFault> {
        if as_contracts_see_it > 0 {
            return Ok(as_contracts_see_it);
        }
        let known = *self.head_base_fee.lock().unwrap_or_else(PoisonError::into_inner);
        match known {
            Some((fee, read_at)) if read_at.elapsed() <= HEAD_AGE_MAX => Ok(fee),
            _ => Ok(self.read_head().await?.base_fee.unwrap_or_default()),
        }
    }

    /// The same as far as it is known, however old it is: asks nothing.
    pub(crate) fn known_base_fee(&self, as_contracts_see_it: u128) -> u128 {
        if as_contracts_see_it > 0 {
            return as_contracts_see_it;
        }
        self.head_base_fee.lock().unwrap_or_else(PoisonError::into_inner).map_or(0, |(fee, _)| fee)
    }

    /// Whether any lane can pay for a plain settlement, whatever it owes for those that are on their way.
    pub(crate) async fn has_gas_money(&self) -> Result<bool, Fault> {
        let (balances, cost_max) = self.read_funds().await?;
        Ok(balances.iter().any(|balance| *balance >= cost_max && !balance.is_zero()))
    }

    /// What the lanes have for gas, and what a plain settlement costs at most.
    pub(crate) async fn read_funds(&self) -> Result<(Vec<U256>, U256), Fault> {
        let cost_max = self.prices().await?.plain_settlement(self.base_fee(0).await?);
        let balances = lane::balances(&self.pool, &self.lanes).await?;
        for (lane, balance) in balances.iter().enumerate() {
            metrics::lane_balance(self, lane, *balance);
        }
        self.note_funds(&balances, cost_max);
        Ok((balances, cost_max))
    }

    /// The lanes' balances were seen, and a settlement costs so much.
    pub(crate) fn note_funds(&self, balances: &[U256], cost_max: U256) {
        *self.funds_seen_at() = Some(clock::instant());
        for (index, (lane, balance)) in self.lanes.iter().zip(balances).enumerate() {
            metrics::lane_state(self, index, lane.note_funds(*balance, cost_max));
        }
    }

    /// For whoever looks at the metrics: a server that nobody asks and nobody watches reads nothing. Waits for it a moment; what
    /// a slow node says is there the next time.
    pub(crate) async fn freshen_funds(self: &Arc<Self>) {
        {
            let mut seen_at = self.funds_seen_at();
            if seen_at.is_some_and(|at| at.elapsed() < FUNDS_AGE_MAX) {
                return;
            }
            *seen_at = Some(clock::instant());
        }
        let service = self.clone();
        let reading = tokio::spawn(async move {
            if let Err(fault) = service.read_funds().await {
                tracing::debug!(network = %service.network(), %fault, "the signers' gas money could not be read");
            }
        });
        let _ = tokio::time::timeout(FUNDS_WAIT_MAX, reading).await;
    }

    fn funds_seen_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.funds_seen_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest block.
    pub(crate) async fn read_head(&self) -> Result<Head, RpcFault> {
        let head = watch::head(&self.pool).await?;
        let entry = Some((head.base_fee.unwrap_or_default(), clock::instant()));
        *self.head_base_fee.lock().unwrap_or_else(PoisonError::into_inner) = entry;
        for lane in &self.lanes {
            lane.set_legacy(head.base_fee.is_none());
        }
        Ok(head)
    }

    /// Tells everyone who waits for room that something moved.
    pub(crate) fn made_room(&self) {
        self.passes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// `policy.*`, the part every network shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicySettings {
    pub(crate) validity_margin_seconds: u64,
    pub(crate) authorization_lifetime_seconds_max: u64,
    pub(crate) gas_per_settlement_max: u64,
}
