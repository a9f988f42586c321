//! One network as served: endpoints, policy, lanes, and the signal that something moved.

use crate::{
    config::NetworkSettings,
    lane::{Lane, keeper::Sent, room::Room},
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
use std::sync::{Mutex, atomic::AtomicBool};
use tokio::{
    sync::{Notify, watch as channel},
    time::{Duration, Instant},
};

/// What a transaction costs beside gas at the base fee.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prices {
    /// Wei per gas: the tip, or all of the gas price on a chain without EIP-1559.
    pub(crate) tip: u128,
    /// Wei for 1024 bytes on L1; zero on chains that are their own L1.
    pub(crate) l1_fee_per_kilobyte: U256,
}

impl Prices {
    /// The L1 fee of a transaction with this much calldata, at most. The rest of a transaction of ours stays below 256 bytes.
    pub(crate) fn l1_fee(&self, calldata_bytes: usize) -> U256 {
        let kilobytes = calldata_bytes.saturating_add(256).div_ceil(1024);
        self.l1_fee_per_kilobyte.saturating_mul(U256::from(kilobytes))
    }
}

/// Prices older than this are read again, in the background of a settlement.
const PRICES_AGE_MAX: Duration = Duration::from_secs(60);
/// A head older than this says nothing about the next block's base fee, which moves by an eighth a block.
const HEAD_AGE_MAX: Duration = Duration::from_secs(6);

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
    /// Room for more unmined transactions.
    pub(crate) room: Room,
    /// What this process has sent.
    pub(crate) sent: Sent,
    /// A node said that a nonce is consumed: look at the lanes at once.
    pub(crate) doubt: AtomicBool,
    prices: Mutex<Option<(Prices, Instant)>>,
    head_base_fee: Mutex<Option<(u128, Instant)>>,
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
            room: Room::default(),
            sent: Sent::default(),
            doubt: AtomicBool::new(false),
            prices: Mutex::new(None),
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

    /// What to offer beside the base fee. Read from the node only when nothing is known; refreshed by
    /// [`Self::refresh_prices`] off the hot path.
    pub(crate) async fn prices(&self) -> Result<Prices, RpcFault> {
        match self.known_prices() {
            Some((prices, _)) => Ok(prices),
            None => self.read_prices().await,
        }
    }

    /// Reads the prices again when they are old.
    pub(crate) async fn refresh_prices(&self) -> Result<(), RpcFault> {
        if self.known_prices().is_none_or(|(_, read_at)| read_at.elapsed() > PRICES_AGE_MAX) {
            self.read_prices().await?;
        }
        Ok(())
    }

    async fn read_prices(&self) -> Result<Prices, RpcFault> {
        let tip = match self.read_head().await?.base_fee {
            Some(_) => watch::suggested_tip(&self.pool).await?,
            // All of the price is tip.
            None => watch::gas_price(&self.pool).await?,
        };
        let prices = Prices { tip, l1_fee_per_kilobyte: watch::l1_fee_per_kilobyte(&self.pool).await? };
        #[allow(clippy::disallowed_methods)] // age of a cache entry, an edge
        let now = Instant::now();
        *self.prices.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((prices, now));
        Ok(prices)
    }

    fn known_prices(&self) -> Option<(Prices, Instant)> {
        *self.prices.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The base fee to offer on. geth and its kin show contracts a base fee of zero in `eth_call`; then the header's counts,
    /// from the last head that was read if it is young.
    pub(crate) async fn base_fee(&self, as_contracts_see_it: u128) -> Result<u128, RpcFault> {
        if as_contracts_see_it > 0 {
            return Ok(as_contracts_see_it);
        }
        let known = *self.head_base_fee.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match known {
            Some((fee, read_at)) if read_at.elapsed() <= HEAD_AGE_MAX => Ok(fee),
            _ => Ok(self.read_head().await?.base_fee.unwrap_or_default()),
        }
    }

    /// The latest block.
    pub(crate) async fn read_head(&self) -> Result<Head, RpcFault> {
        let head = watch::head(&self.pool).await?;
        #[allow(clippy::disallowed_methods)] // age of a cache entry, an edge
        let now = Instant::now();
        let entry = Some((head.base_fee.unwrap_or_default(), now));
        *self.head_base_fee.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = entry;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_l1_fee_grows_with_what_goes_to_l1() {
        let prices = Prices { tip: 0, l1_fee_per_kilobyte: U256::from(7) };
        assert_eq!(prices.l1_fee(0), U256::from(7));
        assert_eq!(prices.l1_fee(768), U256::from(7));
        assert_eq!(prices.l1_fee(769), U256::from(14));
        assert_eq!(Prices::default().l1_fee(usize::MAX), U256::ZERO);
    }
}
