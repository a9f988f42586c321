//! `settle.accept_settled_elsewhere`: what somebody else's transaction has paid is a success, told as any other.

use crate::support::{
    Bench, DEADLINE, Metrics, RawCall, Reply, SEND, Setup, StoreKind, Told, USED, another_replica, settle,
    told, unix_now, until,
};
use alloy_primitives::B256;
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::json;

const ACCEPT: &str = "settle.accept_settled_elsewhere";

fn accepting(store: StoreKind) -> Setup {
    Setup::new(store).set(ACCEPT, true.into())
}

/// Verified here, executed by somebody else.
async fn promised_and_taken(bench: &Bench) -> (SignedPayment, B256) {
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
    assert!(theirs.success);
    (payment, theirs.transaction)
}

fn assert_news(reply: &Reply, replay: &str) {
    let extra = &reply.json["extra"];
    assert_eq!(
        (&extra["status"], &extra["replay"]),
        (&json!("settled_elsewhere"), &json!(replay)),
        "{reply:?}"
    );
}

/// The row, and the money, and nothing of ours.
async fn assert_theirs(bench: &Bench, payment: &SignedPayment, theirs: B256) {
    let row = bench.row(payment).await;
    assert_eq!(
        (&row["status"], &row["transaction"]),
        (&json!("settled_elsewhere"), &json!(theirs.to_string()))
    );
    let transfers = bench.transfers().await;
    let of_it = transfers.iter().filter(|transfer| transfer.transaction == theirs);
    assert_eq!(of_it.count(), 1);
    bench.assert_executed_by(&[(payment, theirs)]).await;
}

on_both_stores! {
    async fn after_verify(store) {
        let mut bench = accepting(store).start().await;
        let (payment, theirs) = promised_and_taken(&bench).await;
        let success = bench.settle(&payment).await;
        assert_eq!(success.success_of(&payment), theirs);
        assert_news(&success, "first");
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        bench.crash_and_restart().await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));
        assert_theirs(&bench, &payment, theirs).await;
        assert_eq!((bench.transfers().await.len(), bench.sent().len()), (1, 0));
    }

    /// Of all that ask at once, one has it.
    async fn twins(store) {
        let bench = accepting(store).start().await;
        let (payment, theirs) = promised_and_taken(&bench).await;
        let mut answers = told(&bench.settle_all(&vec![payment.clone(); 10]).await);
        answers.sort_by_key(Told::is_success);
        let success = answers.pop();
        assert_eq!(success, Some(Told::Success(theirs)));
        assert_eq!(answers, vec![Told::Duplicate(theirs); 9]);
        Metrics::until_counted(
            &bench,
            &[("deliveries said=success", 1), ("settlements status=settled_elsewhere", 1)],
        )
        .await;
        assert_theirs(&bench, &payment, theirs).await;
    }

    /// Ours is on its way, and then mined in vain.
    async fn while_ours_was_on_its_way(store) {
        let bench = accepting(store).no_mining().start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let calls = [bench.settling(&payment), bench.settling(&payment)];
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap().transaction;
        bench.anvil.set_interval_mining(1).await.unwrap();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await.unwrap().unwrap().told());
        }
        answers.sort_by_key(Told::is_success);
        assert_eq!(answers, [Told::Duplicate(theirs), Told::Success(theirs)]);
        assert_theirs(&bench, &payment, theirs).await;
        assert_eq!((bench.mined().await, bench.transfers().await.len()), (1, 1), "ours was to revert");
    }

    /// Told to ask again, with our own transaction; and the next caller hangs up.
    async fn after_pending_and_a_hang_up(store) {
        let bench = accepting(store).no_mining().wait_seconds(2).start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let Told::Pending(ours) = bench.settle(&payment).await.told() else { panic!("it is not mined") };
        let call = RawCall::settle_and_more(&bench.client, payment.body()).await;
        drop(call);
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap().transaction;
        assert_ne!(ours, theirs);
        bench.anvil.set_interval_mining(1).await.unwrap();
        bench.until_status(&payment, "settled_elsewhere").await;
        Metrics::until_counted(&bench, &[("deliveries said=lost", 1), ("deliveries said=success", 0)]).await;
        let success = bench.settle(&payment).await;
        assert_eq!(success.success_of(&payment), theirs);
        assert_news(&success, "redelivered");
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));
        assert_theirs(&bench, &payment, theirs).await;
    }

    async fn under_a_key(store) {
        let mut bench = accepting(store).start().await;
        let (payment, theirs) = promised_and_taken(&bench).await;
        let first = bench.settle_with_key(&payment, "one").await;
        assert_eq!(first.success_of(&payment), theirs);
        assert_eq!(bench.settle_with_key(&payment, "one").await, first);
        assert_eq!(bench.settle_with_key(&payment, "two").await.told(), Told::Duplicate(theirs));
        bench.crash_and_restart().await;
        assert_eq!(bench.settle_with_key(&payment, "one").await, first);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));
    }

    /// What was refused under a key stays refused under it; what was told as a success stays told.
    async fn switched_on_and_off_again(store) {
        let mut bench = Setup::new(store).start().await;
        let (payment, theirs) = promised_and_taken(&bench).await;
        let refused = bench.settle_with_key(&payment, "one").await;
        assert_eq!(refused.told(), Told::no(USED, theirs));
        assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, theirs));

        let off = bench.config.clone();
        let on = off.clone().set(ACCEPT, true.into());
        bench.server.restart_with(on, Wait::Ready).await.unwrap();
        assert_eq!(bench.settle_with_key(&payment, "one").await, refused);
        assert_eq!(bench.settle(&payment).await.success_of(&payment), theirs);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));

        bench.server.restart_with(off, Wait::Ready).await.unwrap();
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));
        assert_theirs(&bench, &payment, theirs).await;
    }

    /// Not deep enough to be believed: whoever asks waits for that, and nothing is decided before.
    async fn no_sooner_than_deep_enough(store) {
        let bench = accepting(store).no_mining().confirmations(3).wait_seconds(3).start().await;
        let (payment, theirs) = promised_and_taken(&bench).await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
        assert_eq!(bench.settle_with_key(&payment, "one").await.told(), Told::Unavailable);
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        let call = bench.insisting(&payment);
        bench.anvil.mine(2).await.unwrap();
        assert_eq!(call.await.unwrap(), theirs);
        assert_eq!(bench.settle_with_key(&payment, "one").await.told(), Told::Duplicate(theirs));
        assert_theirs(&bench, &payment, theirs).await;
    }

    /// Taken by nobody here before: that its nonce is used says nothing of who was granted what for it.
    async fn never_what_was_not_taken_before(store) {
        let bench = accepting(store).start().await;
        let payment = bench.payment().await;
        assert!(bench.chain.settle_elsewhere(&payment).await.unwrap().success);
        for _ in 0..2 {
            assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, ""));
        }
        assert!(bench.rows(&payment).await.is_empty());
    }

    /// A payer who takes it back has paid nobody.
    async fn never_what_was_canceled(store) {
        let bench = accepting(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.cancel_authorization(&payment).await.unwrap();
        assert!(theirs.success);
        assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, theirs.transaction));
        assert_eq!(bench.row(&payment).await["status"], "refused");
        bench.assert_nothing_moved().await;
    }
}

on_sqlite! {
    /// After `validBefore` nothing of a request is judged but its terms, which are no secret: a signature that the payer never
    /// made takes no success away.
    async fn not_by_a_stranger_after_its_window(store) {
        let bench = accepting(store).set("policy.validity_margin_seconds", 0.into()).start().await;
        let end = unix_now() + 12;
        let payment = bench.builder().await.valid_before(end).sign();
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap().transaction;
        until("the end of its window", DEADLINE, || async { (unix_now() > end).then_some(()) }).await;
        let mut signature = payment.signature().to_vec();
        signature[1] ^= 1;
        let forged = payment.clone().with_signature(signature);
        let Told::No(..) = bench.settle(&forged).await.told() else { panic!("a stranger was told a success") };
        assert_eq!(bench.settle(&payment).await.success_of(&payment), theirs);
        assert_theirs(&bench, &payment, theirs).await;
    }
}

/// What one replica has told, the other has not; both asked at once, one of them tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_either_of_two_replicas() {
    let bench = accepting(StoreKind::Postgres).start().await;
    let second = another_replica(&bench).await;
    let second = second.client().unwrap();
    let (payment, theirs) = promised_and_taken(&bench).await;
    assert_eq!(settle(&second, payment.body()).await, Some(Told::Success(theirs)));
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(theirs));

    let (payment, theirs) = promised_and_taken(&bench).await;
    let here = bench.settling(&payment);
    let there = settle(&second, payment.body()).await.unwrap();
    let mut answers = [here.await.unwrap().unwrap().told(), there];
    answers.sort_by_key(Told::is_success);
    assert_eq!(answers, [Told::Duplicate(theirs), Told::Success(theirs)]);
    assert_theirs(&bench, &payment, theirs).await;
}
