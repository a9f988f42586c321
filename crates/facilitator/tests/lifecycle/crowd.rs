//! Many callers at once.

use crate::support::{Bench, Setup, StoreKind, Told, told};
use quittance_testkit::SignedPayment;
use serde_json::json;
use std::time::Duration;

/// What one signer may have under way (docs/SETTLEMENT.md).
const OPEN_SLOTS_PER_LANE_MAX: usize = 256;

/// Waits nearly as long as its callers here do: a crowd on a busy machine is slow, and must not be told to come again.
fn patient(store: StoreKind) -> Setup {
    Setup::new(store).wait_seconds(80).set("server.request_timeout_ms", 85_000.into())
}

/// One caller has it, all others know who.
async fn assert_one_success(bench: &Bench, payment: &SignedPayment, answers: &[Told]) {
    let hashes: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Told::Success(hash) => Some(*hash),
            _ => None,
        })
        .collect();
    let [hash] = hashes[..] else { panic!("{} successes in {answers:?}", hashes.len()) };
    let others: Vec<_> = answers.iter().filter(|answer| !answer.is_success()).collect();
    assert!(others.iter().all(|answer| **answer == Told::Duplicate(hash)), "{others:?}");
    bench.assert_one_transaction_paid(payment, hash).await;
}

/// Everybody has theirs, in one gapless row of transactions.
async fn assert_all_settle(bench: &Bench, count: usize) {
    let payments = bench.payments(count).await;
    let replies = bench.settle_all(&payments).await;
    let late = told(&replies).into_iter().filter(|answer| !answer.is_success()).collect::<Vec<_>>();
    assert_eq!(late, [], "{} of {count}; {} mined", late.len(), bench.mined().await);
    for (reply, payment) in replies.iter().zip(&payments) {
        reply.success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
    let count = u64::try_from(count).unwrap();
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (count, count));
}

on_both_stores! {
    async fn fifty_callers_with_one_payment(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let replies = bench.settle_all(&vec![payment.clone(); 50]).await;
        assert_one_success(&bench, &payment, &told(&replies)).await;
    }

    async fn fifty_callers_with_one_verified_payment_and_slow_blocks(store) {
        let bench = patient(store).block_time(1).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let replies = bench.settle_all(&vec![payment.clone(); 50]).await;
        assert_one_success(&bench, &payment, &told(&replies)).await;
    }

    async fn a_hundred_payments_on_one_signer(store) {
        let bench = patient(store).start().await;
        assert_all_settle(&bench, 100).await;
    }

    async fn two_hundred_payments_with_blocks_of_one_second(store) {
        let bench = patient(store).block_time(1).start().await;
        assert_all_settle(&bench, 200).await;
    }

    async fn two_hundred_payments_with_blocks_of_five_seconds(store) {
        let bench = patient(store).block_time(5).start().await;
        assert_all_settle(&bench, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_payments_on_four_signers() {
    let bench = patient(StoreKind::Sqlite).block_time(1).signers(4).start().await;
    assert_all_settle(&bench, 100).await;
    let mut nonces = Vec::new();
    for signer in &bench.signers {
        nonces.push(bench.anvil.nonce(*signer, false).await.unwrap());
    }
    // A quarter each, but for blocks that come while the crowd is being signed for.
    assert!(nonces.iter().all(|nonce| (15..=35).contains(nonce)), "{nonces:?}");
}

/// Ten of each, all at once: whoever asks second is told so, and nobody is told to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_callers_with_each_of_ten_payments() {
    let bench = Setup::new(StoreKind::Sqlite).block_time(1).start().await;
    let payments = bench.payments(10).await;
    let calls: Vec<_> = payments.iter().cycle().take(100).cloned().collect();
    let answers = told(&bench.settle_all(&calls).await);
    for (index, _) in payments.iter().enumerate() {
        let of_one: Vec<_> = answers.iter().skip(index).step_by(10).collect();
        assert_eq!(of_one.iter().filter(|answer| answer.is_success()).count(), 1, "{of_one:?}");
        assert_eq!(
            of_one.iter().filter(|answer| matches!(answer, Told::Duplicate(_))).count(),
            9,
            "{of_one:?}"
        );
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 10);
}

/// A crowd that waits for a block costs the database little, so that it is free for what happens when the block comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_crowd_is_cheap() {
    const CROWD: usize = 100;
    const WAIT: Duration = Duration::from_secs(4);
    let bench = patient(StoreKind::Postgres).no_mining().start().await;
    let payments = bench.payments(CROWD).await;
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.until_known(u64::try_from(CROWD).unwrap()).await;
    let written = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'payments'";
    let asked = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before = (bench.database().number(written).await, bench.database().number(asked).await);
    tokio::time::sleep(WAIT).await;
    let after = (bench.database().number(written).await, bench.database().number(asked).await);
    let each = |before: i64, after: i64| (after - before) / i64::try_from(CROWD).unwrap();
    let (writes, transactions) = (each(before.0, after.0), each(before.1, after.1));
    println!("{writes} writes and {transactions} transactions for each caller in {WAIT:?}");
    bench.anvil.mine(1).await.unwrap();
    let begun = tokio::time::Instant::now();
    for (call, payment) in calls.into_iter().zip(&payments) {
        call.await.unwrap().unwrap().success_of(payment);
    }
    println!("{:?} from the block to the last answer", begun.elapsed());
    assert!(writes <= 1, "{writes} writes for each caller in {WAIT:?}");
    assert!(transactions <= 12, "{transactions} transactions for each caller in {WAIT:?}");
}

/// How many payments one block takes from so many signers, whatever their number and the block's own limit.
async fn settled_in_one_block(signers: usize) -> u64 {
    let bench = patient(StoreKind::Sqlite).no_mining().signers(signers).start().await;
    bench.anvil.rpc("evm_setBlockGasLimit", json!(["0x3b9aca00"])).await.unwrap();
    let full = OPEN_SLOTS_PER_LANE_MAX * signers;
    let payments = bench.payments(full + 50).await;
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.until_known(u64::try_from(full).unwrap()).await;
    bench.anvil.mine(1).await.unwrap();
    let mined = bench.mined().await;
    for call in calls {
        call.abort();
    }
    mined
}

/// Throughput grows with the signers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_signers_settle_as_much_in_a_block_as_four_servers_of_one() {
    let (one, four) = (settled_in_one_block(1).await, settled_in_one_block(4).await);
    println!("{one} payments in a block with one signer, {four} with four");
    assert!(2 * four >= 7 * one, "{one} payments in a block with one signer, {four} with four");
}
