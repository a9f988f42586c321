//! Values computed elsewhere (spec/x402.md §8, viem 2).

use crate::support::{eip712, sig};
use alloy_primitives::{Address, B256, Bytes, U256, address, b256, bytes};
use quittance_protocol::{
    payment::{Authorization, Requirement},
    scheme::exact_eip3009::{
        AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC, declared_domain, digest,
    },
    signature::{Ecdsa, SECP256K1_HALF_ORDER},
    units::{AuthNonce, Network, TokenAmount},
};

const PAYER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const SEPARATOR: B256 = b256!("71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818");
const DIGEST: B256 = b256!("e0dfe24d878b305003494ca1f3bb1bd9572485a3bd6eaafb8b28664d0f1cd61c");
const LOW: Bytes = bytes!(
    "697475f4bb41b7ff040d0092186d2cc068889296133bae2d51088a1e880389c706f988132efd2b016da5194537fe314f4005c006ecb7b94b0f0f4ee967dff9511b"
);
const HIGH: Bytes = bytes!(
    "697475f4bb41b7ff040d0092186d2cc068889296133bae2d51088a1e880389c7f90677ecd102d4fe925ae6bac801ceaf7aa91cdfc290e6f0b0c30fa3685647f01c"
);

fn authorization() -> Authorization {
    Authorization {
        from: PAYER,
        to: address!("209693Bc6afc0C5328bA36FaF03C514EF312287C"),
        value: TokenAmount(U256::from(10_000)),
        valid_after: U256::ZERO,
        valid_before: U256::from(1_893_456_000),
        nonce: AuthNonce(B256::repeat_byte(0x11)),
    }
}

fn requirement() -> Requirement {
    Requirement {
        network: Network::from_chain_id(84532).expect("a chain id"),
        asset: address!("036CbD53842c5426634e7929541eC2318f3dCF7e"),
        pay_to: authorization().to,
        amount: authorization().value,
        domain_name: Some("USDC".into()),
        domain_version: Some("2".into()),
        transfer_method: None,
        extra: None,
    }
}

#[test]
fn digest_and_separator_are_the_published_ones() {
    let domain = declared_domain(&requirement()).expect("a domain");
    assert_eq!(domain.separator(), SEPARATOR);
    assert_eq!(digest(&authorization(), &domain), DIGEST);
}

#[test]
fn the_digest_by_hand_is_the_published_one() {
    // Other tests judge the code by this second implementation, so it is itself judged here.
    let (a, r) = (authorization(), requirement());
    let domain = eip712::Domain {
        name: "USDC".into(),
        version: "2".into(),
        chain_id: 84532,
        verifying_contract: r.asset,
    };
    let message = eip712::Message {
        from: a.from,
        to: a.to,
        value: a.value.0,
        valid_after: a.valid_after,
        valid_before: a.valid_before,
        nonce: a.nonce.0,
    };
    assert_eq!(domain.separator(), SEPARATOR);
    assert_eq!(eip712::digest(&message, SEPARATOR), DIGEST);
}

#[test]
fn the_published_signature_recovers_and_its_twin_is_refused() {
    let low = Ecdsa::from_bytes(&LOW).expect("65 bytes");
    let high = Ecdsa::from_bytes(&HIGH).expect("65 bytes");
    assert!(low.is_canonical());
    assert_eq!(low.recover(DIGEST), Some(PAYER));
    assert!(!high.is_canonical());
    assert_eq!(low.high_s_twin().to_bytes(), HIGH);
    assert_eq!(high.high_s_twin().to_bytes(), LOW);
    // The precompile takes both: what refuses the twin is rule 1.
    assert_eq!(sig::ecrecover(DIGEST, &HIGH), Some(PAYER));
    assert_eq!(sig::high_s_twin(LOW[..].try_into().expect("65 bytes")).as_slice(), &HIGH[..]);
}

#[test]
fn half_the_order_is_canonical_and_one_more_is_not() {
    let half = U256::from_be_bytes(SECP256K1_HALF_ORDER.0);
    assert_eq!(half, sig::ORDER >> 1);
    let with = |s: U256| Ecdsa { r: B256::with_last_byte(1), s: s.into(), v: 27 };
    assert!(with(half).is_canonical());
    assert!(!with(half + U256::from(1)).is_canonical());
}

#[test]
fn either_form_of_v_is_one_signature() {
    let low = Ecdsa::from_bytes(&LOW).expect("65 bytes");
    for (v, legacy) in [(0, Some(27)), (1, Some(28)), (27, Some(27)), (28, Some(28)), (2, None), (26, None)] {
        assert_eq!(Ecdsa { v, ..low }.legacy_v(), legacy, "{v}");
    }
    assert_eq!(Ecdsa { v: 0, ..low }.recover(DIGEST), Some(PAYER));
    assert_ne!(Ecdsa { v: 1, ..low }.recover(DIGEST), Some(PAYER));
}

#[test]
fn signature_debug_shows_the_shape_and_no_bytes() {
    use quittance_protocol::signature::{Shape, Signature};
    let wrapper = sig::wrapper(PAYER, b"calldata", &LOW);
    let malformed = sig::SUFFIX.to_vec();
    for (bytes, shape) in [
        (LOW, "ecdsa"),
        (Bytes::from(wrapper.clone()), "erc6492"),
        (Bytes::from(malformed), "malformed erc6492"),
        (bytes!("1234"), "opaque"),
    ] {
        let signature = Signature::parse(bytes.clone());
        assert_eq!(format!("{:?}", signature.shape()), shape);
        assert_eq!(format!("{signature:?}"), format!("Signature({shape}, {} bytes)", bytes.len()));
    }
    let parts = Ecdsa::from_bytes(&LOW).expect("65 bytes");
    assert_eq!(format!("{parts:?}"), "Ecdsa { v: 27, .. }");
    let Shape::Erc6492(wrapper) = Signature::parse(wrapper.into()).shape().clone() else {
        panic!("a wrapper")
    };
    let factory = PAYER.to_string().to_lowercase();
    assert_eq!(format!("{wrapper:?}"), format!("Erc6492 {{ factory: {factory}, .. }}"));
}

#[test]
fn topics_are_the_hashes_of_their_events() {
    for (topic, event) in [
        (TRANSFER_TOPIC, "Transfer(address,address,uint256)"),
        (AUTHORIZATION_USED_TOPIC, "AuthorizationUsed(address,bytes32)"),
        (AUTHORIZATION_CANCELED_TOPIC, "AuthorizationCanceled(address,bytes32)"),
    ] {
        assert_eq!(topic, alloy_primitives::keccak256(event), "{event}");
    }
}
