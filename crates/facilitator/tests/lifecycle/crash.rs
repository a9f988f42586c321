//! `kill -9` at every step of a settlement, and a restart: one transfer, and its success told once.

use crate::support::{Bench, Metrics, RECEIPT, SEND, Setup, StoreKind, Told, USED, seek};
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule, process::Wait},
};
use std::{
    net::TcpStream,
    sync::{Arc, OnceLock},
};

/// The next identical call gets the success, the one after it does not.
async fn assert_success_waits(bench: &Bench, payment: &SignedPayment) {
    let hash = bench.settle(payment).await.success_of(payment);
    assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(payment, hash).await;
}

/// Paid, and the process is gone before it has seen it.
async fn killed_with_the_receipt_unread(store: StoreKind) -> (Bench, SignedPayment) {
    let mut bench = Setup::new(store).start().await;
    let payment = bench.payment().await;
    let held = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Hang));
    let call = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    bench.proxy.wait_for(RECEIPT, 1).await.unwrap();
    bench.server.kill9();
    bench.proxy.remove(held);
    assert_eq!(call.await.unwrap(), None);
    assert!(bench.is_used(&payment).await);
    (bench, payment)
}

on_both_stores! {
    async fn killed_between_verify_and_settle(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        bench.crash_and_restart().await;
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        assert_success_waits(&bench, &payment).await;
    }

    /// The bytes are stored, and the node has never seen them.
    async fn killed_before_the_send_arrived(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let held = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        bench.server.kill9();
        bench.proxy.remove(held);
        assert_eq!(call.await.unwrap(), None);
        assert_eq!(bench.known_to_the_node().await, 0);
        bench.crash_and_restart().await;
        assert_success_waits(&bench, &payment).await;
        let sent = bench.sent();
        assert!(sent.len() >= 2 && sent.iter().all(|hash| *hash == sent[0]), "other bytes were sent: {sent:?}");
    }

    /// The node has the bytes, and nobody knows.
    async fn killed_before_the_send_was_answered(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let held = bench.proxy.add(Rule::on(SEND).then(Fault::held_answer()));
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.server.kill9();
        bench.proxy.remove(held);
        assert_eq!(call.await.unwrap(), None);
        bench.crash_and_restart().await;
        assert_success_waits(&bench, &payment).await;
    }

    async fn killed_while_waiting_for_the_block(store) {
        let mut bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.proxy.wait_for(RECEIPT, 1).await.unwrap();
        bench.crash_and_restart().await;
        assert_eq!(call.await.unwrap(), None);
        assert_eq!(bench.row(&payment).await["status"], "signed");
        let again = bench.settling(&payment);
        bench.anvil.mine(1).await.unwrap();
        let hash = again.await.unwrap().unwrap().success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    async fn killed_before_the_receipt_was_read(store) {
        let (mut bench, payment) = killed_with_the_receipt_unread(store).await;
        bench.crash_and_restart().await;
        assert_success_waits(&bench, &payment).await;
    }

    /// Nobody asks again: the restart alone brings it to its end.
    async fn killed_and_nobody_comes_back(store) {
        let mut bench = Setup::new(store).start().await;
        let payments = bench.payments(5).await;
        let held = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 5).await.unwrap();
        bench.server.kill9();
        bench.proxy.remove(held);
        for call in calls {
            assert_eq!(call.await.unwrap(), None);
        }
        bench.crash_and_restart().await;
        for payment in &payments {
            bench.until_status(payment, "settled").await;
        }
        Metrics::until_counted(&bench, &[("recoveries", 5), ("settlements status=settled", 5)]).await;
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined().await, 5);
    }

    async fn killed_right_after_the_answer(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.server.kill9();
        bench.crash_and_restart().await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_both_stores! {
    /// Killed at no particular moment, with callers that never give up.
    async fn killed_again_and_again(store) {
        let mut bench = Setup::new(store).block_time(1).start().await;
        let payments = bench.payments(30).await;
        let callers: Vec<_> = payments
            .iter()
            .map(|payment| {
                let (client, body) = ([bench.client.clone()], payment.body().clone());
                tokio::spawn(async move { seek(&client, &body, 0).await })
            })
            .collect();
        for kill in 1..=4 {
            bench.proxy.wait_for(SEND, kill * 6).await.unwrap();
            bench.crash_and_restart().await;
        }
        for (caller, payment) in callers.into_iter().zip(&payments) {
            let found = caller.await.unwrap();
            let hash = match found.told {
                Told::Success(hash) => hash,
                // A success that was recorded, and ended before it was written, counts as told (docs/adr/0008).
                Told::Duplicate(hash) if found.cut_off > 0 => hash,
                _ => panic!("{found:?}"),
            };
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (30, 30));
    }
}

/// What an earlier process left is looked after while nobody is let in: who asks first sees what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovered_before_the_listener_opens() {
    let (mut bench, payment) = killed_with_the_receipt_unread(StoreKind::Sqlite).await;

    // At the very moment in which the next process asks what became of it.
    let lets_in = Arc::new(OnceLock::new());
    let (seen, address) = (lets_in.clone(), bench.client.base().trim_start_matches("http://").to_owned());
    let looking = move |_: &_| {
        seen.get_or_init(|| TcpStream::connect(&address).is_ok());
        false
    };
    bench.proxy.add(Rule::on(RECEIPT).when(looking));
    bench.server.restart(Wait::Healthy).await.unwrap();
    assert_eq!(bench.row(&payment).await["status"], "settled");
    assert_eq!(lets_in.get(), Some(&false), "somebody could come in while it recovered");
    assert_success_waits(&bench, &payment).await;
}
