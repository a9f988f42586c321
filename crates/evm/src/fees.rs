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

    /// The same, but at most so much per gas.
    #[must_use]
    pub fn at_most(self, ceiling: u128) -> Self {
        Self {
            max_fee_per_gas: self.max_fee_per_gas.min(ceiling),
            max_priority_fee_per_gas: self.max_priority_fee_per_gas.min(ceiling),
        }
    }

    /// For a replacement of `self`: what the market wants now, at least an eighth more on both fields, since nodes refuse
    /// less than a tenth, and at most `ceiling` per gas. `None`: the ceiling leaves no room for a replacement.
    pub fn replacement(self, base_fee: u128, tip: u128, ceiling: u128) -> Option<Self> {
        let eighth_more = |fee: u128| fee.saturating_add(fee / 8).saturating_add(1);
        let market = Self::first(base_fee, tip);
        let least_tip = eighth_more(self.max_priority_fee_per_gas);
        let least = eighth_more(self.max_fee_per_gas).max(least_tip);
        if least > ceiling {
            return None;
        }
        let max_fee_per_gas = least.max(market.max_fee_per_gas).min(ceiling);
        let max_priority_fee_per_gas = least_tip.max(market.max_priority_fee_per_gas).min(max_fee_per_gas);
        Some(Self { max_fee_per_gas, max_priority_fee_per_gas })
    }

    /// So far above the market that outbidding whoever refuses the offer would cost more than it can be worth.
    pub fn is_beyond_reason(self, base_fee: u128, tip: u128) -> bool {
        const TIMES_MARKET: u128 = 10;
        /// Nothing to speak of on any chain.
        const TRIFLE_WEI: u128 = 1_000_000_000;
        let ceiling = Self::first(base_fee, tip).max_fee_per_gas.max(TRIFLE_WEI).saturating_mul(TIMES_MARKET);
        self.max_fee_per_gas > ceiling || self.max_priority_fee_per_gas > ceiling
    }

    /// Whether to replace `old`, with its gas limit, by this, with that one: not where it is beyond reason, unless all of it costs no
    /// more than what is offered already. A transfer of nothing takes a fraction of the gas.
    pub fn is_worth_it(self, gas_limit: u64, old: (Self, u64), base_fee: u128, tip: u128) -> bool {
        !self.is_beyond_reason(base_fee, tip) || self.cost_max(gas_limit) <= old.0.cost_max(old.1)
    }

    /// The most a transaction with this gas limit can cost, in wei.
    pub fn cost_max(self, gas_limit: u64) -> u128 {
        self.max_fee_per_gas.saturating_mul(u128::from(gas_limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_CEILING: u128 = u128::MAX;

    fn is_an_eighth_more(old: u128, new: u128) -> bool {
        new.checked_mul(8).unwrap() >= old.checked_mul(9).unwrap()
    }

    #[test]
    fn a_replacement_offers_an_eighth_more_on_both_fields() {
        for fee in [0, 1, 7, 8, 9, 100, 1_000_000_007, u128::MAX / 16] {
            for tip in [0, fee / 2, fee] {
                let old = Fees { max_fee_per_gas: fee, max_priority_fee_per_gas: tip };
                let new = old.replacement(0, 0, NO_CEILING).unwrap();
                assert!(is_an_eighth_more(fee, new.max_fee_per_gas), "{old:?} {new:?}");
                assert!(is_an_eighth_more(tip, new.max_priority_fee_per_gas), "{old:?} {new:?}");
                assert!(new.max_fee_per_gas > fee && new.max_priority_fee_per_gas > tip, "{old:?} {new:?}");
                assert!(new.max_fee_per_gas >= new.max_priority_fee_per_gas, "{old:?} {new:?}");
                // No more than it takes.
                assert!(new.max_fee_per_gas <= fee + fee / 8 + 1, "{old:?} {new:?}");
            }
        }
    }

    #[test]
    fn a_replacement_goes_up_to_the_ceiling_and_no_further() {
        let old = Fees { max_fee_per_gas: 800, max_priority_fee_per_gas: 80 };
        // The market wants 3010; 901 is the least that is a replacement.
        let offered = |ceiling| old.replacement(1_500, 10, ceiling).map(|new| new.max_fee_per_gas);
        assert_eq!(offered(NO_CEILING), Some(3_010));
        assert_eq!(offered(2_000), Some(2_000));
        assert_eq!(offered(901), Some(901));
        assert_eq!(offered(900), None);
        // A tip above the whole offer is no offer.
        let new = old.replacement(1_500, 5_000, 2_000).unwrap();
        assert_eq!(new, Fees { max_fee_per_gas: 2_000, max_priority_fee_per_gas: 2_000 });
        assert!(is_an_eighth_more(80, old.replacement(0, 0, 901).unwrap().max_priority_fee_per_gas));
    }

    #[test]
    fn outbidding_has_an_end() {
        let market = Fees::first(30_000_000_000, 1_000_000_000);
        let (mut fees, mut raised) = (market, 0);
        while !fees.is_beyond_reason(30_000_000_000, 1_000_000_000) {
            fees = fees.replacement(30_000_000_000, 1_000_000_000, NO_CEILING).unwrap();
            raised += 1;
        }
        assert!((10..30).contains(&raised), "{raised}");
        assert!(fees.max_fee_per_gas < 12 * market.max_fee_per_gas);
        assert!(!Fees::first(0, 0).replacement(0, 0, NO_CEILING).unwrap().is_beyond_reason(0, 0));
    }

    #[test]
    fn what_only_consumes_the_nonce_may_outbid_what_was_too_dear() {
        let (base_fee, tip) = (30_000_000_000, 1_000_000_000);
        let mut old = Fees::first(base_fee, tip);
        while !old.is_beyond_reason(base_fee, tip) {
            old = old.replacement(base_fee, tip, NO_CEILING).unwrap();
        }
        let new = old.replacement(base_fee, tip, NO_CEILING).unwrap();
        assert!(new.is_worth_it(21_000, (old, 100_000), base_fee, tip));
        assert!(!new.is_worth_it(100_000, (old, 100_000), base_fee, tip));
        assert!(!new.is_worth_it(21_000, (old, 21_000), base_fee, tip), "nor may a filler without end");
        let usual = Fees::first(base_fee, tip);
        assert!(usual.is_worth_it(100_000, (usual, 21_000), base_fee, tip));
    }

    #[test]
    fn a_replacement_follows_the_market() {
        let new = Fees::first(10, 2).replacement(300, 5, NO_CEILING).unwrap();
        assert_eq!(new, Fees { max_fee_per_gas: 605, max_priority_fee_per_gas: 5 });
    }
}
