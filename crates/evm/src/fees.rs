//! Fees, as pure arithmetic.

/// What a transaction offers, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    /// `maxFeePerGas`.
    pub max_fee_per_gas: u128,
    /// `maxPriorityFeePerGas`.
    pub max_priority_fee_per_gas: u128,
}

impl Fees {
    /// For a first attempt: the tip, and room for the base fee to double (six full blocks).
    pub fn first(base_fee: u128, tip: u128) -> Self {
        Self {
            max_fee_per_gas: base_fee.saturating_mul(2).saturating_add(tip),
            max_priority_fee_per_gas: tip,
        }
    }

    /// For a replacement of `self`: what the market wants now, and at least an eighth more on both fields, since nodes
    /// refuse less than a tenth.
    pub fn replacement(self, base_fee: u128, tip: u128) -> Self {
        let eighth_more = |fee: u128| fee.saturating_add(fee / 8).saturating_add(1);
        let market = Self::first(base_fee, tip);
        let max_priority_fee_per_gas =
            eighth_more(self.max_priority_fee_per_gas).max(market.max_priority_fee_per_gas);
        Self {
            max_fee_per_gas: eighth_more(self.max_fee_per_gas)
                .max(market.max_fee_per_gas)
                .max(max_priority_fee_per_gas),
            max_priority_fee_per_gas,
        }
    }

    /// So far above the market that outbidding whoever refuses the offer would cost more than it can be worth.
    pub fn is_beyond_reason(self, base_fee: u128, tip: u128) -> bool {
        const TIMES_MARKET: u128 = 10;
        /// Nothing to speak of on any chain.
        const TRIFLE_WEI: u128 = 1_000_000_000;
        let ceiling = Self::first(base_fee, tip).max_fee_per_gas.max(TRIFLE_WEI).saturating_mul(TIMES_MARKET);
        self.max_fee_per_gas > ceiling || self.max_priority_fee_per_gas > ceiling
    }

    /// The most a transaction with this gas limit can cost, in wei.
    pub fn cost_max(self, gas_limit: u64) -> u128 {
        self.max_fee_per_gas.saturating_mul(u128::from(gas_limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_beats_the_tenth_that_nodes_demand() {
        for fee in [0, 1, 7, 8, 1_000_000_007, u128::MAX / 2] {
            let old = Fees { max_fee_per_gas: fee, max_priority_fee_per_gas: fee / 2 };
            let new = old.replacement(0, 0);
            assert!(new.max_fee_per_gas >= fee + fee / 10, "{fee}");
            assert!(new.max_priority_fee_per_gas >= fee / 2 + fee / 20, "{fee}");
            assert!(new.max_fee_per_gas >= new.max_priority_fee_per_gas);
        }
    }

    #[test]
    fn outbidding_has_an_end() {
        let market = Fees::first(30_000_000_000, 1_000_000_000);
        let (mut fees, mut raised) = (market, 0);
        while !fees.is_beyond_reason(30_000_000_000, 1_000_000_000) {
            fees = fees.replacement(30_000_000_000, 1_000_000_000);
            raised += 1;
        }
        assert!((10..30).contains(&raised), "{raised}");
        assert!(fees.max_fee_per_gas < 12 * market.max_fee_per_gas);
        assert!(!Fees::first(0, 0).replacement(0, 0).is_beyond_reason(0, 0));
    }

    #[test]
    fn a_replacement_follows_the_market() {
        let new = Fees::first(10, 2).replacement(300, 5);
        assert_eq!(new, Fees { max_fee_per_gas: 605, max_priority_fee_per_gas: 5 });
    }
}
