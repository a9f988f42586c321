//! Contract payers whose `isValidSignature` does anything but answer.

use super::cast::{Cast, OWNER};
use crate::support::{Endpoint, offline::VERSIONS, shape};
use alloy_primitives::{Address, U256};
use quittance_testkit::{SignedPayment, X402Version, dev_signer};
use std::time::Duration;
use tokio::time::Instant;

const SIGNATURE: &str = "invalid_exact_evm_signature";
/// A hostile contract may cost this much and no more.
const PATIENCE: Duration = Duration::from_secs(15);

async fn wallet(cast: &Cast, name: &str) -> Address {
    let wallet = cast.bench.chain.deploy_contract(name, &[]).await.unwrap();
    cast.bench.chain.mint(cast.bench.chain.token, wallet, U256::from(1_000_000)).await.unwrap();
    wallet
}

async fn payment(cast: &Cast, wallet: Address, version: X402Version) -> SignedPayment {
    cast.bench.payment(version).await.wallet(wallet, dev_signer(OWNER)).sign()
}

#[tokio::test]
async fn a_wallet_that_does_not_say_yes_says_no() {
    let cast = Cast::start().await;
    for name in [
        "Wallet1271Rejecting",
        "Wallet1271Reverting",
        "Wallet1271GasBurner",
        "Wallet1271BadPadding",
        "Wallet1271Short",
    ] {
        let wallet = wallet(&cast, name).await;
        for version in VERSIONS {
            let short = payment(&cast, wallet, version).await;
            let long = payment(&cast, wallet, version).await;
            let signature = [&long.signature()[..], &[0; 235]].concat();
            let started = Instant::now();
            for payment in [short, long.clone().with_signature(signature), long.with_signature(vec![])] {
                let case = format!("{version:?} {name}, {} bytes", payment.signature().len());
                assert!(!cast.executes(&payment).await, "{case}");
                cast.bench.refused(&payment, SIGNATURE, &case).await;
            }
            assert!(started.elapsed() < PATIENCE, "{name} took {:?}", started.elapsed());
        }
    }
}

/// It says yes and sends a megabyte after it. Whether that is affordable is the token's affair; it is never an outage.
#[tokio::test]
async fn a_wallet_that_says_too_much_gets_a_verdict() {
    let cast = Cast::start().await;
    let wallet = wallet(&cast, "Wallet1271ReturnBomb").await;
    for version in VERSIONS {
        let payment = payment(&cast, wallet, version).await;
        let started = Instant::now();
        let answer = cast.bench.post(Endpoint::Verify, &payment).await;
        assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
        assert_eq!(answer.status, 200, "{}", answer.text);
        if answer.json["isValid"] == true {
            assert!(cast.executes(&payment).await);
            cast.bench.settles(&payment, "a megabyte").await;
        } else {
            let code = "invalid_exact_evm_transaction_simulation_failed";
            let (network, payer) = (payment.network(), Some(payment.payer()));
            shape::No { status: 200, code, network, payer }.check(Endpoint::Verify, &answer, "a megabyte");
            cast.bench.refused(&payment, code, "a megabyte").await;
        }
    }
}

/// A contract that is no wallet at all.
#[tokio::test]
async fn a_contract_without_the_function_cannot_pay() {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    for payer in [chain.token, chain.wallet_factory] {
        chain.mint(chain.token, payer, U256::from(1_000_000)).await.unwrap();
        for version in VERSIONS {
            let payment = payment(&cast, payer, version).await;
            assert!(!cast.executes(&payment).await, "{payer}");
            cast.bench.refused(&payment, SIGNATURE, &format!("{version:?} {payer}")).await;
        }
    }
}
