//! What the gas of a transaction costs, and what may be offered for it.

use alloy_primitives::U256;
use quittance_evm::{
    RpcFault,
    fees::Fees,
    pool::RpcPool,
    watch::{self, Head},
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
    /// As a node says at this head.
    pub(crate) async fn read(pool: &RpcPool, head: &Head) -> Result<Self, RpcFault> {
        let tip = match head.base_fee {
            Some(_) => watch::suggested_tip(pool).await?,
            // All of the price is tip.
            None => watch::gas_price(pool).await?,
        };
        Ok(Self { tip, l1_fee_per_kilobyte: watch::l1_fee_per_kilobyte(pool).await? })
    }

    /// The L1 fee of a transaction with this much calldata, at most. The rest of a transaction of ours stays below 256 bytes.
    pub(crate) fn l1_fee(&self, calldata_bytes: usize) -> U256 {
        let kilobytes = calldata_bytes.saturating_add(256).div_ceil(1024);
        self.l1_fee_per_kilobyte.saturating_mul(U256::from(kilobytes))
    }

    /// What a first attempt offers, and the most it can cost.
    pub(crate) fn first_offer(&self, base_fee: u128, gas_limit: u64, calldata_bytes: usize) -> (Fees, U256) {
        let fees = Fees::first(base_fee, self.tip);
        let cost_max = U256::from(fees.cost_max(gas_limit)).saturating_add(self.l1_fee(calldata_bytes));
        (fees, cost_max)
    }

    /// The most per gas that keeps a transaction within `cap` wei.
    pub(crate) fn fee_ceiling(&self, cap: U256, gas_limit: u64, calldata_bytes: usize) -> u128 {
        let for_gas = cap.saturating_sub(self.l1_fee(calldata_bytes));
        for_gas.checked_div(U256::from(gas_limit)).map_or(u128::MAX, |ceiling| ceiling.saturating_to())
    }

    /// The most that a transfer from an account can cost: a lane with less settles nothing.
    pub(crate) fn plain_settlement(&self, base_fee: u128) -> U256 {
        /// Of a token behind a proxy, to a payee that has none of it yet.
        const GAS: u64 = 150_000;
        const CALLDATA_BYTES: usize = 400;
        self.first_offer(base_fee, GAS, CALLDATA_BYTES).1
    }
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

    #[test]
    fn the_ceiling_leaves_room_for_the_l1_fee() {
        let prices = Prices { tip: 0, l1_fee_per_kilobyte: U256::from(700) };
        let ceiling = |cap: u64| prices.fee_ceiling(U256::from(cap), 100, 0);
        assert_eq!((ceiling(1_700), ceiling(1_799), ceiling(700), ceiling(1)), (10, 10, 0, 0));
    }
}
