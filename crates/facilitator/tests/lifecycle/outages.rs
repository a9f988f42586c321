//! The node or the database goes away in the middle.

use crate::support::{
    Bench, DEADLINE, Database, Metrics, RECEIPT, Rows, SEND, Setup, StoreKind, Told, told, until,
};
use alloy_primitives::B256;
use quittance_testkit::{
    Anvil, SignedPayment,
    harness::{Fault, QuittanceProcess, Rule, process::Wait},
};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Every caller has its one success, every payment its one transfer, and nothing is left over.
async fn assert_all_told_once(bench: &Bench, callers: Vec<JoinHandle<B256>>, payments: &[SignedPayment]) {
    for (caller, payment) in callers.into_iter().zip(payments) {
        let hash = caller.await.unwrap();
        assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    }
    bench.assert_paid_once(payments).await;
    let count = u64::try_from(payments.len()).unwrap();
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (count, count));
}

/// PostgreSQL is stopped for five seconds with settlements in every state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_down_for_five_seconds() {
    let database = Database::alone().await;
    let bench = Setup::new(StoreKind::Postgres).database(database).block_time(1).start().await;
    let payments = bench.payments(40).await;
    let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
    bench.proxy.wait_for(SEND, 15).await.unwrap();
    bench.database().cluster.stop().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    until_the_keeper_fails(&bench).await;
    bench.database().cluster.resume().await.unwrap();
    assert_all_told_once(&bench, callers, &payments).await;
}

/// Whoever looks at the metrics sees it.
async fn until_the_keeper_fails(bench: &Bench) {
    until("a pass of the keeper that fails", DEADLINE, || async {
        (Metrics::read(bench).await.count("keeper_failures") > 0).then_some(())
    })
    .await;
}

/// The database is there again and again and gone again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_restarted_again_and_again() {
    let database = Database::alone().await;
    let bench = Setup::new(StoreKind::Postgres).database(database).block_time(1).start().await;
    let payments = bench.payments(40).await;
    let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
    for sends in [5, 15, 25, 35] {
        bench.proxy.wait_for(SEND, sends).await.unwrap();
        bench.database().cluster.stop().await.unwrap();
        bench.database().cluster.resume().await.unwrap();
    }
    assert_all_told_once(&bench, callers, &payments).await;
}

/// A tool beside the server writes to its SQLite file, and takes longer over it than a write waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_writes_for_longer_than_a_write_waits() {
    let bench = Setup::new(StoreKind::Sqlite).block_time(1).start().await;
    let payments = bench.payments(40).await;
    let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
    bench.proxy.wait_for(SEND, 15).await.unwrap();
    let held = Rows::of(&bench).hold_writes().await;
    until_the_keeper_fails(&bench).await;
    drop(held);
    assert_all_told_once(&bench, callers, &payments).await;
}

on_both_stores! {
    /// Whatever it was to write. Where a count would be rolled back with the write, it is one in seven, by the dice.
    async fn every_seventh_write_fails(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        let rows = Rows::of(&bench);
        rows.fail_some_writes().await;
        let payments = bench.payments(6).await;
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        let mut hashes = Vec::new();
        for caller in callers {
            hashes.push(caller.await.unwrap());
        }
        rows.fail_no_more().await;
        let answers = told(&bench.settle_all(&payments).await);
        assert_eq!(answers, hashes.into_iter().map(Told::Duplicate).collect::<Vec<_>>());
        for payment in &payments {
            bench.until_status(payment, "settled").await;
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (6, 6));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_down_is_no_verdict() {
    let database = Database::alone().await;
    let bench = Setup::new(StoreKind::Postgres).database(database).start().await;
    let payment = bench.payment().await;
    bench.database().cluster.stop().await.unwrap();
    let answer = bench.client.settle_with(payment.body(), &[]).await.unwrap();
    assert_eq!((answer.status, answer.json["errorReason"].as_str()), (503, Some("unexpected_settle_error")));
    assert!(answer.retry_after_seconds().is_some());
    let answer = bench.client.post("/verify", payment.body(), &[]).await.unwrap();
    assert_eq!(
        (answer.status, answer.json["invalidReason"].as_str()),
        (503, Some("unexpected_verify_error"))
    );
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 503);
    assert!(bench.sent().is_empty());
    bench.database().cluster.resume().await.unwrap();
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
}

on_both_stores! {
    /// The node is away for three seconds, with transactions in it.
    async fn node_down_in_the_middle(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        let payments = bench.payments(20).await;
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        bench.proxy.wait_for(SEND, 8).await.unwrap();
        bench.proxy.down(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        bench.proxy.down(false);
        assert_all_told_once(&bench, callers, &payments).await;
    }
}

on_both_stores! {
    /// An endpoint behind which there is now a node that has not heard of the last blocks.
    async fn node_replaced_by_a_stale_one(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let stale = Anvil::builder().fork_url(bench.anvil.url()).no_mining().spawn().await.unwrap();
        let payments = bench.payments(3).await;
        let held = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Drop));
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        bench.until_known(3).await;
        let sends = bench.proxy.count_answered(SEND);
        bench.anvil.mine(1).await.unwrap();
        bench.proxy.set_upstream(stale.url());
        bench.proxy.remove(held);
        // It is asked for the receipts, has none, and is given the bytes again.
        bench.proxy.wait_answered(SEND, sends + 1).await.unwrap();
        assert_eq!(bench.row(&payments[0]).await["status"], "signed");
        bench.proxy.set_upstream(bench.anvil.url());
        assert_all_told_once(&bench, callers, &payments).await;
    }
}

/// The node that takes the bytes knows more than the one that is asked for receipts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_lag_behind_the_nonce() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    // No receipt for eight seconds, while the transaction count has long moved.
    let hidden = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Answer(serde_json::Value::Null)));
    let caller = bench.insisting(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    bench.proxy.remove(hidden);
    assert_all_told_once(&bench, vec![caller], &[payment]).await;
}

/// One SQLite file, one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_process_on_one_file() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let file = bench.server.dir().join("quittance.db");
    let config =
        bench.config.clone().on_other_ports().unwrap().store_url(format!("sqlite://{}", file.display()));
    let mut second =
        QuittanceProcess::start_until(env!("CARGO_BIN_EXE_quittance"), config, Wait::Nothing).await.unwrap();
    let status = second.exit(Duration::from_secs(20)).await.unwrap();
    assert!(!status.success());
    assert!(second.log_text().contains("another process"), "{}", second.log_text());
    let payment = bench.payment().await;
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// The preferred endpoint dies with the transactions in it; the other one knows the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_endpoint_dies_in_the_middle() {
    let bench = Setup::new(StoreKind::Sqlite).second_endpoint().block_time(1).start().await;
    let payments = bench.payments(20).await;
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.proxy.wait_for(SEND, 8).await.unwrap();
    bench.proxy.down(true);
    for (call, payment) in calls.into_iter().zip(&payments) {
        call.await.unwrap().unwrap().success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 20);
}

/// The preferred endpoint takes everything, answers nothing right, and has never heard of anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_endpoint_forgets_what_it_takes() {
    let bench = Setup::new(StoreKind::Sqlite).second_endpoint().block_time(1).start().await;
    bench.proxy.add(Rule::on(RECEIPT).then(Fault::Answer(serde_json::Value::Null)));
    bench.proxy.add(Rule::on(SEND).then(Fault::ForwardThen(Box::new(Fault::HttpStatus(502)))));
    let payments = bench.payments(5).await;
    for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
        reply.success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 5);
    assert!(
        bench.second_proxy.as_ref().unwrap().count(SEND) >= 5,
        "on doubt, the other one is given the bytes too"
    );
}
