//! When several checks fail, the first of the documented order is reported.

use crate::support::steps::{Base, STEPS, Step, verdict};
use proptest::prelude::*;
use quittance_protocol::wire::Version;

const VERSIONS: [Version; 2] = [Version::V1, Version::V2];
const BASES: [Base; 2] = [Base::Eoa, Base::Undeployed];

fn reports(first: &Step, base: Base, version: Version, broken: &[&Step]) {
    let names: Vec<_> = broken.iter().map(|s| s.name).collect();
    let refusal = verdict(base, version, broken).expect_err(&format!("{base:?} {version:?} {names:?}"));
    assert_eq!(refusal.code, first.code(version), "{base:?} {version:?} {names:?}: {refusal:?}");
    assert!(refusal.message.contains(first.says), "{base:?} {version:?} {names:?}: {refusal:?}");
}

#[test]
fn the_base_payments_are_valid() {
    for (base, version) in BASES.into_iter().flat_map(|b| VERSIONS.map(|v| (b, v))) {
        assert!(verdict(base, version, &[]).is_ok(), "{base:?} {version:?}");
    }
}

#[test]
fn each_step_alone_is_refused_by_its_own_code() {
    for (base, version) in BASES.into_iter().flat_map(|b| VERSIONS.map(|v| (b, v))) {
        for step in STEPS.iter().filter(|s| s.applies(base)) {
            reports(step, base, version, &[step]);
        }
    }
}

#[test]
fn of_two_broken_steps_the_first_is_reported() {
    // The versions differ in parsing, which does not look at who pays.
    let settings = [(Base::Eoa, Version::V1), (Base::Eoa, Version::V2), (Base::Undeployed, Version::V2)];
    for (base, version) in settings {
        let steps: Vec<_> = STEPS.iter().filter(|s| s.applies(base)).collect();
        for (i, first) in steps.iter().enumerate() {
            for second in steps[i + 1..].iter().filter(|s| !s.excludes(first)) {
                reports(first, base, version, &[first, second]);
            }
        }
    }
}

proptest! {
    /// Never Ok with anything broken, and always the first of what is broken.
    #[test]
    fn of_any_broken_steps_the_first_is_reported(
        mask in prop::collection::vec(prop::bool::weighted(0.15), STEPS.len()),
        undeployed in any::<bool>(),
        v1 in any::<bool>(),
    ) {
        let base = BASES[usize::from(undeployed)];
        let version = VERSIONS[usize::from(!v1)];
        let mut broken: Vec<&Step> = Vec::new();
        for (step, _) in STEPS.iter().zip(mask).filter(|(s, picked)| *picked && s.applies(base)) {
            if broken.iter().all(|other| !other.excludes(step)) {
                broken.push(step);
            }
        }
        if let Some(first) = broken.first() {
            reports(first, base, version, &broken);
        } else {
            prop_assert!(verdict(base, version, &broken).is_ok());
        }
    }
}
