//! Gas limits, by the arithmetic of EIP-2028 and EIP-7623.

use quittance_protocol::scheme::exact_eip3009::{gas_limit, intrinsic_gas};

#[test]
fn calldata_costs_what_the_chain_charges() {
    for (data, intrinsic, floor) in [
        (vec![], 21_000, 21_000),
        (vec![0], 21_004, 21_010),
        (vec![1], 21_016, 21_040),
        (vec![0, 1, 0, 0xff], 21_000 + 2 * 4 + 2 * 16, 21_000 + 2 * 10 + 2 * 40),
        (vec![0; 1000], 25_000, 31_000),
        (vec![7; 1000], 37_000, 61_000),
    ] {
        assert_eq!(intrinsic_gas(&data), (intrinsic, floor), "{} bytes", data.len());
    }
}

#[test]
fn a_limit_leaves_a_third_and_ten_thousand_to_spare() {
    assert_eq!(gas_limit(&[], 0), 31_000);
    assert_eq!(gas_limit(&[], 60_000), 21_000 + 60_000 + 20_000 + 10_000);
    assert_eq!(gas_limit(&[1], 60_001), 21_016 + 60_001 + 20_000 + 10_000);
    assert_eq!(gas_limit(&[1], 60_002), 21_016 + 60_002 + 20_000 + 10_000);
}

#[test]
fn much_calldata_with_little_work_pays_the_floor() {
    // 4000 nonzero bytes: 85000 + 10000 by the old rule, 181000 by the floor, and a tenth of it.
    assert_eq!(gas_limit(&[1; 4000], 0), 181_000 + 18_100);
    // With work above the floor the old rule counts.
    assert_eq!(gas_limit(&[1; 4000], 300_000), 85_000 + 300_000 + 100_000 + 10_000);
}

#[test]
fn a_limit_is_never_below_what_was_used_and_never_wraps() {
    for execution in [0, 1, 20_000, 3_000_000, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let limit = gas_limit(&[1; 200], execution);
        assert!(limit >= execution, "{execution}");
        assert!(limit >= intrinsic_gas(&[1; 200]).1, "{execution}");
    }
    assert_eq!(gas_limit(&[], u64::MAX), u64::MAX);
}
