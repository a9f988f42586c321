//! Rule 5's pending set: what `/verify` promises, and when the promise ends.

use crate::support::{Bench, DEADLINE, RawCall, Setup, StoreKind, Told, until};
use alloy_primitives::{B256, U256};
use quittance_testkit::{
    PaymentBuilder, SignedPayment,
    abi::IToken,
    dev_address, dev_signer,
    harness::{Fault, Rule},
};

const USED: &str = "invalid_exact_evm_nonce_already_used";
const POOR: &str = "invalid_exact_evm_insufficient_balance";

/// Moves all the payer's money to the deployer and tells how much it was.
async fn empty_purse(bench: &Bench, payment: &SignedPayment) -> U256 {
    use alloy_sol_types::SolCall as _;
    let amount = bench.chain.balance_of(bench.chain.token, payment.payer()).await.unwrap();
    let call = IToken::transferCall { to: dev_address(9), amount }.abi_encode();
    bench.chain.send(payment.payer(), Some(bench.chain.token), call.into()).await.unwrap();
    amount
}

on_both_stores! {
    async fn verified_twice_then_settled(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Another payment under the reserved nonce gets nowhere, and takes nothing from the first.
    async fn another_payment_under_a_reserved_nonce(store) {
        let bench = Setup::new(store).start().await;
        let builder = bench.builder().await.nonce(B256::repeat_byte(1));
        let (first, second) = (builder.clone().sign(), builder.amount(20_000).sign());
        bench.verify(&first).await.valid();
        assert_eq!(bench.verify(&second).await.invalid(), USED);
        assert_eq!(bench.settle(&second).await.told(), Told::no(USED, ""));
        let hash = bench.settle(&first).await.success_of(&first);
        assert_eq!(bench.settle(&second).await.told(), Told::no(USED, ""));
        bench.assert_one_transaction_paid(&first, hash).await;
    }

    /// The money is gone at settle: refused, and the nonce is free for when it is back.
    async fn a_refused_settle_drops_the_reservation(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let amount = empty_purse(&bench, &payment).await;
        assert_eq!(bench.settle(&payment).await.told(), Told::no(POOR, ""));
        assert_eq!(bench.row(&payment).await["status"], "refused");
        assert_eq!(bench.verify(&payment).await.invalid(), POOR);
        bench.chain.mint(bench.chain.token, payment.payer(), amount).await.unwrap();
        bench.verify(&payment).await.valid();
        bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.mined().await, 1);
    }

    /// Anybody can send rubbish under somebody's reserved nonce.
    async fn rubbish_does_not_drop_a_reservation(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.builder().await.valid_after(0).valid_before(quittance_testkit::unix_now() + 300).sign();
        bench.verify(&payment).await.valid();
        let forged = |name: &str, version: &str| {
            let builder = PaymentBuilder::new(bench.chain.chain_id(), payment.asset()).payer(dev_signer(4));
            let builder = builder.valid_after(payment.valid_after()).valid_before(payment.valid_before());
            builder.nonce(payment.nonce()).domain(name, version).sign()
        };
        let rubbish = [
            payment.clone().with_signature(vec![1; 65]),
            payment.clone().with_signature(vec![]),
            payment.clone().high_s_twin().unwrap(),
            // By the payer itself, who would like to have the promise twice.
            forged("Another", "2"),
            forged("USDC", "3"),
        ];
        for rubbish in &rubbish {
            let Told::No(..) = bench.settle(rubbish).await.told() else { panic!("rubbish was taken") };
            assert_eq!(bench.row(&payment).await["status"], "reserved");
        }
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Twenty verifies at once: one of them holds the promise.
    async fn twenty_verifies_of_one_payment(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let calls = (0..20).map(|_| bench.verify(&payment));
        let replies = futures::future::join_all(calls).await;
        assert_eq!(replies.iter().filter(|reply| reply.json["isValid"] == true).count(), 1);
        assert!(replies.iter().all(|r| r.json["isValid"] == true || r.invalid() == USED));
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// While a settlement is on its way without a `/verify` before it, the nonce is taken as well.
    async fn verify_during_a_settle(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(crate::support::SEND, 1).await.unwrap();
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        bench.anvil.mine(1).await.unwrap();
        let hash = call.await.unwrap().unwrap().success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_sqlite! {
    /// The same nonce of another payer, or of another token, is another authorization.
    async fn the_same_nonce_elsewhere_is_free(store) {
        let bench = Setup::new(store).start().await;
        let builder = bench.builder().await.nonce(B256::repeat_byte(2));
        let first = builder.clone().sign();
        let second = builder.payer(dev_signer(5)).sign();
        bench.verify(&first).await.valid();
        bench.verify(&second).await.valid();
        for payment in [&second, &first] {
            bench.settle(payment).await.success_of(payment);
        }
        bench.assert_paid_once(&[first, second]).await;
    }

    async fn verify_only_looks_when_told_so(store) {
        let bench = Setup::new(store).set("replay.reserve_on_verify", false.into()).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        bench.verify(&payment).await.valid();
        assert!(bench.rows(&payment).await.is_empty());
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

/// Past `validBefore` and finality, nobody waits for a reservation any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outlived_reservation_ends_by_itself() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let (asked_again, forgotten) = (bench.payment().await, bench.payment().await);
    for payment in [&asked_again, &forgotten] {
        bench.verify(payment).await.valid();
        assert_eq!(bench.verify(payment).await.invalid(), USED);
    }
    bench.database().run("UPDATE payments SET expires_at = 1").await;
    bench.verify(&asked_again).await.valid();
    let row = bench.until_status(&forgotten, "refused").await;
    assert_eq!(row["reason"], "invalid_exact_evm_payload_authorization_valid_before");
    bench.settle(&forgotten).await.success_of(&forgotten);
    bench.settle(&asked_again).await.success_of(&asked_again);
    bench.assert_paid_once(&[asked_again, forgotten]).await;
}

on_both_stores! {
    /// The caller of `/verify` is gone before there is anything to tell: nothing is promised to it.
    async fn hang_up_before_the_facts_are_read(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on("eth_call").times(1).then(Fault::Hang));
        let call = RawCall::verify(&bench.client, payment.body()).await;
        bench.proxy.wait_for("eth_call", 1).await.unwrap();
        drop(call);
        bench.proxy.clear();
        bench.verify(&payment).await.valid();
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }
}

/// Gone while the promise is being written down: it is taken back, and can be had again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_up_while_the_promise_is_written_down() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let payment = bench.payment().await;
    bench
        .database()
        .run(
            "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$;
             CREATE TRIGGER slowly BEFORE INSERT ON payments FOR EACH ROW EXECUTE FUNCTION slowly()",
        )
        .await;
    let call = RawCall::verify(&bench.client, payment.body()).await;
    let writing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    until("the promise is being written", DEADLINE, || async {
        (bench.database().number(writing).await > 0).then_some(())
    })
    .await;
    drop(call);
    bench.until_status(&payment, "refused").await;
    bench.verify(&payment).await.valid();
    let hash = bench.settle(&payment).await.success_of(&payment);
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
}

/// Callers that read their verdict and hang up at once keep what they were told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hang_up_after_the_verdict() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payments = bench.payments(60).await;
    let calls: Vec<_> = payments
        .iter()
        .map(|payment| {
            let (client, body) = (bench.client.clone(), payment.body().clone());
            tokio::spawn(
                async move { RawCall::verify(&client, &body).await.read_and_hang_up().await.unwrap() },
            )
        })
        .collect();
    for call in calls {
        call.await.unwrap().valid();
    }
    for payment in &payments {
        assert_eq!(bench.verify(payment).await.invalid(), USED);
    }
}
