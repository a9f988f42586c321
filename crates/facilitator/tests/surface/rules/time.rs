//! Chains whose time is not the wall clock's.

use super::cast::{Cast, EOA, Kind};
use crate::support::{BINARY, config, network, offline::VERSIONS, online::Online, shape};
use alloy_primitives::U256;
use quittance_testkit::{
    Anvil, DevChain, dev_address,
    harness::{QuittanceProcess, process::Wait},
    unix_now,
};

const BEFORE: &str = "invalid_exact_evm_payload_authorization_valid_before";
const AFTER: &str = "invalid_exact_evm_payload_authorization_valid_after";
const HOUR: u64 = 3600;

/// The chain runs ahead: what has closed there is closed, however long the wall clock gives it.
#[tokio::test]
async fn on_a_chain_that_runs_ahead_its_own_time_closes_the_window() {
    let cast = Cast::start().await;
    cast.bench.anvil.increase_time(HOUR).await.unwrap();
    cast.bench.anvil.mine(1).await.unwrap();
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let now = unix_now();
            let builder = cast.bench.payment(version).await.valid_after(0);
            let closed = cast.sign(kind, builder.clone().valid_before(now + HOUR / 2)).await;
            cast.bench.refused(&closed, BEFORE, &case).await;
            assert!(!cast.executes(&closed).await, "{case}");
            let open = cast.sign(kind, builder.clone().valid_before(now + 2 * HOUR)).await;
            cast.bench.accepted(&open, &case).await;
            // Open on the chain, and by the wall clock not yet: the stricter clock counts.
            let early =
                cast.sign(kind, builder.valid_after(now + HOUR / 2).valid_before(now + 2 * HOUR)).await;
            cast.bench.refused(&early, AFTER, &case).await;
        }
    }
}

/// The chain runs behind: what has not opened there is not open.
#[tokio::test]
async fn on_a_chain_that_runs_behind_its_own_time_opens_the_window() {
    let behind = Anvil::builder().timestamp(unix_now() - HOUR);
    let cast = Cast::on(Online::start_on(behind, |config| config, Wait::Ready).await).await;
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let now = unix_now();
            let builder = cast.bench.payment(version).await;
            let unopened = builder.clone().valid_after(now - HOUR / 2).valid_before(now + HOUR);
            let unopened = cast.sign(kind, unopened).await;
            cast.bench.refused(&unopened, AFTER, &case).await;
            assert!(!cast.executes(&unopened).await, "{case}");
            let open = cast.sign(kind, builder.clone().valid_after(0).valid_before(now + HOUR)).await;
            cast.bench.accepted(&open, &case).await;
            // Still open on the chain, and by the wall clock closed: the stricter clock counts.
            let closed = cast.sign(kind, builder.valid_after(0).valid_before(now - HOUR / 2)).await;
            cast.bench.refused(&closed, BEFORE, &case).await;
        }
    }
}

/// A fork is as old as the block it was taken at, until it mines its own.
#[tokio::test]
async fn a_fork_of_an_old_block_takes_payments() {
    let origin = Anvil::builder().timestamp(unix_now() - 2 * HOUR).spawn().await.unwrap();
    let chain = DevChain::deploy(&origin).await.unwrap();
    chain.mint(chain.token, dev_address(EOA), U256::from(1_000_000)).await.unwrap();
    let fork = Anvil::builder().fork_url(origin.url()).spawn().await.unwrap();
    let chain = chain.on(&fork);
    let server = QuittanceProcess::start(BINARY, config(network(fork.url()))).await.unwrap();
    let client = server.client().unwrap();
    for version in VERSIONS {
        // As a buyer with an ordinary clock signs it.
        let payment = chain.payment().await.unwrap().version(version);
        let payment = payment.valid_after(0).valid_before(unix_now() + 300).sign();
        let valid = client.post("/verify", payment.body(), &[]).await.unwrap();
        shape::valid(&valid, payment.payer(), "on a fork");
        let settled = client.post("/settle", payment.body(), &[]).await.unwrap();
        shape::settled(&settled, payment.payer(), payment.network(), "10000", "on a fork");
    }
    let held = chain.balance_of(chain.token, dev_address(EOA)).await.unwrap();
    assert_eq!(held, U256::from(1_000_000 - 20_000));
}

/// No block for a while, and a window that opened since the last one: the next block is what counts.
#[tokio::test]
async fn an_idle_chain_does_not_keep_a_window_closed() {
    const IDLE: u64 = 1000;
    let behind = Anvil::builder().timestamp(unix_now() - IDLE);
    let cast = Cast::on(Online::start_on(behind, |config| config, Wait::Ready).await).await;
    // From the next block on the chain is on time; the last one stays as old as it is.
    cast.bench.anvil.increase_time(IDLE).await.unwrap();
    let last = cast.bench.chain.client().block_timestamp().await.unwrap();
    assert!(last < unix_now() - IDLE / 2, "{last}");
    let now = unix_now();
    let builder = cast.bench.payment(quittance_testkit::X402Version::V2).await;
    let builder = builder.valid_after(now - IDLE / 4).valid_before(now + HOUR);
    let payment = builder.sign();
    let answer = cast.bench.client.post("/verify", payment.body(), &[]).await.unwrap();
    shape::valid(&answer, payment.payer(), "idle");
    let last = cast.bench.chain.client().block_timestamp().await.unwrap();
    assert!(last < unix_now() - IDLE / 2, "looking mines nothing");
    cast.bench.settles(&payment, "idle").await;
}
