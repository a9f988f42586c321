//! `Idempotency-Key` and the payment-identifier extension.

use crate::support::{Bench, DEADLINE, RawCall, Reply, SEND, Setup, StoreKind, Told, until};
use quittance_testkit::SignedPayment;
use serde_json::json;

const KEY: &str = "order 4711";

/// The payment with an identifier in its extensions.
fn identified(payment: &SignedPayment, id: &str) -> SignedPayment {
    let extensions = json!({"payment-identifier": {"info": {"required": true, "id": id}}});
    payment.clone().with_value("/paymentPayload/extensions", extensions)
}

fn assert_conflict(reply: &Reply) {
    assert_eq!((reply.status, &reply.json["success"]), (409, &json!(false)), "{reply:?}");
    assert!(reply.json["transaction"].is_string(), "{reply:?}");
}

async fn keyed(bench: &Bench, payment: &SignedPayment) -> Reply {
    bench.settle_with_key(payment, KEY).await
}

on_both_stores! {
    /// The first answer, word for word, as often as asked and after a restart.
    async fn a_key_repeats_its_first_answer(store) {
        let mut bench = Setup::new(store).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        let first = keyed(&bench, &payment).await;
        let hash = first.success_of(&payment);
        for _ in 0..3 {
            assert_eq!(keyed(&bench, &payment).await, first);
        }
        assert_conflict(&keyed(&bench, &other).await);
        bench.crash_and_restart().await;
        assert_eq!(keyed(&bench, &payment).await, first);
        assert_conflict(&keyed(&bench, &other).await);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        assert_eq!(bench.settle_with_key(&payment, "another key").await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    async fn an_identifier_repeats_its_first_answer(store) {
        let mut bench = Setup::new(store).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        let id = "order-0000000000004711";
        let first = bench.settle(&identified(&payment, id)).await;
        let hash = first.success_of(&payment);
        assert_eq!(bench.settle(&identified(&payment, id)).await, first);
        assert_conflict(&bench.settle(&identified(&other, id)).await);
        bench.crash_and_restart().await;
        assert_eq!(bench.settle(&identified(&payment, id)).await, first);
        assert_conflict(&bench.settle(&identified(&other, id)).await);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Parallel first uses: one payment has the key; all its callers hear the same.
    async fn parallel_first_uses_of_one_key(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        let mut calls = Vec::new();
        for payment in [&payment, &other, &payment, &other] {
            let (client, body) = (bench.client.clone(), payment.body().clone());
            calls.push(tokio::spawn(async move {
                let answer = client.settle_with(&body, &[("Idempotency-Key", KEY)]).await.unwrap();
                Reply { status: answer.status, json: answer.json }
            }));
        }
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await.unwrap());
        }
        let winner = if replies[0].status == 200 { 0 } else { 1 };
        assert_eq!(replies[winner], replies[winner + 2], "one key, one answer");
        let paid = [&payment, &other][winner];
        let hash = replies[winner].success_of(paid);
        assert_conflict(&replies[1 - winner]);
        assert_conflict(&replies[3 - winner]);
        bench.assert_one_transaction_paid(paid, hash).await;
    }

    /// `settlement_pending` is no final answer: the key gets the outcome later, and keeps that.
    async fn a_key_keeps_no_pending_answer(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let first = keyed(&bench, &payment).await;
        let Told::Pending(hash) = first.told() else { panic!("{first:?}") };
        bench.anvil.mine(1).await.unwrap();
        let second = keyed(&bench, &payment).await;
        assert_eq!(second.success_of(&payment), hash);
        assert_eq!(keyed(&bench, &payment).await, second);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }

    /// The key's caller hung up and came back: it was told, so nobody without the key is.
    async fn hang_up_and_come_back_with_the_key(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = RawCall::settle(&bench.client, payment.body(), &[("Idempotency-Key", KEY)]).await;
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        drop(call);
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        let hash = keyed(&bench, &payment).await.success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        assert_eq!(keyed(&bench, &payment).await.success_of(&payment), hash);
    }

    /// A key of a payment that was told to somebody else repeats that.
    async fn a_key_that_came_second_stays_second(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        let first = keyed(&bench, &payment).await;
        assert_eq!(first.told(), Told::Duplicate(hash));
        assert_eq!(keyed(&bench, &payment).await, first);
    }
}

/// The caller hangs up while its answer is being committed under its key. The key will always get it, so nobody else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_up_during_the_commit_of_a_keyed_answer() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let payment = bench.payment().await;
    bench
        .database()
        .run(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slowly AFTER UPDATE ON idempotency_keys
               DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        .await;
    let call = RawCall::settle(&bench.client, payment.body(), &[("Idempotency-Key", KEY)]).await;
    let committing =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query = 'COMMIT'";
    until("the answer is being committed", DEADLINE, || async {
        (bench.database().number(committing).await > 0).then_some(())
    })
    .await;
    drop(call);
    let stored = "SELECT count(*) FROM idempotency_keys WHERE answer IS NOT NULL";
    until("the answer is stored", DEADLINE, || async {
        (bench.database().number(stored).await > 0).then_some(())
    })
    .await;
    let without_the_key = bench.settle(&payment).await.told();
    let hash = keyed(&bench, &payment).await.success_of(&payment);
    assert_eq!(without_the_key, Told::Duplicate(hash));
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
}

/// Ids outside the extension's alphabet or length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identifiers_out_of_shape_are_refused() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    let long = "x".repeat(129);
    for id in
        ["", "too-short-by-one", "with space 00000000", long.as_str()].into_iter().filter(|id| id.len() != 16)
    {
        let told = bench.settle(&identified(&payment, id)).await.told();
        assert_eq!(told, Told::no("invalid_payload", ""), "{id:?}");
    }
    bench.assert_nothing_moved().await;
}
