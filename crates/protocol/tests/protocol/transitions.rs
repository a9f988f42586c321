//! The state machine, written out a second time and walked at random.

use proptest::prelude::*;
use quittance_protocol::settlement::{Event as E, Status as S};

const TABLE: &[(S, E, S)] = &[
    (S::Reserved, E::Refused, S::Refused),
    (S::Reserved, E::Signed, S::Signed),
    (S::Reserved, E::SettledAtDepth, S::Settled),
    (S::Reserved, E::FoundElsewhere, S::SettledElsewhere),
    (S::Signed, E::Signed, S::Signed),
    (S::Signed, E::Mined, S::Mined),
    (S::Signed, E::SettledAtDepth, S::Settled),
    (S::Signed, E::FoundElsewhere, S::SettledElsewhere),
    (S::Signed, E::ProvenFailed, S::Failed),
    (S::Mined, E::Mined, S::Mined),
    (S::Mined, E::Reorged, S::Signed),
    (S::Mined, E::SettledAtDepth, S::Settled),
    (S::Mined, E::FoundElsewhere, S::SettledElsewhere),
    (S::Mined, E::ProvenFailed, S::Failed),
];

#[test]
fn the_transitions_are_exactly_these() {
    for from in S::ALL {
        for event in E::ALL {
            let expected = TABLE.iter().find(|(f, e, _)| (*f, *e) == (from, event)).map(|(_, _, to)| *to);
            assert_eq!(from.on(event), expected, "{from} on {event:?}");
        }
    }
}

#[test]
fn names_and_properties_of_states() {
    for (status, name, terminal, holds_key) in [
        (S::Reserved, "reserved", false, true),
        (S::Signed, "signed", false, true),
        (S::Mined, "mined", false, true),
        (S::Settled, "settled", true, true),
        (S::SettledElsewhere, "settled_elsewhere", true, true),
        (S::Failed, "failed", true, false),
        (S::Refused, "refused", true, false),
    ] {
        assert_eq!(status.to_string(), name);
        assert_eq!(name.parse::<S>(), Ok(status));
        assert_eq!((status.is_terminal(), status.holds_key()), (terminal, holds_key), "{name}");
    }
}

proptest! {
    #[test]
    fn no_sequence_of_events_leaves_a_terminal_state(picks in prop::collection::vec(0..E::ALL.len(), 0..40)) {
        let mut status = S::Reserved;
        let mut signed = false;
        for event in picks.into_iter().map(|i| E::ALL[i]) {
            let Some(next) = status.on(event) else { continue };
            prop_assert!(!status.is_terminal(), "{} left by {:?}", status, event);
            signed |= next == S::Signed;
            // Whatever was signed may be in the world: it is never forgotten as if it were not.
            prop_assert!(!(signed && matches!(next, S::Reserved | S::Refused)));
            // Nothing unsigned is mined or proven failed by us. Settled it can be, where the store has forgotten the signature.
            prop_assert!(signed || matches!(next, S::Refused | S::Settled | S::SettledElsewhere));
            status = next;
        }
    }
}
