//! Lanes: one signer on one network, and the work of seeing its transactions through.

pub(crate) mod keeper;
pub(crate) mod outcome;
pub(crate) mod plan;
mod receipts;
pub(crate) mod room;

use alloy_primitives::{Address, Bytes, U256};
use quittance_evm::{
    fees::Fees,
    pool::RpcPool,
    sign::{BadKey, Form, LaneSigner},
    watch,
};
use quittance_protocol::units::{LaneNonce, Network};
use quittance_store::{
    Store,
    model::{AttemptKind, LaneId, NewAttempt},
};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use crate::{
    fault::Fault,
    fault_point::{Point, reached},
};
use room::OPEN_SLOTS_PER_LANE_MAX;

/// A signer on a network.
#[derive(Debug)]
pub(crate) struct Lane {
    network: Network,
    signer: LaneSigner,
    /// The store knows the chain's transaction count of this signer.
    introduced: AtomicBool,
    /// Slots this process believes open; only for choosing a lane.
    open_slots: AtomicUsize,
    funds: AtomicU8,
    /// The chain knows no base fee.
    legacy: AtomicBool,
}

/// How long a lane's gas money lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Funds {
    /// For more than [`LOW_SETTLEMENTS`] settlements.
    Enough,
    /// For fewer: time to fund it.
    Low,
    /// Not for one more: the lane takes no new work until it is funded.
    Out,
}

/// Below this many settlements at the current price, an operator is warned.
const LOW_SETTLEMENTS: u64 = 100;

impl Funds {
    fn of(balance: U256, cost_max: U256) -> Self {
        let settlements = balance.checked_div(cost_max).unwrap_or(U256::MAX);
        if settlements.is_zero() {
            Self::Out
        } else if settlements < U256::from(LOW_SETTLEMENTS) {
            Self::Low
        } else {
            Self::Enough
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Enough => 0,
            Self::Low => 1,
            Self::Out => 2,
        }
    }
}

impl Lane {
    pub(crate) fn new(network: Network, signer: LaneSigner) -> Self {
        Self {
            network,
            signer,
            introduced: AtomicBool::new(false),
            open_slots: AtomicUsize::new(0),
            funds: AtomicU8::new(0),
            legacy: AtomicBool::new(false),
        }
    }

    /// The signer's address.
    pub(crate) fn address(&self) -> Address {
        self.signer.address()
    }

    /// Key of its rows.
    pub(crate) fn id(&self) -> LaneId {
        LaneId { network: self.network, address: self.address() }
    }

    pub(crate) fn open_slots(&self) -> usize {
        self.open_slots.load(Ordering::Relaxed)
    }

    pub(crate) fn set_open_slots(&self, count: usize) {
        self.open_slots.store(count, Ordering::Relaxed);
    }

    pub(crate) fn opened_slot(&self) {
        self.open_slots.fetch_add(1, Ordering::Relaxed);
    }

    /// What the latest header says about the chain.
    pub(crate) fn set_legacy(&self, legacy: bool) {
        self.legacy.store(legacy, Ordering::Relaxed);
    }

    /// Says so, once, when the gas money begins to run out, has run out, or is back.
    pub(crate) fn note_funds(&self, balance: U256, cost_max: U256) {
        let funds = Funds::of(balance, cost_max);
        if self.funds.swap(funds.rank(), Ordering::Relaxed) == funds.rank() {
            return;
        }
        let (network, signer) = (self.network, self.address());
        match funds {
            Funds::Enough => tracing::info!(%network, %signer, "the signer has gas money again"),
            Funds::Low => {
                tracing::warn!(%network, %signer, "the signer's gas money lasts for fewer than {LOW_SETTLEMENTS} settlements")
            }
            Funds::Out => {
                tracing::warn!(%network, %signer, "the signer cannot pay for a settlement and takes no new ones until it is funded")
            }
        }
    }

    /// Tells the store the chain's transaction count, once per process.
    pub(crate) async fn introduce(&self, pool: &RpcPool, store: &dyn Store) -> Result<(), Fault> {
        if self.introduced.load(Ordering::Acquire) {
            return Ok(());
        }
        store.raise_lane_floor(&self.id(), watch::mined_nonce(pool, self.address()).await?).await?;
        reached(Point::LaneIntroduced);
        self.introduced.store(true, Ordering::Release);
        Ok(())
    }

    /// Signs the execution of a payment.
    pub(crate) fn sign_payment(
        &self,
        nonce: LaneNonce,
        fees: Fees,
        gas_limit: u64,
        to: Address,
        data: &Bytes,
    ) -> Result<NewAttempt, BadKey> {
        self.sign(AttemptKind::Payment, nonce, fees, gas_limit, to, data.clone())
    }

    /// Signs a transfer of nothing to ourselves: it only consumes the nonce.
    pub(crate) fn sign_filler(&self, nonce: LaneNonce, fees: Fees) -> Result<NewAttempt, BadKey> {
        const GAS: u64 = 21_000;
        self.sign(AttemptKind::Filler, nonce, fees, GAS, self.address(), Bytes::new())
    }

    fn sign(
        &self,
        kind: AttemptKind,
        nonce: LaneNonce,
        fees: Fees,
        gas_limit: u64,
        to: Address,
        data: Bytes,
    ) -> Result<NewAttempt, BadKey> {
        let form = if self.legacy.load(Ordering::Relaxed) { Form::Legacy } else { Form::Eip1559 };
        let signed = self.signer.sign_call(form, self.network, nonce, fees, gas_limit, to, data)?;
        Ok(NewAttempt {
            kind,
            raw: signed.raw,
            hash: signed.hash,
            max_fee_per_gas: fees.max_fee_per_gas,
            max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
            gas_limit,
        })
    }
}

/// The lane with the fewest open slots among those that can pay for one more settlement of this cost.
///
/// What a lane already owes for its open slots is set aside at the same price.
pub(crate) fn choose<'a>(lanes: &'a [Lane], balances: &[U256], cost_max: U256) -> Option<&'a Lane> {
    lanes
        .iter()
        .zip(balances)
        .filter(|(lane, balance)| {
            let transactions = U256::from(lane.open_slots()).saturating_add(U256::from(1));
            lane.open_slots() < OPEN_SLOTS_PER_LANE_MAX && **balance >= transactions.saturating_mul(cost_max)
        })
        .min_by_key(|(lane, _)| lane.open_slots())
        .map(|(lane, _)| lane)
}

/// Fees an attempt was signed with.
pub(crate) fn fees_of(attempt: &NewAttempt) -> Fees {
    Fees {
        max_fee_per_gas: attempt.max_fee_per_gas,
        max_priority_fee_per_gas: attempt.max_priority_fee_per_gas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn funds_have_two_thresholds() {
        assert_eq!(Funds::of(U256::from(9), U256::from(10)), Funds::Out);
        assert_eq!(Funds::of(U256::from(10), U256::from(10)), Funds::Low);
        assert_eq!(Funds::of(U256::from(999), U256::from(10)), Funds::Low);
        assert_eq!(Funds::of(U256::from(1_000), U256::from(10)), Funds::Enough);
        assert_eq!(Funds::of(U256::ZERO, U256::from(0)), Funds::Enough, "a chain without fees");
    }
}
