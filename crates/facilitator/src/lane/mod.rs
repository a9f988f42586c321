//! Lanes: one signer on one network, and the work of seeing its transactions through.

pub(crate) mod again;
pub(crate) mod keeper;
pub(crate) mod outcome;
pub(crate) mod plan;
mod receipts;
pub(crate) mod room;
pub(crate) mod sent;
pub(crate) mod tally;
pub(crate) mod trace;

use alloy_primitives::{Address, Bytes, U256};
use futures::future::try_join_all;
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
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::{
    fault::Fault,
    fault_point::{Point, reached},
    names::named,
};
use room::OPEN_SLOTS_PER_LANE_MAX;
use tally::{Coming, Tally};

/// A signer on a network.
#[derive(Debug)]
pub(crate) struct Lane {
    network: Network,
    signer: LaneSigner,
    /// The store knows the chain's transaction count of this signer.
    introduced: AtomicBool,
    funds: AtomicU8,
    /// The chain knows no base fee.
    legacy: AtomicBool,
}

/// How long a lane's gas money lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Funds {
    /// For more than [`LOW_SETTLEMENTS`] settlements.
    Enough,
    /// For fewer: time to fund it.
    Low,
    /// Not for one more: the lane takes no new work until it is funded.
    Out,
}

/// What a transfer of nothing takes.
pub(crate) const FILLER_GAS: u64 = 21_000;

/// Below this many settlements at the current price, an operator is warned.
const LOW_SETTLEMENTS: u64 = 100;

impl Funds {
    pub(crate) const ALL: [Self; 3] = [Self::Enough, Self::Low, Self::Out];

    /// As a metric's label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Enough => "funded",
            Self::Low => "low",
            Self::Out => "paused",
        }
    }

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

    /// What the latest header says about the chain.
    pub(crate) fn set_legacy(&self, legacy: bool) {
        self.legacy.store(legacy, Ordering::Relaxed);
    }

    /// Says so, once, when the gas money begins to run out, has run out, or is back.
    pub(crate) fn note_funds(&self, balance: U256, cost_max: U256) -> Funds {
        let funds = Funds::of(balance, cost_max);
        if self.funds.swap(funds.rank(), Ordering::Relaxed) == funds.rank() {
            return funds;
        }
        let (network, signer) = (self.network, named(self.network, self.address()));
        match funds {
            Funds::Enough => tracing::info!(%network, %signer, "the signer has gas money again"),
            Funds::Low => {
                tracing::warn!(%network, %signer, "the signer's gas money lasts for fewer than {LOW_SETTLEMENTS} settlements")
            }
            Funds::Out => {
                tracing::warn!(%network, %signer, "the signer cannot pay for a settlement and takes no new ones until it is funded")
            }
        }
        funds
    }

    /// Tells the store the chain's transaction count, once per process, and again after [`Self::introduce_anew`].
    ///
    /// What it was told before does not matter: a count that was too high would leave nonces behind that nobody ever uses. One
    /// that is too low gives no nonce away twice, since the store never goes below its own slots.
    pub(crate) async fn introduce(&self, pool: &RpcPool, store: &dyn Store) -> Result<(), Fault> {
        if self.introduced.load(Ordering::Acquire) {
            return Ok(());
        }
        store.set_lane_floor(&self.id(), watch::proven_nonce(pool, self.address()).await?).await?;
        reached(Point::LaneIntroduced);
        self.introduced.store(true, Ordering::Release);
        Ok(())
    }

    /// The count has moved by something that was not ours.
    pub(crate) fn introduce_anew(&self) {
        self.introduced.store(false, Ordering::Release);
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
        self.sign(AttemptKind::Filler, nonce, fees, FILLER_GAS, self.address(), Bytes::new())
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

/// The lanes that can pay for one more transaction of this cost, each with its open slots.
///
/// What a lane already owes for its open slots is set aside at the same price.
pub(crate) fn can_pay<'a>(
    lanes: &'a [Lane],
    open: &Tally,
    balances: &[U256],
    cost_max: U256,
) -> Result<Vec<(usize, &'a Lane)>, Fault> {
    let can_pay: Vec<(usize, &Lane)> = lanes
        .iter()
        .zip(balances)
        .map(|(lane, balance)| (open.of(lane.address()), lane, balance))
        .filter(|(slots, _, balance)| {
            let transactions = U256::from(*slots).saturating_add(U256::from(1));
            **balance >= transactions.saturating_mul(cost_max)
        })
        .map(|(slots, lane, _)| (slots, lane))
        .collect();
    if can_pay.is_empty() { Err(Fault::NoFundedLane) } else { Ok(can_pay) }
}

/// A lane for one more transaction of this cost, and its place there: the one with the fewest open slots among those that
/// can pay.
pub(crate) fn choose<'a>(
    lanes: &'a [Lane],
    open: &'a Tally,
    balances: &[U256],
    cost_max: U256,
) -> Result<(&'a Lane, Coming<'a>), Fault> {
    let mut can_pay = can_pay(lanes, open, balances, cost_max)?;
    // Stable: the first of equals, as configured.
    can_pay.sort_by_key(|(slots, _)| *slots);
    can_pay
        .into_iter()
        .find_map(|(_, lane)| {
            let place = open.one_more(lane.address(), |slots, _| slots < OPEN_SLOTS_PER_LANE_MAX)?;
            Some((lane, place))
        })
        .ok_or(Fault::Busy)
}

/// Balances of all lanes, in their order. Settlements have them with their facts; this is for when there are none.
pub(crate) async fn balances(pool: &RpcPool, lanes: &[Lane]) -> Result<Vec<U256>, Fault> {
    Ok(try_join_all(lanes.iter().map(|lane| watch::balance(pool, lane.address()))).await?)
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

    fn lanes(count: u8) -> Vec<Lane> {
        let network = Network::from_chain_id(1).unwrap();
        (1..=count)
            .map(|key| Lane::new(network, LaneSigner::from_hex(&format!("{key:064x}")).unwrap()))
            .collect()
    }

    fn chosen(lanes: &[Lane], open: &Tally, balances: &[u64]) -> Result<usize, Fault> {
        let balances: Vec<U256> = balances.iter().map(|wei| U256::from(*wei)).collect();
        let (lane, place) = choose(lanes, open, &balances, U256::from(10))?;
        place.stored();
        Ok(lanes.iter().position(|other| std::ptr::eq(other, lane)).unwrap())
    }

    #[test]
    fn the_least_loaded_lane_is_next() {
        let (lanes, open) = (lanes(3), Tally::default());
        open.answered([(lanes[0].address(), 2), (lanes[1].address(), 1)].into());
        let order: Vec<_> = (0..6).map(|_| chosen(&lanes, &open, &[1_000; 3]).unwrap()).collect();
        assert_eq!(order, [2, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_lane_keeps_what_it_owes_and_a_poor_one_is_passed_over() {
        let (lanes, open) = (lanes(2), Tally::default());
        assert_eq!(chosen(&lanes, &open, &[9, 10]).unwrap(), 1);
        // The second has its all on the way; the first cannot pay for one.
        assert!(matches!(chosen(&lanes, &open, &[9, 10]), Err(Fault::NoFundedLane)));
        assert_eq!(chosen(&lanes, &open, &[9, 20]).unwrap(), 1);
        assert_eq!(chosen(&lanes, &open, &[10, 29]).unwrap(), 0);
    }

    #[test]
    fn a_full_lane_takes_no_more() {
        let (lanes, open) = (lanes(2), Tally::default());
        open.answered([(lanes[0].address(), 255), (lanes[1].address(), 256)].into());
        let rich = [u64::MAX; 2];
        assert_eq!(chosen(&lanes, &open, &rich).unwrap(), 0);
        assert!(
            matches!(chosen(&lanes, &open, &rich), Err(Fault::Busy)),
            "room is a matter of time, not of money"
        );
    }

    #[test]
    fn funds_have_two_thresholds() {
        assert_eq!(Funds::of(U256::from(9), U256::from(10)), Funds::Out);
        assert_eq!(Funds::of(U256::from(10), U256::from(10)), Funds::Low);
        assert_eq!(Funds::of(U256::from(999), U256::from(10)), Funds::Low);
        assert_eq!(Funds::of(U256::from(1_000), U256::from(10)), Funds::Enough);
        assert_eq!(Funds::of(U256::ZERO, U256::from(0)), Funds::Enough, "a chain without fees");
    }
}
