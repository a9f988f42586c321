//! One payment, one grant: who is told of a success, and who is told to ask again.

use crate::support::{Bench, DEADLINE, Metrics, RawCall, Reply, SEND, Setup, StoreKind, Told, told, until};
use alloy_primitives::address;
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule},
};
use serde_json::json;
use std::time::Duration;

/// The row under the id that an answer gave it, and the same one by all that it is about, however that is spelled.
async fn assert_found(bench: &Bench, payment: &SignedPayment, answer: &Reply, status: &str) {
    let id = &answer.json["extra"]["settlementId"];
    let row = bench.client.get(&format!("/settlements/{}", id.as_str().unwrap())).await.unwrap();
    assert_eq!((row.status, &row.json["status"], &row.json["settlementId"]), (200, &json!(status), id));
    let rows = async |asset: &str, payer: &str, nonce: &str| {
        let path =
            format!("/settlements?network={}&asset={asset}&payer={payer}&nonce={nonce}", payment.network());
        let found = bench.client.get(&path).await.unwrap();
        assert_eq!(found.status, 200, "{path}: {}", found.text);
        found.json["settlements"].clone()
    };
    let [asset, payer, nonce] =
        [payment.asset().to_string(), payment.payer().to_string(), payment.nonce().to_string()];
    let upper = |text: &str| format!("0x{}", text[2..].to_uppercase());
    assert_eq!(rows(&asset, &payer, &nonce).await, json!([row.json]));
    assert_eq!(rows(&asset.to_lowercase(), &payer.to_lowercase(), &nonce).await, json!([row.json]));
    assert_eq!(rows(&upper(&asset), &upper(&payer), &upper(&nonce)).await, json!([row.json]));
    // Every filter filters.
    assert_eq!(rows(&payer, &payer, &nonce).await, json!([]));
    assert_eq!(rows(&asset, &asset, &nonce).await, json!([]));
    assert_eq!(rows(&asset, &payer, &nonce.replace(&nonce[2..10], "00000000")).await, json!([]));
    let of_asset = bench.client.get(&format!("/settlements?asset={asset}")).await.unwrap();
    assert!(of_asset.json["settlements"].as_array().unwrap().contains(&row.json), "{}", of_asset.text);
}

on_both_stores! {
    /// The caller is gone before the outcome: the settlement goes on, and its result waits.
    async fn hang_up_after_the_send(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = RawCall::settle(&bench.client, payment.body(), &[]).await;
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        drop(call);
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;

        // While its next request waits to be read, nobody sees that it is gone before its answer is to be written.
        let other = bench.payment().await;
        let call = RawCall::settle_and_more(&bench.client, other.body()).await;
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        drop(call);
        bench.anvil.mine(1).await.unwrap();
        Metrics::until_counted(&bench, &[("deliveries said=lost", 1), ("deliveries said=success", 1)]).await;
        bench.settle(&other).await.success_of(&other);
        Metrics::until_counted(&bench, &[("deliveries said=lost", 1), ("deliveries said=success", 2)]).await;
    }

    /// Gone even before the node has answered; a twin that waited beside it gets the success.
    async fn hang_up_beside_a_twin(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::held_answer()));
        let first = RawCall::settle(&bench.client, payment.body(), &[]).await;
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let twin = bench.settling(&payment);
        drop(first);
        bench.proxy.clear();
        let hash = twin.await.unwrap().unwrap().success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// A caller that has read its answer and closes its socket in the same moment was told.
    async fn hang_up_after_the_answer(store) {
        let bench = Setup::new(store).start().await;
        let payments = bench.payments(60).await;
        let calls: Vec<_> = payments
            .iter()
            .map(|payment| {
                let (client, body) = (bench.client.clone(), payment.body().clone());
                tokio::spawn(async move {
                    let call = RawCall::settle(&client, &body, &[]).await;
                    call.read_and_hang_up().await.expect("an answer")
                })
            })
            .collect();
        let mut hashes = Vec::new();
        for (call, payment) in calls.into_iter().zip(&payments) {
            hashes.push(call.await.unwrap().success_of(payment));
        }
        let again = told(&bench.settle_all(&payments).await);
        let told_twice = again.iter().filter(|answer| answer.is_success()).count();
        assert_eq!(told_twice, 0, "of {} payments", payments.len());
        assert_eq!(again, hashes.into_iter().map(Told::Duplicate).collect::<Vec<_>>());
        bench.assert_paid_once(&payments).await;
    }

    /// A caller that closes its sending half may or may not be answered, but what it read is the only success.
    async fn half_closed_callers(store) {
        let bench = Setup::new(store).start().await;
        let payments = bench.payments(40).await;
        let calls: Vec<_> = payments
            .iter()
            .enumerate()
            .map(|(index, payment)| {
                let (client, body) = (bench.client.clone(), payment.body().clone());
                tokio::spawn(async move {
                    let mut call = RawCall::settle(&client, &body, &[]).await;
                    tokio::time::sleep(Duration::from_millis(10 * u64::try_from(index).unwrap())).await;
                    call.close_its_half().await;
                    call.read_and_hang_up().await
                })
            })
            .collect();
        for (call, payment) in calls.into_iter().zip(&payments) {
            let heard = call.await.unwrap().map(|reply| reply.told());
            let again = bench.settle(payment).await.told();
            match heard {
                Some(Told::Success(hash)) => assert_eq!(again, Told::Duplicate(hash)),
                _ => assert!(again.is_success(), "{heard:?}, then {again:?}"),
            }
        }
        bench.assert_paid_once(&payments).await;
    }

    /// The wait ends before the block: the hash is told, and the repeat gets the success.
    async fn pending_then_mined_then_asked_again(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let first = bench.settle(&payment).await;
        let Told::Pending(hash) = first.told() else { panic!("{first:?}") };
        assert_eq!(bench.sent(), [hash]);
        assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.settle(&payment).await.success_of(&payment), hash);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        Metrics::until_counted(&bench, &[("deliveries said=pending", 2), ("deliveries said=success", 1)]).await;
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    async fn pending_survives_a_restart(store) {
        let mut bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let first = bench.settle(&payment).await;
        let Told::Pending(hash) = first.told() else { panic!("{first:?}") };
        bench.crash_and_restart().await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.settle(&payment).await.success_of(&payment), hash);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    async fn two_repeats_after_pending(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let first = bench.settle(&payment).await;
        let Told::Pending(hash) = first.told() else { panic!("{first:?}") };
        bench.anvil.mine(1).await.unwrap();
        let mut answers = told(&bench.settle_all(&[payment.clone(), payment.clone()]).await);
        answers.sort_by_key(Told::is_success);
        assert_eq!(answers, [Told::Duplicate(hash), Told::Success(hash)]);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// `extra.replay` says whether this is news, of answers that grant nothing as well.
    async fn answers_say_whether_they_are_news(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let replay = |reply: &Reply| reply.json["extra"]["replay"].as_str().unwrap().to_owned();
        let paid = bench.payment().await;
        let verified = bench.verify(&paid).await;
        assert_found(&bench, &paid, &verified, "reserved").await;
        for word in ["first", "redelivered"] {
            let reply = bench.settle(&paid).await;
            assert!(matches!(reply.told(), Told::Pending(_)));
            assert_eq!(replay(&reply), word);
            assert_found(&bench, &paid, &reply, "signed").await;
        }
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&paid, "settled").await;
        let success = bench.settle(&paid).await;
        assert_eq!((success.told().is_success(), replay(&success).as_str()), (true, "redelivered"), "after pending");
        assert_eq!(replay(&bench.settle(&paid).await), "duplicate");
        assert_found(&bench, &paid, &success, "settled").await;
        assert_eq!(success.json["extra"]["settlementId"], verified.json["extra"]["settlementId"]);

        // Canceled by its payer while it waits for a block: told to the caller that waits, and to whoever asks later.
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let failed = bench.payment().await;
        let told = bench.settle(&failed).await.told();
        assert!(matches!(told, Told::Pending(_)), "{told:?}");
        assert!(bench.chain.cancel_authorization(&failed).await.unwrap().success);
        bench.anvil.set_interval_mining(1).await.unwrap();
        bench.until_status(&failed, "failed").await;
        for _ in 0..2 {
            let reply = bench.settle(&failed).await;
            assert!(matches!(reply.told(), Told::No(..)), "{reply:?}");
            assert_eq!(replay(&reply), "redelivered");
            assert_found(&bench, &failed, &reply, "failed").await;
        }
    }

    /// Of two that wait for the same payment, one is told to ask again; the other is never.
    async fn a_twin_is_never_told_to_ask_again(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(3).start().await;
        let payment = bench.payment().await;
        let first = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        // Its own wait ends a second after the first one's.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let twin = bench.settling(&payment);
        let first = first.await.unwrap().unwrap();
        let Told::Pending(hash) = first.told() else { panic!("{first:?}") };
        assert_eq!(twin.await.unwrap().unwrap().told(), Told::Duplicate(hash));
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.settle(&payment).await.success_of(&payment), hash);
    }

    /// Twins that come and go together while nothing is mined.
    async fn twenty_twins_without_blocks(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(2).start().await;
        let payment = bench.payment().await;
        let answers = told(&bench.settle_all(&vec![payment.clone(); 20]).await);
        let pending = answers.iter().filter(|answer| matches!(answer, Told::Pending(_))).count();
        assert_eq!(pending, 1, "{answers:?}");
        assert!(answers.iter().all(|answer| matches!(answer, Told::Pending(_) | Told::Duplicate(_))), "{answers:?}");
        assert_eq!(bench.known_to_the_node().await, 1);
    }

    /// Another seller presents what was signed for the first one.
    async fn another_seller_gets_nothing(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let to_me = address!("00000000000000000000000000000000000000aa").to_string();
        let to_another = ["/paymentRequirements/payTo", "/paymentPayload/accepted/payTo"]
            .into_iter()
            .fold(payment.clone(), |p, at| p.with_value(at, json!(to_me)));
        let for_less = ["/paymentRequirements/amount", "/paymentPayload/accepted/amount"]
            .into_iter()
            .fold(payment.clone(), |p, at| p.with_value(at, json!("1")));
        let strangers = [
            to_another.clone(),
            for_less.clone(),
            payment.clone().with_value("/paymentRequirements/payTo", json!(to_me)),
            payment.clone().with_value("/paymentRequirements/amount", json!("1")),
            payment.clone().with_value("/paymentRequirements/extra", json!({})),
        ];
        let assert_nothing = async |when: &str| {
            for stranger in &strangers {
                let reply = bench.settle(stranger).await;
                let Told::No(code, transaction) = reply.told() else { panic!("{when}: {reply:?}") };
                assert_eq!(transaction, "", "{when}: a stranger was told the transaction");
                assert!(reply.json.get("extra").is_none(), "{when}: {reply:?}");
                assert_eq!(code, bench.verify(stranger).await.invalid(), "{when}: not the first of what is wrong");
            }
        };
        bench.verify(&payment).await.valid();
        assert_nothing("reserved").await;
        assert!(matches!(bench.settle(&payment).await.told(), Told::Pending(_)));
        assert_nothing("signed").await;
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        assert_nothing("settled, not delivered").await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_nothing("settled").await;
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_sqlite! {
    /// The same authorization in other clothes is the same payment.
    async fn other_spellings_are_repeats(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.builder().await.resource("https://seller.example/one").sign();
        let hash = bench.settle(&payment).await.success_of(&payment);
        let nonce = payment.nonce().to_string();
        let shouted = format!("0x{}", nonce[2..].to_uppercase());
        let lower = payment.payer().to_string().to_lowercase();
        let spellings = [
            payment.clone().with_value("/paymentPayload/payload/authorization/nonce", json!(shouted)),
            payment.clone().with_value("/paymentPayload/payload/authorization/from", json!(lower)),
            payment.clone().with_value("/paymentPayload/resource/url", json!("https://seller.example/two")),
        ];
        for spelling in &spellings {
            assert_eq!(bench.settle(spelling).await.told(), Told::Duplicate(hash));
        }
        let padded = payment.clone().with_value("/paymentPayload/payload/authorization/value", json!("010000"));
        let told = bench.settle(&padded).await.told();
        assert!(matches!(&told, Told::Duplicate(h) if *h == hash) || told == Told::no("invalid_payload", ""), "{told:?}");
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

/// What was signed for version 2 can be written down as version 1; it is still one payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_protocol_version_is_a_repeat() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let builder = bench.builder().await.nonce(alloy_primitives::B256::repeat_byte(7));
    let (v1, v2) = (builder.clone().v1().sign(), builder.sign());
    let hash = bench.settle(&v2).await.success_of(&v2);
    assert_eq!(bench.settle(&v1).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(&v2, hash).await;
}

/// The row cannot learn that its success was told. Then it must not have been told, or not be told again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_cannot_be_recorded_is_not_given_again() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let payment = bench.payment().await;
    bench.database().refuse_to_record_answers().await;
    let first = bench.settle(&payment).await.told();
    bench.database().record_answers_again().await;
    bench.until_status(&payment, "settled").await;
    let second = bench.settle(&payment).await.told();
    let third = bench.settle(&payment).await.told();
    let answers = [first, second, third];
    assert_eq!(answers.iter().filter(|answer| answer.is_success()).count(), 1, "{answers:?}");
}

/// The connection ends while the answer is recorded: told or not, only one caller has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_up_while_the_success_is_recorded() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let payment = bench.payment().await;
    // Every write to the row is slow, so that the hang-up meets one of them.
    bench
        .database()
        .run(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$;
             CREATE TRIGGER slowly BEFORE UPDATE ON payments FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        .await;
    let call = RawCall::settle(&bench.client, payment.body(), &[]).await;
    until("settled", DEADLINE, || async {
        (bench.rows(&payment).await.first()?["status"] == "settled").then_some(())
    })
    .await;
    drop(call);
    let second = bench.settle(&payment).await.told();
    let third = bench.settle(&payment).await.told();
    // Whoever hung up read nothing, so the success is still there for exactly one.
    let successes = [&second, &third].into_iter().filter(|answer| answer.is_success()).count();
    assert_eq!(successes, 1, "{second:?} {third:?}");
}

/// `Reply` of a call whose server answers later than the caller waits is nothing; the next call gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impatient_callers_lose_nothing() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().start().await;
    let payment = bench.payment().await;
    let impatient =
        quittance_testkit::Facilitator::with_timeout(bench.client.base(), Duration::from_millis(700))
            .unwrap();
    for _ in 0..3 {
        assert!(impatient.settle(payment.body()).await.is_err());
    }
    let patient = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let reply: Reply = patient.await.unwrap().unwrap();
    let hash = reply.success_of(&payment);
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(&payment, hash).await;
}
