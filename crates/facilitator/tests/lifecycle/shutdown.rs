//! SIGTERM: whoever waits is answered, whatever is on its way is written down.

use crate::support::{SEND, Setup, StoreKind, Told, told};
use quittance_testkit::harness::{Fault, Rule, process::Wait};
use std::time::Duration;

/// A few seconds.
const SOON: Duration = Duration::from_secs(8);

on_both_stores! {
    async fn stopped_with_settlements_in_flight(store) {
        let mut bench = Setup::new(store).no_mining().start().await;
        let payments = bench.payments(5).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        let twin = bench.settling(&payments[0]);
        bench.proxy.wait_answered(SEND, 5).await.unwrap();
        let stopped = tokio::time::timeout(SOON, bench.server.sigterm()).await.expect("a prompt end").unwrap();
        assert_eq!(stopped.code(), Some(0));
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await.unwrap().expect("an answer"));
        }
        let mut answers = told(&replies);
        // Which of the two was first is not known.
        answers.push(twin.await.unwrap().expect("an answer").told());
        let pending = answers.iter().filter(|answer| matches!(answer, Told::Pending(_))).count();
        assert_eq!(pending, 5, "{answers:?}");
        bench.server.restart(Wait::Ready).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        for payment in &payments {
            let hash = bench.settle(payment).await.success_of(payment);
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (5, 5));
    }

    /// Stopped in the middle of a burst: every caller hears something, and in the end each has one success.
    async fn stopped_in_a_burst(store) {
        let mut bench = Setup::new(store).block_time(1).start().await;
        let payments = bench.payments(40).await;
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        bench.proxy.wait_for(SEND, 15).await.unwrap();
        let stopped = tokio::time::timeout(SOON, bench.server.sigterm()).await.expect("a prompt end").unwrap();
        assert_eq!(stopped.code(), Some(0));
        bench.server.restart(Wait::Ready).await.unwrap();
        for (caller, payment) in callers.into_iter().zip(&payments) {
            let hash = caller.await.unwrap();
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (40, 40));
    }
}

/// The node does not answer the send: the end does not wait for it for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_the_node_is_silent() {
    let mut bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    let held = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
    let call = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    let stopped = tokio::time::timeout(SOON, bench.server.sigterm()).await.expect("a prompt end").unwrap();
    assert_eq!(stopped.code(), Some(0));
    let told = call.await.unwrap().expect("an answer").told();
    assert_eq!(told, Told::Pending(bench.sent()[0]));
    bench.proxy.remove(held);
    bench.server.restart(Wait::Ready).await.unwrap();
    let hash = bench.settle(&payment).await.success_of(&payment);
    assert_eq!(told, Told::Pending(hash));
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// Nothing is known of the payment, and nobody answers: the caller is told so before its connection is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_every_node_is_silent() {
    let mut bench = Setup::new(StoreKind::Sqlite).second_endpoint().start().await;
    let payments = bench.payments(2).await;
    for proxy in [Some(&bench.proxy), bench.second_proxy.as_ref()].into_iter().flatten() {
        proxy.add(Rule::any().then(Fault::Hang));
    }
    let settling = bench.settling(&payments[0]);
    let verifying = {
        let (client, body) = (bench.client.clone(), payments[1].body().clone());
        tokio::spawn(async move { client.verify(&body).await })
    };
    bench.proxy.wait_for("eth_call", 2).await.unwrap();
    let stopped = tokio::time::timeout(SOON, bench.server.sigterm()).await.expect("a prompt end").unwrap();
    assert_eq!(stopped.code(), Some(0));
    assert_eq!(settling.await.unwrap().expect("an answer").told(), Told::Unavailable);
    let (status, json) = verifying.await.unwrap().expect("an answer");
    assert_eq!((status, &json["invalidReason"]), (503, &"unexpected_verify_error".into()), "{json}");
    assert!(bench.sent().is_empty());
}

/// More than there is room for: those on their way are told their hash, those who wait for room that nothing was begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_with_callers_who_wait_for_room() {
    /// What one payer may have in one lane.
    const ROOM: usize = 128;
    const BEYOND: usize = 12;
    let mut bench = Setup::new(StoreKind::Postgres).no_mining().start().await;
    let builder = bench.builder().await;
    let payments: Vec<_> = (0..ROOM + BEYOND).map(|_| builder.sign()).collect();
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.until_known(u64::try_from(ROOM).unwrap()).await;
    let stopped = tokio::time::timeout(SOON, bench.server.sigterm()).await.expect("a prompt end").unwrap();
    assert_eq!(stopped.code(), Some(0));
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap().expect("an answer").told());
    }
    let count = |what: fn(&Told) -> bool| answers.iter().filter(|told| what(told)).count();
    assert_eq!(count(|told| matches!(told, Told::Pending(_))), ROOM, "{answers:?}");
    assert_eq!(count(|told| *told == Told::Unavailable), BEYOND, "{answers:?}");
    let rows = bench.database().number("SELECT count(*) FROM payments").await;
    assert_eq!(
        rows,
        i64::try_from(ROOM).unwrap(),
        "something was reserved for a caller who was told to come again"
    );
}

/// Nothing to do, a connection kept open: no reason to stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_idle() {
    let mut bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    let stopped =
        tokio::time::timeout(Duration::from_secs(5), bench.server.sigterm()).await.expect("a prompt end");
    assert_eq!(stopped.unwrap().code(), Some(0));
}
