//! ERC-6492: a second reader agrees with the decoder on everything, and what a wrapper turns into on chain.

use crate::support::{
    address,
    chain::Factory,
    keys::Key,
    policy, served,
    sig::{self, Read},
    terms::Terms,
};
use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::{SolCall, sol};
use proptest::prelude::*;
use quittance_protocol::{
    scheme::exact_eip3009::{MULTICALL3, deployable, deploying_calls, direct_calls},
    signature::{ERC6492_SUFFIX, Erc6492, Shape, Signature},
    wire::{Request, Version, parse},
};
use serde_json::{Value, json};

sol! {
    struct Call3 { address target; bool allowFailure; bytes callData; }
    function aggregate3(Call3[] calls);
    function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature);
}

const VRS: [u8; 4] = [0xe3, 0xee, 0x16, 0x0e];
const BYTES: [u8; 4] = [0xcf, 0x09, 0x29, 0x95];

fn seen(bytes: &[u8]) -> Read {
    let signature = Signature::parse(bytes.to_vec().into());
    assert_eq!(&signature.bytes()[..], bytes, "bytes are kept as they came");
    match signature.shape() {
        Shape::Ecdsa(parts) => {
            assert_eq!(&parts.to_bytes()[..], bytes);
            Read::Ecdsa
        }
        Shape::Erc6492(w) => {
            assert_eq!(signature.for_contract(), &w.inner);
            Read::Wrapper {
                factory: w.factory,
                calldata: w.factory_calldata.to_vec(),
                inner: w.inner.to_vec(),
            }
        }
        Shape::MalformedErc6492 => Read::Malformed,
        Shape::Opaque => Read::Opaque,
    }
}

#[test]
fn the_suffix_is_the_published_one() {
    assert_eq!(ERC6492_SUFFIX.0, sig::SUFFIX);
}

#[test]
fn miswritten_wrappers_are_malformed() {
    let calldatas: [&[u8]; 3] = [b"", b"deploy", &[7; 96]];
    let inners: [&[u8]; 4] = [b"", &[1; 65], &[1; 64], &[1; 300]];
    for (calldata, inner) in calldatas.iter().flat_map(|c| inners.iter().map(move |i| (c, i))) {
        let canonical = sig::wrapper(address("factory"), calldata, inner);
        assert!(matches!(seen(&canonical), Read::Wrapper { .. }));
        for encoding in [
            "suffix-only",
            "trailing-byte",
            "trailing-word",
            "truncated",
            "dirty-address",
            "odd-offset",
            "gap",
            "swapped-tails",
            "shared-tail",
            "huge-offset",
            "huge-length",
            "tuple",
        ] {
            let bytes = sig::miswritten(encoding, address("factory"), calldata, inner);
            assert_eq!(seen(&bytes), Read::Malformed, "{encoding} {} {}", calldata.len(), inner.len());
            assert_eq!(sig::read(&bytes), Read::Malformed, "{encoding}");
        }
        if inner.len() % 32 != 0 {
            let bytes = sig::miswritten("dirty-padding", address("factory"), calldata, inner);
            assert_eq!(seen(&bytes), Read::Malformed);
        }
    }
}

#[test]
fn a_nested_wrapper_is_malformed_and_a_suffix_in_the_middle_is_not() {
    let inner = sig::wrapper(Address::ZERO, b"", &[1; 65]);
    assert_eq!(seen(&sig::wrapper(address("factory"), b"deploy", &inner)), Read::Malformed);
    assert_eq!(seen(&sig::wrapper(address("factory"), b"deploy", &sig::SUFFIX)), Read::Malformed);
    let more = [inner.as_slice(), &[0]].concat();
    assert!(matches!(seen(&sig::wrapper(address("factory"), b"deploy", &more)), Read::Wrapper { .. }));
    assert!(matches!(seen(&sig::wrapper(address("factory"), &inner, &[1; 65])), Read::Wrapper { .. }));
}

#[test]
fn the_suffix_decides_before_the_length() {
    let mut bytes = [1; 65];
    assert_eq!(seen(&bytes), Read::Ecdsa);
    bytes[33..].copy_from_slice(&sig::SUFFIX);
    assert_eq!(seen(&bytes), Read::Malformed);
    assert_eq!(seen(&sig::SUFFIX[1..]), Read::Opaque);
    for length in [0, 1, 64, 66] {
        assert_eq!(seen(&vec![1; length]), Read::Opaque, "{length}");
    }
}

#[test]
fn a_deployment_needs_a_factory_and_a_byte() {
    let complete = |factory: Address, calldata: &'static [u8]| {
        Erc6492 { factory, factory_calldata: Bytes::from_static(calldata), inner: Bytes::new() }.is_complete()
    };
    assert!(complete(address("factory"), &[0]));
    assert!(!complete(address("factory"), b""));
    assert!(!complete(Address::ZERO, &[0]));
    assert!(!complete(Address::ZERO, b""));
}

fn request(signature: Value) -> Request {
    let owner = Key::named("owner");
    let mut terms = Terms::new(Version::V2).paid_by(Factory::Honest.wallet_of(owner.address()), owner);
    terms.signature = signature;
    parse(&terms.body(), &served()).expect("a request")
}

#[test]
fn only_a_complete_wrapper_with_a_listed_factory_is_deployable() {
    let listed = policy().wallet_factories;
    let is = |signature| deployable(&request(signature).payment, &listed).is_some();
    assert!(is(json!({ "erc6492": {} })));
    assert!(!is(json!({ "erc6492": { "factory": "unlisted:WalletFactory" } })));
    assert!(!is(json!({ "erc6492": { "calldata": "empty" } })));
    assert!(!is(json!({ "erc6492": { "factory": "zero" } })));
    assert!(!is(json!({ "erc6492": { "encoding": "gap" } })));
    assert!(!is(json!("low-s")));
    assert!(!is(json!("300-bytes")));
    // The zero address on the list does not make a wrapper without factory complete.
    let request = request(json!({ "erc6492": { "factory": "zero" } }));
    assert!(deployable(&request.payment, &[Address::ZERO]).is_none());
}

#[test]
fn a_deployment_is_two_calls_of_which_none_may_fail() {
    let request = request(json!({ "erc6492": {} }));
    let asset = request.requirement.asset;
    let wrapper = deployable(&request.payment, &policy().wallet_factories).expect("deployable");
    let direct = direct_calls(&request.payment, asset);
    let deploying = deploying_calls(&request.payment, asset, wrapper);
    assert_eq!(deploying.len(), direct.len());
    for (deploying, direct) in deploying.iter().zip(&direct) {
        assert_eq!(deploying.to, MULTICALL3);
        let calls = aggregate3Call::abi_decode(&deploying.data).expect("aggregate3").calls;
        let [factory, transfer] = calls.as_slice() else { panic!("two calls") };
        assert_eq!((factory.target, factory.allowFailure), (Factory::Honest.address(), false));
        assert_eq!(factory.callData, wrapper.factory_calldata);
        assert_eq!((transfer.target, transfer.allowFailure), (asset, false));
        assert_eq!(transfer.callData, direct.data);
    }
}

#[test]
fn the_overload_follows_the_length_of_the_inner_signature() {
    let shapes = |signature| -> Vec<([u8; 4], Option<u8>)> {
        let request = request(signature);
        let calls = direct_calls(&request.payment, request.requirement.asset);
        calls
            .iter()
            .map(|call| {
                assert_eq!(call.to, request.requirement.asset);
                let selector = call.data[..4].try_into().expect("a selector");
                let v = match selector {
                    VRS => Some(call.data[4 + 7 * 32 - 1]),
                    _ => {
                        let decoded = transferWithAuthorizationCall::abi_decode(&call.data).expect("bytes");
                        (decoded.signature.len() == 65).then(|| decoded.signature[64])
                    }
                };
                (selector, v)
            })
            .collect()
    };
    let plain = shapes(json!("low-s"));
    let v = plain[0].1.expect("v");
    assert!(matches!(v, 27 | 28));
    assert_eq!(plain, [(VRS, Some(v)), (BYTES, Some(v))]);
    // Wrapped or not: what counts is what the contract is asked about.
    assert_eq!(shapes(json!({ "erc6492": {} })), plain);
    // 0 and 1 go as 27 and 28 first, then as they came.
    let parity = v - 27;
    assert_eq!(
        shapes(json!("parity")),
        [(VRS, Some(v)), (BYTES, Some(v)), (VRS, Some(parity)), (BYTES, Some(parity))]
    );
    assert_eq!(shapes(json!("v=29")), [(VRS, Some(29)), (BYTES, Some(29))]);
    assert_eq!(shapes(json!("300-bytes")), [(BYTES, None)]);
    assert_eq!(shapes(json!("64-bytes")), [(BYTES, None)]);
    assert_eq!(shapes(json!("empty")), [(BYTES, None)]);
    // A wrapper nobody can read goes nowhere but to the token as it is.
    assert_eq!(shapes(json!({ "erc6492": { "encoding": "gap" } })), [(BYTES, None)]);
}

fn some_bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

proptest! {
    #[test]
    fn any_bytes_have_a_shape_and_both_readers_agree(bytes in some_bytes(400), suffix in any::<bool>()) {
        let bytes = if suffix { [bytes.as_slice(), &sig::SUFFIX].concat() } else { bytes };
        prop_assert_eq!(seen(&bytes), sig::read(&bytes));
    }

    #[test]
    fn a_canonical_wrapper_reads_back(factory in any::<[u8; 20]>(), calldata in some_bytes(200), inner in some_bytes(200)) {
        let factory = Address::from(factory);
        prop_assume!(!inner.ends_with(&sig::SUFFIX));
        let bytes = sig::wrapper(factory, &calldata, &inner);
        prop_assert_eq!(seen(&bytes), Read::Wrapper { factory, calldata, inner });
    }

    /// Small changes of a canonical wrapper: where strict and lenient decoders part.
    #[test]
    fn both_readers_agree_on_damaged_wrappers(
        calldata in some_bytes(100),
        inner in some_bytes(100),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..6, any::<u8>()), 1..4),
    ) {
        let mut body = sig::wrapper_body(address("factory"), &calldata, &inner);
        for (at, kind, byte) in damage {
            let at = at.index(body.len());
            match kind {
                0 => body[at] = byte,
                1 => body[at] ^= 1,
                2 => { body.remove(at); }
                3 => body.insert(at, byte),
                4 => body.truncate(at / 32 * 32 + 32),
                // Offsets and lengths: a small number in the last byte of a word.
                _ => { let word = at / 32 * 32; body[(word + 31).min(at.max(word))] = byte & 0xe0; }
            }
            if body.is_empty() { break; }
        }
        body.extend(sig::SUFFIX);
        prop_assert_eq!(seen(&body), sig::read(&body));
    }

    #[test]
    fn sixty_five_bytes_keep_their_parts(r in any::<[u8; 32]>(), s in any::<[u8; 32]>(), v in any::<u8>()) {
        let bytes = [r.as_slice(), &s, &[v]].concat();
        let signature = Signature::parse(bytes.clone().into());
        if let Shape::Ecdsa(parts) = signature.shape() {
            prop_assert_eq!((parts.r, parts.s, parts.v), (B256::from(r), B256::from(s), v));
            prop_assert_eq!(parts.to_bytes().to_vec(), bytes);
        } else {
            prop_assert!(bytes.ends_with(&sig::SUFFIX));
        }
    }
}
