//! Signature bytes of every length and form, from a key and from a contract.

use super::cast::{Cast, EOA, Kind};
use crate::support::offline::VERSIONS;
use alloy_primitives::{Bytes, U256};
use quittance_testkit::{SignedPayment, X402Version, dev_signer};

const SIGNATURE: &str = "invalid_exact_evm_signature";
const UNDEPLOYED: &str = "invalid_exact_evm_payload_undeployed_smart_wallet";
const HIGH_S: &str = "invalid_exact_evm_non_canonical_signature";

async fn eoa(cast: &Cast, version: X402Version, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> SignedPayment {
    let builder = cast.bench.payment(version).await;
    cast.sign_as(Kind::Eoa, builder, None, |signature| change(signature.to_vec()).into()).await
}

/// Tokens want 27 or 28; clients also send the parity. It is the same signature, and is sent as the token wants it.
#[tokio::test]
async fn v_may_be_27_or_28_or_the_parity() {
    let cast = Cast::start().await;
    for version in VERSIONS {
        let parity = eoa(&cast, version, |mut bytes| {
            bytes[64] -= 27;
            bytes
        })
        .await;
        assert!(!cast.executes(&parity).await, "the token takes no parity");
        cast.bench.accepted(&parity, "parity").await;
        for v in [2, 3, 26, 29, 35, 36, 127, 128, 255] {
            let payment = eoa(&cast, version, |mut bytes| {
                bytes[64] = v;
                bytes
            })
            .await;
            cast.bench.refused(&payment, SIGNATURE, &format!("v {v}")).await;
            assert!(!cast.executes(&payment).await, "v {v}");
        }
        // The other one of the two recovers to nobody known.
        let other = eoa(&cast, version, |mut bytes| {
            bytes[64] = 27 + 28 - bytes[64];
            bytes
        })
        .await;
        cast.bench.refused(&other, SIGNATURE, "the other parity").await;
        assert!(!cast.executes(&other).await);
    }
}

#[tokio::test]
async fn bytes_that_are_no_ecdsa_signature_are_refused() {
    let cast = Cast::start().await;
    let order: U256 = "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141".parse().unwrap();
    let word = |at: usize, value: U256| {
        move |mut bytes: Vec<u8>| {
            bytes[at..at + 32].copy_from_slice(&value.to_be_bytes::<32>());
            bytes
        }
    };
    type Change = Box<dyn Fn(Vec<u8>) -> Vec<u8>>;
    let cases: Vec<(&str, &str, Change)> = vec![
        ("r is zero", SIGNATURE, Box::new(word(0, U256::ZERO))),
        ("s is zero", SIGNATURE, Box::new(word(32, U256::ZERO))),
        ("r is the order", SIGNATURE, Box::new(word(0, order))),
        ("r is all ones", SIGNATURE, Box::new(word(0, U256::MAX))),
        ("s is half the order", SIGNATURE, Box::new(word(32, order >> 1))),
        ("s is one more than half", HIGH_S, Box::new(word(32, (order >> 1) + U256::from(1)))),
        ("s is the order", HIGH_S, Box::new(word(32, order))),
        ("s is all ones", HIGH_S, Box::new(word(32, U256::MAX))),
        ("all zero", SIGNATURE, Box::new(|_| vec![0; 65])),
        ("all ones", HIGH_S, Box::new(|_| vec![0xff; 65])),
        ("nothing", UNDEPLOYED, Box::new(|_| vec![])),
        ("a byte", UNDEPLOYED, Box::new(|_| vec![27])),
        ("without v", UNDEPLOYED, Box::new(|bytes| bytes[..64].to_vec())),
        (
            "EIP-2098",
            UNDEPLOYED,
            Box::new(|bytes| {
                let mut compact = bytes[..64].to_vec();
                compact[32] |= (bytes[64] - 27) << 7;
                compact
            }),
        ),
        ("a byte more", UNDEPLOYED, Box::new(|bytes| [&bytes[..], &[0]].concat())),
        ("twice", UNDEPLOYED, Box::new(|bytes| bytes.repeat(2))),
        ("300 bytes", UNDEPLOYED, Box::new(|bytes| [&bytes[..], &[0; 235]].concat())),
    ];
    for version in VERSIONS {
        for (case, code, change) in &cases {
            let payment = eoa(&cast, version, change).await;
            cast.bench.refused(&payment, code, &format!("{version:?} {case}")).await;
            assert!(!cast.executes(&payment).await, "{case}");
        }
    }
}

/// A contract may take signatures of any length; only the chain's own limits end that, and then it is the payment's
/// affair, never an outage.
#[tokio::test]
async fn a_long_signature_gets_a_verdict() {
    let cast = Cast::start().await;
    for (kind, refused) in [(Kind::Wallet, SIGNATURE), (Kind::Eoa, UNDEPLOYED)] {
        for length in [1_000, 4_000, 10_000, 30_000, 100_000] {
            let case = format!("{kind:?}, {length} bytes");
            let change = |signature: Bytes| [&signature[..], &vec![0xab; length - 65]].concat().into();
            let payment = cast.sign_as(kind, cast.bench.payment(X402Version::V2).await, None, change).await;
            if kind == Kind::Wallet && length <= 4_000 {
                assert!(cast.executes(&payment).await, "{case}");
                cast.bench.accepted(&payment, &case).await;
                continue;
            }
            for path in ["/verify", "/settle"] {
                let answer = cast.bench.client.post(path, payment.body(), &[]).await.unwrap();
                assert_eq!(answer.status, 200, "{case}: {path} {}", answer.text);
                if kind == Kind::Eoa {
                    let reason = if path == "/verify" { "invalidReason" } else { "errorReason" };
                    let code = answer.json[reason].as_str().unwrap_or_default();
                    assert!([refused, "invalid_payload"].contains(&code), "{case}: {}", answer.text);
                }
            }
        }
    }
}

/// Signatures of a key say nothing once its account has code, and those of a contract nothing once it has none.
#[tokio::test]
async fn the_code_at_the_payer_decides_at_every_request() {
    let cast = Cast::start().await;
    let bench = &cast.bench;
    let account = dev_signer(EOA).address();
    let payment = cast.sign(Kind::Eoa, bench.payment(X402Version::V2).await).await;
    assert!(cast.executes(&payment).await);
    // Delegated to a contract that knows no signatures.
    bench.chain.set_7702_code(account, bench.chain.token).await.unwrap();
    bench.refused(&payment, SIGNATURE, "delegated to a token").await;
    assert!(!cast.executes(&payment).await);
    // To nothing at all: still code, and nobody to ask.
    bench.chain.set_7702_code(account, dev_signer(9).address()).await.unwrap();
    bench.refused(&payment, SIGNATURE, "delegated to a key").await;
    assert!(!cast.executes(&payment).await);
    bench.anvil.set_code(account, &Bytes::new()).await.unwrap();
    assert!(cast.executes(&payment).await);
    bench.accepted(&payment, "delegation ended").await;
}
