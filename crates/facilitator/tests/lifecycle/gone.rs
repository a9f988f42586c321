//! A caller that is gone when its answer has been recorded and is about to be written: it was told nothing.

use crate::support::{Bench, DEADLINE, Database, Paused, RawCall, Rows, Setup, StoreKind, Told, until};
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::SignedPayment;

/// The server stands still with the success recorded, and the caller it was for has hung up.
async fn hung_up_on(bench: &Bench, payment: &SignedPayment) -> Paused {
    let call = RawCall::settle(&bench.client, payment.body(), &[]).await;
    let frozen = Paused::by_itself(&bench.server).await;
    assert_eq!(Rows::of(bench).number(TOLD).await, 1);
    drop(call);
    frozen
}

const TOLD: &str = "SELECT count(*) FROM payments WHERE last_answer = 'success'";

/// Whoever asks next is told, and nobody after that.
async fn is_told_once(bench: &Bench, payment: &SignedPayment) {
    let hash = bench.settle(payment).await.success_of(payment);
    assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(payment, hash).await;
}

fn setup(store: StoreKind) -> Setup {
    Setup::new(store).first_start(VARIABLE, format!("{}:1:freeze", Point::AnswerBegun.as_str()))
}

on_both_stores! {
    /// What the process knew of the connection before it stood still says nothing of it now.
    async fn a_caller_that_hung_up_meanwhile_was_not_told(store) {
        let bench = setup(store).start().await;
        let payment = bench.payment().await;
        drop(hung_up_on(&bench, &payment).await);
        is_told_once(&bench, &payment).await;
    }
}

/// Until the store has failed to take it back, at least once.
async fn until_not_taken_back(bench: &Bench) {
    until("a try that fails", DEADLINE, || async {
        bench.server.log_text().contains("an answer lease ").then_some(())
    })
    .await;
}

/// The store is back, and has heard of it.
async fn until_taken_back(bench: &Bench) {
    let rows = Rows::of(bench);
    until("a success that is taken back", DEADLINE, || async {
        (rows.number(TOLD).await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taken_back_when_postgres_is_there_again() {
    let bench = setup(StoreKind::Postgres).database(Database::alone().await).start().await;
    let payment = bench.payment().await;
    let frozen = hung_up_on(&bench, &payment).await;
    bench.database().cluster.stop().await.unwrap();
    drop(frozen);
    until_not_taken_back(&bench).await;
    bench.database().cluster.resume().await.unwrap();
    until_taken_back(&bench).await;
    is_told_once(&bench, &payment).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taken_back_when_sqlite_can_be_written_again() {
    let bench = setup(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    let frozen = hung_up_on(&bench, &payment).await;
    let held = Rows::of(&bench).hold_writes().await;
    drop(frozen);
    until_not_taken_back(&bench).await;
    drop(held);
    until_taken_back(&bench).await;
    is_told_once(&bench, &payment).await;
}
