//! What holds for every payment.

use crate::support::{
    NOW, V1_NETWORK,
    chain::{Chain, Code as Contract},
    keys::Key,
    policy, served, sig,
    steps::{self, Base},
    terms::Terms,
};
use alloy_primitives::{B256, U256};
use proptest::prelude::*;
use quittance_protocol::{
    code::Code,
    payment::{fingerprint, replay_key},
    rules::{VerifiedPayment, check, check_offline},
    signature::Ecdsa,
    units::UnixSeconds,
    wire::{Echo, Refusal, Request, Version, parse},
};
use serde_json::{Value, json};

fn versions() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V1), Just(Version::V2)]
}

prop_compose! {
    /// Any payment by a key that every rule accepts.
    fn valid_terms()(
        secret in any::<[u8; 32]>(),
        version in versions(),
        amount in prop_oneof![Just(0u128), any::<u128>()],
        before in 1u64..10_000_000,
        after in 6u64..10_000_000,
        nonce in any::<[u8; 32]>(),
    ) -> Terms {
        let mut terms = Terms::new(version);
        terms.key = Key::from_secret(alloy_primitives::keccak256(secret));
        terms.message.from = terms.key.address();
        terms.amount = U256::from(amount);
        terms.message.value = terms.amount;
        terms.message.valid_after = U256::from(NOW - before);
        terms.message.valid_before = U256::from(NOW + after);
        terms.message.nonce = B256::from(nonce);
        terms
    }
}

fn judge(terms: &Terms, chain: &Chain) -> Result<VerifiedPayment, Refusal> {
    let request = parse(&terms.body(), &served())?;
    let policy = policy();
    check(&request, &chain.facts(&request, &policy), &policy, UnixSeconds(NOW))
}

fn funded(terms: &Terms) -> Chain {
    let mut chain = Chain::new();
    chain.balances.insert(terms.message.from, terms.amount);
    chain
}

fn summary(verdict: &Result<VerifiedPayment, Refusal>) -> String {
    match verdict {
        Ok(v) => format!("{:?} {:?} {} {}", v.terms(), v.call(), v.gas_limit(), v.block_number()),
        Err(refusal) => format!("{refusal:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_valid_payment_is_accepted_and_executes(terms in valid_terms()) {
        let chain = funded(&terms);
        let verified = judge(&terms, &chain).expect("valid");
        let bytes = terms.signature_bytes();
        prop_assert!(chain.clone().send_directly(&terms.message, &bytes).is_ok());
        prop_assert_eq!(verified.terms().amount.0, terms.amount);
        prop_assert_eq!(verified.terms().pay_to, terms.pay_to);
    }

    #[test]
    fn the_high_s_twin_is_refused_for_a_payer_without_code(mut terms in valid_terms(), parity in any::<bool>()) {
        terms.signature = json!(if parity { "high-s-parity" } else { "high-s" });
        let refusal = judge(&terms, &funded(&terms)).expect_err("high s");
        prop_assert_eq!(refusal.code, Code::NonCanonicalSignature);
        // Also where the token would take it.
        let mut lenient = funded(&terms);
        lenient.kind = crate::support::chain::TokenKind::Lenient;
        prop_assert_eq!(judge(&terms, &lenient).expect_err("high s").code, Code::NonCanonicalSignature);
    }

    #[test]
    fn twins_are_each_others_twin(secret in any::<[u8; 32]>(), digest in any::<[u8; 32]>()) {
        let key = Key::from_secret(alloy_primitives::keccak256(secret));
        let low = key.sign(B256::from(digest));
        let high = sig::high_s_twin(&low);
        let parts = Ecdsa::from_bytes(&low).expect("65 bytes");
        prop_assert_eq!(&parts.high_s_twin().to_bytes()[..], &high[..]);
        prop_assert_eq!(&parts.high_s_twin().high_s_twin().to_bytes()[..], &low[..]);
        prop_assert!(parts.is_canonical() && !parts.high_s_twin().is_canonical());
        prop_assert_eq!(parts.recover(B256::from(digest)), Some(key.address()));
        prop_assert_eq!(sig::ecrecover(B256::from(digest), &high), Some(key.address()));
    }

    /// Our recovery and the precompile's agree on every low-s signature, whoever it recovers to.
    #[test]
    fn recovery_agrees_with_the_precompile(r in any::<[u8; 32]>(), s in any::<[u8; 32]>(), v in 26u8..30, digest in any::<[u8; 32]>()) {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&r);
        bytes[32..64].copy_from_slice(&s);
        bytes[32] &= 0x7f;
        bytes[64] = v;
        let parts = Ecdsa::from_bytes(&bytes).expect("65 bytes");
        prop_assume!(parts.is_canonical());
        prop_assert_eq!(parts.recover(B256::from(digest)), sig::ecrecover(B256::from(digest), &bytes));
    }

    #[test]
    fn the_same_inputs_have_the_same_verdict(terms in valid_terms(), word in prop::sample::select(vec!["low-s", "high-s", "other-key", "empty"]), code in any::<bool>()) {
        let mut terms = terms;
        terms.signature = json!(word);
        let mut chain = funded(&terms);
        if code {
            chain.code.insert(terms.message.from, Contract::Delegated);
        }
        prop_assert_eq!(summary(&judge(&terms, &chain)), summary(&judge(&terms, &chain)));
    }

    /// One changed bit of a signature of a payer without code never proves the same payment.
    #[test]
    fn a_flipped_bit_is_refused(terms in valid_terms(), bit in 0usize..512) {
        let chain = funded(&terms);
        let mut body = terms.body();
        let mut bytes = terms.signature_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        body["paymentPayload"]["payload"]["signature"] = json!(alloy_primitives::hex::encode_prefixed(bytes));
        let request = parse(&body, &served()).expect("a request");
        let policy = policy();
        prop_assert!(check(&request, &chain.facts(&request, &policy), &policy, UnixSeconds(NOW)).is_err());
    }

    #[test]
    fn the_window_is_what_the_token_says_less_the_margin(
        after in -3i64..4, before in -3i64..12, margin in 0u64..8, block in -3i64..4,
    ) {
        let at = |offset: i64| NOW.checked_add_signed(offset).expect("a time");
        let (mut terms, mut chain) = steps::base(Base::Eoa, Version::V2);
        terms.message.valid_after = U256::from(at(after));
        terms.message.valid_before = U256::from(at(before));
        chain.block_time = at(block);
        let mut policy = policy();
        policy.validity_margin_seconds = margin;
        let request = parse(&terms.body(), &served()).expect("a request");
        let verdict = check(&request, &chain.facts(&request, &policy), &policy, UnixSeconds(NOW));
        let (earliest, latest) = (0.min(block), 0.max(block));
        let open = after < earliest && before > latest && before >= latest + i64::try_from(margin).expect("small");
        prop_assert_eq!(verdict.is_ok(), open, "{:?}", verdict);
    }

    /// The offline half never refuses what the whole accepts, and its refusal is the whole's.
    #[test]
    fn the_offline_half_is_a_prefix_of_the_whole(value in 9_999u64..10_002, before in 0u64..12, to_seller in any::<bool>()) {
        let (mut terms, chain) = steps::base(Base::Eoa, Version::V1);
        terms.message.value = U256::from(value);
        terms.message.valid_before = U256::from(NOW + before);
        if !to_seller {
            terms.message.to = crate::support::address("other");
        }
        let request = parse(&terms.body(), &served()).expect("a request");
        let policy = policy();
        let offline = check_offline(&request, &policy, UnixSeconds(NOW));
        let whole = check(&request, &chain.facts(&request, &policy), &policy, UnixSeconds(NOW));
        prop_assert_eq!(offline.err(), whole.err());
    }

    /// Different terms have different fingerprints; the same terms have one, whatever version or signature carries them.
    #[test]
    fn a_fingerprint_is_the_terms_and_nothing_else(terms in valid_terms(), field in 0usize..6) {
        let request = |terms: &Terms| -> Request { parse(&terms.body(), &served()).expect("a request") };
        let identity = |terms: &Terms| {
            let r = request(terms);
            (replay_key(&r.payment, &r.requirement), fingerprint(&r.payment, &r.requirement))
        };
        let one = identity(&terms);
        let mut same = terms.clone();
        same.version = if terms.version == Version::V1 { Version::V2 } else { Version::V1 };
        same.signature = json!("300-bytes");
        prop_assert_eq!(identity(&same), one);

        let mut other = terms.clone();
        match field {
            0 => other.message.value += U256::from(1),
            1 => other.message.valid_after += U256::from(1),
            2 => other.message.valid_before += U256::from(1),
            3 => other.message.to = crate::support::address("other"),
            4 => other.pay_to = crate::support::address("other"),
            _ => other.amount += U256::from(1),
        }
        prop_assert_eq!(identity(&other).0, one.0);
        prop_assert_ne!(identity(&other).1, one.1);
        let mut other = terms.clone();
        match field % 3 {
            0 => other.message.nonce.0[31] ^= 1,
            1 => other.asset = crate::support::address("another token"),
            _ => other.message.from = crate::support::address("another payer"),
        }
        prop_assert_ne!(identity(&other).0, one.0);
        prop_assert_ne!(identity(&other).1, one.1);
    }
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "0x[0-9a-fA-F]{0,140}".prop_map(Value::from),
        "[0-9]{1,80}".prop_map(Value::from),
        prop::sample::select(vec!["exact", "upto", "eip155:84532", V1_NETWORK, "USDC", "2", ""])
            .prop_map(Value::from),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-zA-Z0-9]{0,12}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every object and array in `value`, by pointer.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                places(child, format!("{at}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (i, child) in list.iter().enumerate() {
                places(child, format!("{at}/{i}"), out);
            }
        }
        _ => {}
    }
    out.push(at);
}

fn survives(body: &Value) -> Result<(), TestCaseError> {
    let echo = Echo::of(body);
    prop_assert!(!echo.network.is_empty());
    let policy = policy();
    match parse(body, &served()) {
        Err(refusal) => prop_assert!(!refusal.message.is_empty()),
        Ok(request) => {
            let verdict = check(&request, &Chain::new().facts(&request, &policy), &policy, UnixSeconds(NOW));
            // The model's payer has no money.
            prop_assert!(verdict.is_err() || request.requirement.amount.0.is_zero());
            prop_assert_eq!(echo.payer, Some(request.payment.authorization.from));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_json_is_answered(body in anything()) {
        survives(&body)?;
    }

    #[test]
    fn any_mutation_of_a_valid_body_is_answered(
        version in versions(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), anything(), any::<bool>()), 1..4),
    ) {
        let mut body = Terms::new(version).body();
        for (place, value, remove) in mutations {
            let mut all = Vec::new();
            places(&body, String::new(), &mut all);
            let pointer = all[place.index(all.len())].clone();
            match (pointer.rsplit_once('/'), remove) {
                (Some((parent, field)), true) => {
                    if let Some(Value::Object(parent)) = body.pointer_mut(parent) {
                        parent.remove(field);
                    }
                }
                _ => {
                    if let Some(target) = body.pointer_mut(&pointer) {
                        *target = value;
                    }
                }
            }
        }
        survives(&body)?;
    }
}
