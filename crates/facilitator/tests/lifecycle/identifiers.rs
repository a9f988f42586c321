//! `Idempotency-Key` and the payment-identifier extension.

use crate::support::{Bench, DEADLINE, RawCall, Reply, Rows, SEND, Setup, StoreKind, Told, until};
use futures::future::join_all;
use quittance_testkit::{
    Answer, SignedPayment, dev_signer,
    harness::{Fault, Rule},
};
use serde_json::json;

const KEY: &str = "order 4711";
const ID: &str = "order-0000000000004711";

/// The payment with an identifier in its extensions.
fn identified(payment: &SignedPayment, id: &str) -> SignedPayment {
    let extensions = json!({"payment-identifier": {"info": {"required": true, "id": id}}});
    payment.clone().with_value("/paymentPayload/extensions", extensions)
}

/// The same terms with a signature somebody made up, and with the payer's under a domain the payer did not sign.
fn not_signed(payment: &SignedPayment) -> [SignedPayment; 2] {
    [
        payment.clone().with_signature([vec![0x11; 64], vec![0x1b]].concat()),
        payment.clone().with_value("/paymentRequirements/extra/name", json!("Another Coin")),
    ]
}

fn assert_conflict(reply: &Reply) {
    assert_eq!((reply.status, &reply.json["success"]), (409, &json!(false)), "{reply:?}");
    assert!(reply.json["transaction"].is_string(), "{reply:?}");
}

/// `/verify` says no because the identifier is somebody else's, and nothing is reserved.
async fn assert_not_promised(bench: &Bench, payment: &SignedPayment) {
    let reply = bench.verify(&identified(payment, ID)).await;
    assert_eq!((reply.status, &reply.json["isValid"]), (409, &json!(false)), "{reply:?}");
    assert_eq!(reply.json["invalidReason"], "invalid_payload");
    assert_eq!(reply.json["payer"], payment.payer().to_checksum(None));
    assert!(bench.rows(payment).await.is_empty());
}

/// The whole answer, with its headers.
async fn whole(bench: &Bench, payment: &SignedPayment, key: Option<&str>) -> Answer {
    let headers: Vec<_> = key.map(|key| ("Idempotency-Key", key)).into_iter().collect();
    bench.client.settle_with(payment.body(), &headers).await.unwrap()
}

fn told_of(answer: &Answer) -> Told {
    Reply { status: answer.status, json: answer.json.clone() }.told()
}

fn is_replay(answer: &Answer) -> bool {
    match answer.header("idempotency-replayed") {
        None => false,
        Some("true") => true,
        Some(other) => panic!("{other}"),
    }
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

on_both_stores! {
    /// What `/settle` can never take, `/verify` does not accept.
    async fn verify_knows_whose_an_identifier_is(store) {
        let bench = Setup::new(store).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        let hash = bench.settle(&identified(&payment, ID)).await.success_of(&payment);
        assert_not_promised(&bench, &other).await;
        assert_conflict(&bench.settle(&identified(&other, ID)).await);
        bench.assert_one_transaction_paid(&payment, hash).await;
        // It is the identifier that was refused, and not the payment.
        bench.verify(&other).await.valid();
        bench.settle(&identified(&other, "order-0000000000004712")).await.success_of(&other);
        bench.assert_paid_once(&[payment, other]).await;
    }

    async fn an_identifier_is_bound_when_verify_reserves(store) {
        let bench = Setup::new(store).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        bench.verify(&identified(&payment, ID)).await.valid();
        assert_not_promised(&bench, &other).await;
        assert_conflict(&bench.settle(&identified(&other, ID)).await);
        assert!(bench.rows(&other).await.is_empty());
        let hash = bench.settle(&identified(&payment, ID)).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Reserved without an identifier, it is bound to the one that `/settle` comes with.
    async fn an_identifier_that_comes_with_settle_is_bound_there(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        bench.verify(&payment).await.valid();
        let first = bench.settle(&identified(&payment, ID)).await;
        assert!(matches!(first.told(), Told::Pending(_)), "{first:?}");
        assert_not_promised(&bench, &other).await;
        bench.anvil.mine(1).await.unwrap();
        let success = bench.settle(&identified(&payment, ID)).await;
        let hash = success.success_of(&payment);
        assert_eq!(bench.settle(&identified(&payment, ID)).await, success);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }

    /// Signed without an identifier, the success is kept under the first one it is told with.
    async fn an_identifier_that_comes_with_the_answer_is_bound_there(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        assert!(matches!(bench.settle(&payment).await.told(), Told::Pending(_)));
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        let success = bench.settle(&identified(&payment, ID)).await;
        success.success_of(&payment);
        assert_eq!(bench.settle(&identified(&payment, ID)).await, success);
        assert_not_promised(&bench, &other).await;
    }

    /// Parallel first uses at `/verify`: one promise.
    async fn parallel_verifies_with_one_identifier(store) {
        let bench = Setup::new(store).start().await;
        let payments = bench.payments(12).await;
        let calls = payments.iter().map(|payment| async { bench.verify(&identified(payment, ID)).await });
        let replies = join_all(calls).await;
        let mut promised = Vec::new();
        for (reply, payment) in replies.iter().zip(&payments) {
            if reply.status == 200 {
                reply.valid();
                promised.push(payment);
            } else {
                assert_eq!(reply.status, 409, "{reply:?}");
                assert!(bench.rows(payment).await.is_empty(), "reserved all the same");
            }
        }
        let [payment] = promised[..] else { panic!("{} promises", promised.len()) };
        let hash = bench.settle(&identified(payment, ID)).await.success_of(payment);
        bench.assert_one_transaction_paid(payment, hash).await;
    }

    /// Parallel first uses at `/settle`: one payment is made, and nothing of the others is left.
    async fn parallel_settles_with_one_identifier(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        let payments = bench.payments(12).await;
        let same: Vec<_> = payments.iter().map(|payment| identified(payment, ID)).collect();
        let replies = bench.settle_all(&same).await;
        let mut paid = Vec::new();
        for (reply, payment) in replies.iter().zip(&payments) {
            if reply.status == 200 {
                paid.push((payment, reply.success_of(payment)));
            } else {
                assert_conflict(reply);
                assert!(bench.rows(payment).await.is_empty(), "reserved all the same");
            }
        }
        let [(payment, hash)] = paid[..] else { panic!("{} payments", paid.len()) };
        bench.assert_one_transaction_paid(payment, hash).await;
    }

    /// Whoever is refused, or not decided, has used no identifier: nobody can burn those of others.
    async fn what_is_refused_binds_no_identifier(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let garbage = bench.payment().await.with_signature([vec![0x11; 64], vec![0x1b]].concat());
        let expired = bench.builder().await.valid_before(quittance_testkit::unix_now() - 60).sign();
        let poor = bench.builder().await.payer(dev_signer(3)).sign();
        for refused in [&garbage, &expired, &poor] {
            assert!(matches!(bench.settle(&identified(refused, ID)).await.told(), Told::No(..)));
            bench.verify(&identified(refused, ID)).await.invalid();
        }
        let unread = bench.proxy.add(Rule::on("eth_call").then(Fault::HttpStatus(500)));
        let undecided = bench.payment().await;
        assert_eq!(bench.settle(&identified(&undecided, ID)).await.told(), Told::Unavailable);
        bench.proxy.remove(unread);

        bench.verify(&identified(&payment, ID)).await.valid();
        let hash = bench.settle(&identified(&payment, ID)).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// A made-up signature under a promised payment and its identifier: the refusal does not become the buyer's answer.
    async fn a_refusal_is_not_kept_under_an_identifier(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&identified(&payment, ID)).await.valid();
        let forged = payment.clone().with_signature(vec![1; 65]);
        assert_conflict(&bench.settle(&identified(&forged, ID)).await);
        let keyed = whole(&bench, &identified(&forged, ID), Some(KEY)).await;
        assert_eq!(keyed.status, 409, "{keyed:?}");
        assert!(matches!(bench.settle(&forged).await.told(), Told::No(..)));
        let hash = bench.settle(&identified(&payment, ID)).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// One payment with an identifier, presented for twenty resources at once: one seller has the success.
    async fn one_identifier_for_twenty_resources(store) {
        let bench = Setup::new(store).start().await;
        let payment = identified(&bench.payment().await, ID);
        let resources: Vec<_> = (0..20)
            .map(|i| payment.clone().with_value("/paymentPayload/resource/url", json!(format!("https://seller.example/{i}"))))
            .collect();
        let replies = bench.settle_all(&resources).await;
        let successes: Vec<_> = replies.iter().filter(|reply| reply.json["success"] == true).collect();
        let [success] = successes[..] else { panic!("{} successes", successes.len()) };
        let hash = success.success_of(&payment);
        for reply in replies.iter().filter(|reply| reply.status == 200 && *reply != success) {
            assert_eq!(reply.told(), Told::Duplicate(hash));
        }
        // Afterwards it is plain: another resource is another use.
        for (reply, resource) in replies.iter().zip(&resources) {
            match reply == success {
                true => assert_eq!(bench.settle(resource).await, *success),
                false => assert_conflict(&bench.settle(resource).await),
            }
        }
        let without_url = payment.clone().without("/paymentPayload/resource");
        assert_conflict(&bench.settle(&without_url).await);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Byte for byte what was said first, and a header that says so; the first answer has none.
    async fn replays_say_that_they_are(store) {
        let bench = Setup::new(store).start().await;
        for (payment, key) in [(bench.payment().await, Some(KEY)), (identified(&bench.payment().await, ID), None)] {
            let first = whole(&bench, &payment, key).await;
            assert!(told_of(&first).is_success() && !is_replay(&first), "{first:?}");
            for _ in 0..2 {
                let again = whole(&bench, &payment, key).await;
                assert_eq!((again.status, &again.text), (200, &first.text));
                assert!(is_replay(&again), "{again:?}");
                assert_eq!(again.header("content-type"), first.header("content-type"));
            }
        }
    }

    /// Twins that wait together and share the answer: all hear the same, and one of them hears it as news.
    async fn twins_that_share_an_answer_are_replays(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        for (payment, key) in [(bench.payment().await, Some(KEY)), (identified(&bench.payment().await, ID), None)] {
            let answers = join_all((0..10).map(|_| whole(&bench, &payment, key))).await;
            assert!(answers.iter().all(|answer| answer.text == answers[0].text), "{answers:?}");
            assert!(told_of(&answers[0]).is_success());
            assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
        }
    }

    /// Header and identifier together: each of them stands for the payment from then on.
    async fn both_keys_are_honoured(store) {
        let bench = Setup::new(store).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        let both = identified(&payment, ID);
        let first = whole(&bench, &both, Some(KEY)).await;
        let Told::Success(hash) = told_of(&first) else { panic!("{first:?}") };
        for (payment, key) in [(&both, Some(KEY)), (&both, None), (&payment, Some(KEY)), (&both, Some("new key"))] {
            let again = whole(&bench, payment, key).await;
            assert_eq!((again.status, &again.text), (200, &first.text), "{key:?}");
        }
        // Its first answer was the replay.
        assert_eq!(whole(&bench, &payment, Some("new key")).await.text, first.text);
        for (payment, key) in [
            (&other, Some(KEY)),
            (&identified(&other, ID), None),
            (&identified(&other, ID), Some("newer key")),
            (&identified(&other, "order-0000000000004712"), Some(KEY)),
        ] {
            let conflict = whole(&bench, payment, key).await;
            assert_conflict(&Reply { status: conflict.status, json: conflict.json.clone() });
            assert!(!is_replay(&conflict));
        }
        assert_eq!(told_of(&whole(&bench, &payment, None).await), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
        assert!(bench.rows(&other).await.is_empty());
        bench.settle(&other).await.success_of(&other);
    }
}

on_both_stores! {
    /// A key stands for one signature of the terms, and for what it signs: who knows the key and the terms, which are no secret, is
    /// told nothing by it, and a refusal of what somebody made up is nobody else's answer.
    async fn a_key_stands_for_one_signature(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let strangers = not_signed(&payment);
        // The first use was not the payer's: under that key there is that refusal, and no answer to the payer.
        for (number, stranger) in strangers.iter().enumerate() {
            let key = format!("first {number}");
            let refused = whole(&bench, stranger, Some(&key)).await;
            assert!(matches!(told_of(&refused), Told::No(..)), "{refused:?}");
            let again = whole(&bench, stranger, Some(&key)).await;
            assert_eq!((&again.text, is_replay(&again)), (&refused.text, true));
            assert_conflict(&bench.settle_with_key(&payment, &key).await);
        }
        assert!(bench.rows(&payment).await.is_empty());
        let first = keyed(&bench, &payment).await;
        let hash = first.success_of(&payment);
        for stranger in &strangers {
            assert_conflict(&keyed(&bench, stranger).await);
        }
        bench.crash_and_restart().await;
        assert_eq!(keyed(&bench, &payment).await, first);
        for stranger in &strangers {
            assert_conflict(&keyed(&bench, stranger).await);
        }
        bench.assert_one_transaction_paid(&payment, hash).await;
        // What an older version bound was bound to the terms alone, and goes on to be.
        Rows::of(&bench).run("UPDATE idempotency_keys SET signature_digest = NULL").await;
        assert_eq!(keyed(&bench, &payment).await, first);
    }

    async fn an_identifier_stands_for_one_signature(store) {
        let bench = Setup::new(store).start().await;
        let payment = identified(&bench.payment().await, ID);
        let strangers = not_signed(&payment);
        for stranger in &strangers {
            assert!(matches!(bench.settle(stranger).await.told(), Told::No(..)));
        }
        bench.verify(&payment).await.valid();
        for stranger in &strangers {
            assert_conflict(&bench.settle(stranger).await);
            let reply = bench.verify(stranger).await;
            assert_eq!((reply.status, &reply.json["isValid"]), (409, &json!(false)), "{reply:?}");
        }
        let first = bench.settle(&payment).await;
        let hash = first.success_of(&payment);
        for stranger in &strangers {
            assert_conflict(&bench.settle(stranger).await);
        }
        assert_eq!(bench.settle(&payment).await, first);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_sqlite! {
    /// Nothing is promised, and what `/settle` could not take is still not called good.
    async fn verify_that_only_looks_looks_at_identifiers_too(store) {
        let bench = Setup::new(store).set("replay.reserve_on_verify", false.into()).start().await;
        let (payment, other) = (bench.payment().await, bench.payment().await);
        for payment in [&payment, &other] {
            bench.verify(&identified(payment, ID)).await.valid();
        }
        bench.settle(&identified(&payment, ID)).await.success_of(&payment);
        assert_not_promised(&bench, &other).await;
    }
}

/// Old keys go by themselves, but not while their payment is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_keys_are_forgotten() {
    let mut bench = Setup::new(StoreKind::Postgres).start().await;
    let (paid, promised) = (bench.payment().await, bench.payment().await);
    let hash = keyed(&bench, &paid).await.success_of(&paid);
    bench.verify(&identified(&promised, ID)).await.valid();
    let keys = "SELECT count(*) FROM idempotency_keys";
    bench.database().run("UPDATE idempotency_keys SET bound_at = bound_at - 29 * 86400").await;
    bench.crash_and_restart().await;
    assert_eq!(keyed(&bench, &paid).await.success_of(&paid), hash);
    bench.database().run("UPDATE idempotency_keys SET bound_at = bound_at - 86400").await;
    bench.crash_and_restart().await;
    until("one key left", DEADLINE, || async { (bench.database().number(keys).await == 1).then_some(()) })
        .await;
    assert_not_promised(&bench, &bench.payment().await).await;
    bench.settle(&identified(&promised, ID)).await.success_of(&promised);
    // Forgotten, the key is as good as new; what was told is still told once.
    assert_eq!(keyed(&bench, &paid).await.told(), Told::Duplicate(hash));
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

/// Ids outside the extension's alphabet or length, and the shortest and longest inside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identifiers_out_of_shape_are_refused() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    for id in [
        "",
        &"x".repeat(15),
        "with space 00000000",
        "with.dot-0000000000",
        "ünïcödé-0000000000",
        &"x".repeat(129),
    ] {
        let told = bench.settle(&identified(&payment, id)).await.told();
        assert_eq!(told, Told::no("invalid_payload", ""), "{id:?}");
        assert_eq!(bench.verify(&identified(&payment, id)).await.invalid(), "invalid_payload", "{id:?}");
    }
    bench.assert_nothing_moved().await;
    let mut paid = Vec::new();
    for id in ["x".repeat(16), "x".repeat(128), "AZaz09_-AZaz09_-".to_owned()] {
        let payment = bench.payment().await;
        let first = bench.settle(&identified(&payment, &id)).await;
        first.success_of(&payment);
        assert_eq!(bench.settle(&identified(&payment, &id)).await, first, "{id:?}");
        paid.push(payment);
    }
    bench.assert_paid_once(&paid).await;
}
