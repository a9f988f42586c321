//! Each of the five rules, for every kind of payer in both versions.

use super::cast::{Cast, DELEGATED, EOA, Kind, OWNER, STRANGER};
use crate::support::{Endpoint, offline::VERSIONS, shape};
use alloy_primitives::U256;
use quittance_testkit::{
    PaymentBuilder, SignedPayment, X402Version, dev_signer, payment::high_s_twin, unix_now,
};

const VALUE: [&str; 2] =
    ["invalid_exact_evm_authorization_value", "invalid_exact_evm_payload_authorization_value_mismatch"];
const RECIPIENT: &str = "invalid_exact_evm_recipient_mismatch";
const BEFORE: &str = "invalid_exact_evm_payload_authorization_valid_before";
const AFTER: &str = "invalid_exact_evm_payload_authorization_valid_after";
const SIGNATURE: &str = "invalid_exact_evm_signature";
const HIGH_S: &str = "invalid_exact_evm_non_canonical_signature";
const USED: &str = "invalid_exact_evm_nonce_already_used";

/// What the chain makes of a refused payment that is sent all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    Reverts,
    /// It would execute: refused because it is not what was asked for, or because it soon will not.
    Executes,
}

fn value_code(version: X402Version) -> &'static str {
    match version {
        X402Version::V1 => VALUE[0],
        X402Version::V2 => VALUE[1],
    }
}

/// An undeployed wallet cannot be a witness: sent alone, every payment of it reverts.
async fn witnessed(cast: &Cast, kind: Kind, payment: &SignedPayment, chain: Chain, case: &str) {
    if kind != Kind::Undeployed {
        assert_eq!(cast.executes(payment).await, chain == Chain::Executes, "{case}");
    }
}

#[tokio::test]
async fn a_good_payment_of_every_kind_is_accepted_and_executes() {
    let cast = Cast::start().await;
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let payment = cast.sign(kind, cast.bench.payment(version).await).await;
            witnessed(&cast, kind, &payment, Chain::Executes, &case).await;
            cast.bench.accepted(&payment, &case).await;
            assert!(!cast.executes(&payment).await, "{case}: the nonce is used");
        }
    }
}

/// Rule 1, for a payer without code; a contract may take whatever it likes.
#[tokio::test]
async fn rule_1_a_high_s_signature_of_a_key_is_refused() {
    let cast = Cast::start().await;
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let builder = cast.bench.payment(version).await;
            let twin = cast.sign_as(kind, builder, None, |signature| high_s_twin(&signature).unwrap()).await;
            if kind == Kind::Eoa {
                cast.bench.refused(&twin, HIGH_S, &case).await;
                assert!(!cast.executes(&twin).await, "{case}");
            } else {
                witnessed(&cast, kind, &twin, Chain::Executes, &case).await;
                cast.bench.accepted(&twin, &case).await;
            }
        }
    }
}

/// Rule 2.
#[tokio::test]
async fn rule_2_a_signature_of_somebody_else_or_of_something_else_is_refused() {
    let cast = Cast::start().await;
    let elsewhere = cast.bench.chain.deploy_token("FiatToken").await.unwrap();
    type Change = fn(PaymentBuilder, alloy_primitives::Address) -> PaymentBuilder;
    let changes: [(&str, Option<usize>, Change); 3] = [
        ("a stranger's key", Some(STRANGER), |builder, _| builder),
        ("for another chain", None, |builder, _| builder.domain_chain_id(1)),
        ("for another token", None, |builder, token| builder.domain_contract(token)),
    ];
    for version in VERSIONS {
        for kind in Kind::ALL {
            for (what, key, change) in changes {
                let case = format!("{version:?} {kind:?} {what}");
                let builder = change(cast.bench.payment(version).await, elsewhere);
                let payment = cast.sign_as(kind, builder, key, |signature| signature).await;
                cast.bench.refused(&payment, SIGNATURE, &case).await;
                witnessed(&cast, kind, &payment, Chain::Reverts, &case).await;
            }
            // Signed for other terms than those that are sent.
            let case = format!("{version:?} {kind:?} other terms");
            let payment = cast.sign(kind, cast.bench.payment(version).await).await;
            let nonce = format!("0x{}", "77".repeat(32));
            let changed =
                payment.clone().with_value("/paymentPayload/payload/authorization/nonce", nonce.into());
            for endpoint in Endpoint::BOTH {
                let answer = cast.bench.post(endpoint, &changed).await;
                let (network, payer) = (payment.network(), Some(payment.payer()));
                shape::No { status: 200, code: SIGNATURE, network, payer }.check(endpoint, &answer, &case);
            }
        }
    }
    // The owner of a wallet is not the wallet, and the wallet's signature is not its owner's.
    let owner = dev_signer(OWNER);
    for payer in [dev_signer(EOA).address(), dev_signer(DELEGATED).address()] {
        let builder = cast.bench.payment(X402Version::V2).await.wallet(payer, owner.clone());
        cast.bench.refused(&builder.sign(), SIGNATURE, "the owner's, for another").await;
    }
}

/// Rule 3, each side and the margin.
#[tokio::test]
async fn rule_3_a_window_that_is_not_open_long_enough_is_refused() {
    let cast = Cast::start().await;
    for version in VERSIONS {
        for kind in Kind::ALL {
            let now = unix_now();
            for (what, after, before, code, chain) in [
                ("closed long ago", 0, 1, BEFORE, Chain::Reverts),
                ("closed a while ago", 0, now - 120, BEFORE, Chain::Reverts),
                ("closed a second ago", 0, now - 1, BEFORE, Chain::Executes),
                ("closes within the margin", 0, now + 4, BEFORE, Chain::Executes),
                ("opens in a while", now + 120, now + 600, AFTER, Chain::Reverts),
                ("closes before it opens", now + 600, now + 120, AFTER, Chain::Reverts),
                ("is empty", now + 60, now + 60, AFTER, Chain::Reverts),
            ] {
                let case = format!("{version:?} {kind:?} {what}");
                let builder = cast.bench.payment(version).await.valid_after(after).valid_before(before);
                let payment = cast.sign(kind, builder).await;
                cast.bench.refused(&payment, code, &case).await;
                // Around the end the clock decides, and the chain's is not the wall's to the second.
                if chain == Chain::Reverts {
                    witnessed(&cast, kind, &payment, chain, &case).await;
                }
            }
        }
    }
}

/// Rule 4, and the recipient.
#[tokio::test]
async fn rule_4_another_amount_or_another_recipient_is_refused() {
    let cast = Cast::start().await;
    let somebody = dev_signer(STRANGER).address();
    for version in VERSIONS {
        for kind in Kind::ALL {
            for (what, asked, signed) in [
                ("more", 100_u64, 101_u64),
                ("less", 100, 99),
                ("nothing", 100, 0),
                ("something for nothing", 0, 1),
            ] {
                let case = format!("{version:?} {kind:?} {what}");
                let builder = cast.bench.payment(version).await.amount(asked).value(signed);
                let payment = cast.sign(kind, builder).await;
                cast.bench.refused(&payment, value_code(version), &case).await;
                witnessed(&cast, kind, &payment, Chain::Executes, &case).await;
            }
            let case = format!("{version:?} {kind:?} to another");
            let builder = cast.bench.payment(version).await.recipient(somebody);
            let payment = cast.sign(kind, builder).await;
            cast.bench.refused(&payment, RECIPIENT, &case).await;
            witnessed(&cast, kind, &payment, Chain::Executes, &case).await;
        }
    }
}

/// Rule 5, the chain's half: used and canceled nonces.
#[tokio::test]
async fn rule_5_a_nonce_that_is_used_or_canceled_on_chain_is_refused() {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    for version in VERSIONS {
        // An undeployed wallet has used no nonce yet.
        for kind in [Kind::Eoa, Kind::Wallet, Kind::LongWallet, Kind::Delegated] {
            let case = format!("{version:?} {kind:?}");
            let used = cast.sign(kind, cast.bench.payment(version).await).await;
            assert!(chain.settle_elsewhere(&used).await.unwrap().success, "{case}");
            cast.bench.refused(&used, USED, &format!("{case} used")).await;
            assert!(!cast.executes(&used).await, "{case}");
            // Another payment under the same nonce.
            let builder = cast.bench.payment(version).await.nonce(used.nonce()).amount(1);
            let other = cast.sign(kind, builder).await;
            cast.bench.refused(&other, USED, &format!("{case} used for another payment")).await;
            assert!(!cast.executes(&other).await, "{case}");

            let canceled = cast.sign(kind, cast.bench.payment(version).await).await;
            assert!(chain.cancel_authorization(&canceled).await.unwrap().success, "{case}");
            cast.bench.refused(&canceled, USED, &format!("{case} canceled")).await;
            assert!(!cast.executes(&canceled).await, "{case}");
        }
    }
}

/// Rule 5, the server's half: what it has accepted is pending, for this payer and this token alone.
#[tokio::test]
async fn rule_5_a_nonce_that_is_pending_is_refused() {
    let cast = Cast::start().await;
    let bench = &cast.bench;
    let token = bench.chain.deploy_token("FiatToken").await.unwrap();
    cast.fund(token).await;
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let first = cast.sign(kind, bench.payment(version).await).await;
            shape::valid(&bench.post(Endpoint::Verify, &first).await, first.payer(), &case);
            let no =
                shape::No { status: 200, code: USED, network: first.network(), payer: Some(first.payer()) };
            no.check(Endpoint::Verify, &bench.post(Endpoint::Verify, &first).await, &case);
            if kind == Kind::Undeployed {
                // Its payer is one of its own every time.
                bench.settles(&first, &case).await;
                continue;
            }
            let builder = bench.payment(version).await.nonce(first.nonce());
            let other = cast.sign(kind, builder.clone().amount(1)).await;
            for endpoint in Endpoint::BOTH {
                let answer = bench.post(endpoint, &other).await;
                assert_eq!(bench.rows(&other).await.len(), 1, "{case}");
                no.check(endpoint, &answer, &format!("{case} another under its nonce"));
            }
            // The same in the other version is the same payment.
            let rewritten = VERSIONS.into_iter().find(|other| *other != version).unwrap();
            let same = bench.payment(rewritten).await.nonce(first.nonce());
            let same = same.valid_after(first.valid_after()).valid_before(first.valid_before());
            let same = cast.sign(kind, same).await;
            assert_eq!(bench.post(Endpoint::Verify, &same).await.json["invalidReason"], USED, "{case}");
            // Another payer's nonce, and another token's, are others.
            let payer = builder.clone().payer(dev_signer(OWNER)).sign();
            bench.chain.mint(payer.asset(), payer.payer(), U256::from(10_000)).await.unwrap();
            bench.accepted(&payer, &format!("{case} another payer")).await;
            let elsewhere = cast.sign(kind, builder.asset(token)).await;
            bench.accepted(&elsewhere, &format!("{case} another token")).await;
            bench.settles(&first, &case).await;
        }
    }
}

/// What is asked for is what the requirements say; what the payload calls accepted may differ in words, not in kind.
#[tokio::test]
async fn terms_that_were_changed_after_signing_are_refused() {
    let cast = Cast::start().await;
    let bench = &cast.bench;
    let other_token = bench.chain.deploy_token("FiatToken").await.unwrap();
    cast.fund(other_token).await;
    let somebody = dev_signer(STRANGER).address().to_string();
    let other_token = other_token.to_string();
    for kind in Kind::ALL {
        for (field, value, code) in [
            ("payTo", somebody.as_str(), RECIPIENT),
            ("asset", other_token.as_str(), SIGNATURE),
            ("amount", "10001", VALUE[1]),
            ("amount", "0", VALUE[1]),
            ("network", "eip155:8453", "invalid_network"),
            ("scheme", "upto", "unsupported_scheme"),
        ] {
            let payment = cast.sign(kind, bench.payment(X402Version::V2).await).await;
            let case = format!("{kind:?} {field} {value}");
            // Money is not what is missing there.
            bench
                .chain
                .mint(other_token.parse().unwrap(), payment.payer(), U256::from(10_000))
                .await
                .unwrap();
            let changed = payment.clone().with_value(&format!("/paymentRequirements/{field}"), value.into());
            for endpoint in Endpoint::BOTH {
                let answer = bench.post(endpoint, &changed).await;
                let (network, payer) = (changed.network(), Some(payment.payer()));
                shape::No { status: 200, code, network, payer }.check(endpoint, &answer, &case);
            }
            let accepted =
                payment.clone().with_value(&format!("/paymentPayload/accepted/{field}"), value.into());
            match field {
                "network" => bench.refused(&accepted, "invalid_exact_evm_network_mismatch", &case).await,
                "scheme" => bench.refused(&accepted, "invalid_exact_evm_scheme", &case).await,
                // Redundant with what is signed, and sellers that build their own bodies leave it behind.
                _ => bench.accepted(&accepted, &case).await,
            }
        }
    }
}
