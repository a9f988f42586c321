//! Rule 5's pending set: what `/verify` promises, and when the promise ends.

use crate::support::{Bench, DEADLINE, Metrics, RawCall, Setup, StoreKind, Told, USED, until};
use alloy_primitives::{Address, B256, U256, keccak256};
use quittance_testkit::{
    PaymentBuilder, SignedPayment,
    abi::IToken,
    dev_address, dev_signer,
    harness::{Fault, Rule, proxy::RuleId},
};
use std::collections::HashSet;

const LATE: &str = "invalid_exact_evm_payload_authorization_valid_before";
const POOR: &str = "invalid_exact_evm_insufficient_balance";
const FAILS: &str = "invalid_exact_evm_transaction_simulation_failed";

/// What the operator pays for at most, where a test needs a settlement that is too dear.
const GAS_MAX: u64 = 250_000;

/// A payment of a deployed contract wallet. It reads the first 65 bytes of a signature, so every longer one that begins
/// like a good one is good as well.
async fn wallet_payment(bench: &Bench, token: Address) -> SignedPayment {
    let owner = dev_signer(4);
    let wallet = bench.chain.deploy_wallet1271(owner.address()).await.unwrap();
    bench.chain.mint(token, wallet, U256::from(1_000_000)).await.unwrap();
    bench.builder().await.asset(token).wallet(wallet, owner).sign()
}

/// Another good signature of the same wallet over the same authorization.
fn longer(payment: &SignedPayment, bytes: usize) -> SignedPayment {
    payment.clone().with_signature([&payment.signature()[..], &vec![0xab; bytes]].concat())
}

/// The wallet accepts it, and no settlement with it is within [`GAS_MAX`].
fn too_dear(payment: &SignedPayment) -> SignedPayment {
    longer(payment, 8_000)
}

/// The one transaction of the signer moved the wallet's money, and nothing else has moved but what the wallet was given.
async fn assert_the_wallet_paid_once(bench: &Bench, payment: &SignedPayment, hash: B256) {
    let mut transfers = bench.transfers().await;
    transfers.retain(|transfer| !transfer.from.is_zero());
    let [transfer] = &transfers[..] else { panic!("{transfers:?}") };
    let moved = (transfer.from, transfer.to, transfer.value, transfer.transaction);
    assert_eq!(moved, (payment.payer(), payment.recipient(), payment.value(), hash));
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (1, 1));
    assert_eq!(bench.row(payment).await["status"], "settled");
}

/// Makes every transfer of a `GrowingGasToken` dearer by this much gas.
async fn grow(bench: &Bench, token: Address, gas: u64) {
    let call = [&keccak256("setExtraGas(uint256)")[..4], &U256::from(gas).to_be_bytes::<32>()].concat();
    assert!(bench.chain.send(dev_address(9), Some(token), call.into()).await.unwrap().success);
}

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

    /// Its window is over by the chain's own clock: whoever asks for it frees its nonce, and nobody has to wait for the rest.
    async fn a_promise_whose_window_is_over_ends_when_it_is_asked_for(store) {
        let bench = Setup::new(store).no_mining().confirmations(2).start().await;
        let now = quittance_testkit::unix_now();
        let builder = bench.builder().await.nonce(B256::repeat_byte(1));
        let late = builder.clone().valid_before(now + 60).sign();
        bench.verify(&late).await.valid();
        bench.anvil.increase_time(120).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.settle(&late).await.told(), Told::no(LATE, ""));
        assert_eq!(bench.row(&late).await["status"], "reserved", "the block may still go away");
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.settle(&late).await.told(), Told::no(LATE, ""));
        assert_eq!(bench.row(&late).await["status"], "refused");
        let next = builder.valid_before(now + 7_200).sign();
        bench.verify(&next).await.valid();
        bench.assert_nothing_moved().await;
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

    /// A wallet that accepts several signatures settles with any of them what one of them was promised for.
    async fn another_good_signature_settles_what_was_promised(store) {
        let bench = Setup::new(store).start().await;
        let payment = wallet_payment(&bench, bench.chain.token).await;
        bench.verify(&payment).await.valid();
        let hash = bench.settle(&longer(&payment, 1)).await.success_of(&payment);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        assert_the_wallet_paid_once(&bench, &payment, hash).await;
    }

    /// If it could end the promise by a signature that fails, its nonce could be promised to a second seller.
    async fn another_good_signature_that_fails_ends_no_promise(store) {
        let bench = Setup::new(store).set("policy.gas_per_settlement_max", GAS_MAX.into()).start().await;
        let payment = wallet_payment(&bench, bench.chain.token).await;
        bench.verify(&payment).await.valid();
        assert_eq!(bench.settle(&too_dear(&payment)).await.told(), Told::no(FAILS, ""));
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        let second = bench.builder().await.wallet(payment.payer(), dev_signer(4)).nonce(payment.nonce());
        assert_eq!(bench.verify(&second.amount(20_000).sign()).await.invalid(), USED);
        let hash = bench.settle(&payment).await.success_of(&payment);
        assert_the_wallet_paid_once(&bench, &payment, hash).await;
    }

    /// The very signature that was promised fails: then nothing was promised that could be kept.
    async fn the_promised_signature_that_fails_ends_the_promise(store) {
        let bench = Setup::new(store).set("policy.gas_per_settlement_max", GAS_MAX.into()).start().await;
        let token = bench.chain.deploy_token("GrowingGasToken").await.unwrap();
        let payment = wallet_payment(&bench, token).await;
        bench.verify(&payment).await.valid();
        grow(&bench, token, 2 * GAS_MAX).await;
        for (other, status) in [(longer(&payment, 1), "reserved"), (payment.clone(), "refused")] {
            assert_eq!(bench.settle(&other).await.told(), Told::no(FAILS, ""));
            assert_eq!(bench.row(&payment).await["status"], status);
        }
        grow(&bench, token, 0).await;
        bench.verify(&payment).await.valid();
        bench.settle(&payment).await.success_of(&payment);
        assert_eq!(bench.mined().await, 1);
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

/// Every authorization that is reserved has died some seconds ago.
async fn let_reservations_lapse(bench: &Bench) {
    let lately = quittance_testkit::unix_now() - 10;
    let lapse = format!("UPDATE payments SET expires_at = {lately} WHERE status = 'reserved'");
    bench.database().run(&lapse).await;
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
    let_reservations_lapse(&bench).await;
    bench.verify(&asked_again).await.valid();
    let row = bench.until_status(&forgotten, "refused").await;
    assert_eq!(row["reason"], "invalid_exact_evm_payload_authorization_valid_before");
    bench.settle(&forgotten).await.success_of(&forgotten);
    bench.settle(&asked_again).await.success_of(&asked_again);
    bench.assert_paid_once(&[asked_again, forgotten]).await;
}

/// A promise of an earlier version, which wrote down no signature: nobody can tell which one it was made for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promise_without_a_known_signature_is_kept() {
    let bench = Setup::new(StoreKind::Postgres);
    let bench = bench.set("policy.gas_per_settlement_max", GAS_MAX.into()).start().await;
    let token = bench.chain.deploy_token("GrowingGasToken").await.unwrap();
    let payment = wallet_payment(&bench, token).await;
    bench.verify(&payment).await.valid();
    bench.database().run("UPDATE payments SET signature_digest = NULL").await;
    grow(&bench, token, 2 * GAS_MAX).await;
    assert_eq!(bench.settle(&payment).await.told(), Told::no(FAILS, ""));
    assert_eq!(bench.row(&payment).await["status"], "reserved");
    grow(&bench, token, 0).await;
    bench.settle(&payment).await.success_of(&payment);
    assert_eq!(bench.mined().await, 1);
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
    Metrics::until_counted(&bench, &[("settlements status=refused", 1)]).await;
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

/// What `/settle` says about a promise that somebody else has used, with the transaction that did it.
async fn assert_told(bench: &Bench, payment: &SignedPayment, transaction: B256, replay: &str) {
    let reply = bench.settle(payment).await;
    assert_eq!(reply.told(), Told::no(USED, transaction));
    assert_eq!(reply.json["extra"]["replay"], replay, "{reply:?}");
}

/// From now on the server finds no logs.
fn unreadable_logs(bench: &Bench) -> RuleId {
    bench.proxy.add(Rule::on("eth_getLogs").then(Fault::error(-32005, "query returned too many results")))
}

on_both_stores! {
    /// Whoever sees a promised authorization can submit it: then its payee was paid, and the seller is told by what.
    async fn executed_by_somebody_else_after_verify(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        assert!(theirs.success);
        assert_told(&bench, &payment, theirs.transaction, "first").await;
        let row = bench.row(&payment).await;
        assert_eq!(
            (&row["status"], &row["transaction"], &row["reason"]),
            (&"settled_elsewhere".into(), &theirs.transaction.to_string().into(), &USED.into())
        );
        assert_told(&bench, &payment, theirs.transaction, "redelivered").await;
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        assert_eq!((bench.transfers().await.len(), bench.sent().len()), (1, 0));
    }

    /// The payer takes it back: nobody was paid, and the promise ends with the transaction that says so.
    async fn canceled_by_the_payer_after_verify(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.cancel_authorization(&payment).await.unwrap();
        assert!(theirs.success);
        assert_told(&bench, &payment, theirs.transaction, "first").await;
        let row = bench.row(&payment).await;
        assert_eq!(
            (&row["status"], &row["transaction"], &row["reason"]),
            (&"refused".into(), &theirs.transaction.to_string().into(), &USED.into())
        );
        assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, ""));
        bench.assert_nothing_moved().await;
    }

    /// Until it can be read what used the nonce, the promise stays; the answer is the refusal all the same.
    async fn a_promise_used_by_nobody_knows_whom(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        let unreadable = unreadable_logs(&bench);
        assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, ""));
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        bench.proxy.remove(unreadable);
        assert_told(&bench, &payment, theirs.transaction, "first").await;
        assert_eq!(bench.row(&payment).await["status"], "settled_elsewhere");
    }
}

on_sqlite! {
    /// Not deep enough to be believed: the promise stays until it is.
    async fn executed_by_somebody_else_and_not_deep_enough(store) {
        let bench = Setup::new(store).confirmations(3).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        assert_eq!(bench.settle(&payment).await.told(), Told::no(USED, ""));
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        bench.anvil.mine(2).await.unwrap();
        assert_told(&bench, &payment, theirs.transaction, "first").await;
        assert_eq!(bench.row(&payment).await["status"], "settled_elsewhere");
    }

    /// Twins that come after the front-runner are told the same, and its transaction is recorded once.
    async fn twins_of_a_promise_used_by_somebody_else(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap().transaction;
        let told: HashSet<_> =
            bench.settle_all(&vec![payment.clone(); 10]).await.iter().map(|reply| format!("{:?}", reply.told())).collect();
        assert_eq!(told, HashSet::from([format!("{:?}", Told::no(USED, theirs))]));
        assert_eq!(bench.row(&payment).await["status"], "settled_elsewhere");
    }
}

/// A promise that nobody came back for ends as what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outlived_promises_end_as_what_they_were() {
    let bench = Setup::new(StoreKind::Postgres).start().await;
    let [forgotten, executed, canceled] = <[_; 3]>::try_from(bench.payments(3).await).unwrap();
    for payment in [&forgotten, &executed, &canceled] {
        bench.verify(payment).await.valid();
    }
    let theirs = bench.chain.settle_elsewhere(&executed).await.unwrap().transaction;
    let taken_back = bench.chain.cancel_authorization(&canceled).await.unwrap().transaction;
    let unreadable = unreadable_logs(&bench);
    let_reservations_lapse(&bench).await;
    // What cannot be read holds up no other, and is no reason to give up.
    bench.until_status(&forgotten, "refused").await;
    bench.until_hits(&[unreadable], 1).await;
    for payment in [&executed, &canceled] {
        assert_eq!(bench.row(payment).await["status"], "reserved");
    }
    bench.proxy.remove(unreadable);
    for (payment, status, transaction) in
        [(&executed, "settled_elsewhere", theirs), (&canceled, "refused", taken_back)]
    {
        let row = bench.until_status(payment, status).await;
        assert_eq!((&row["transaction"], &row["reason"]), (&transaction.to_string().into(), &USED.into()));
    }
    let counts = [("settlements status=settled_elsewhere", 1), ("settlements status=refused", 2)];
    Metrics::until_counted(&bench, &counts).await;
    assert_told(&bench, &executed, theirs, "redelivered").await;
    bench.settle(&forgotten).await.success_of(&forgotten);
    assert_eq!(bench.transfers().await.len(), 2);
}

/// `/verify` says that it cannot say yes, and that it is worth another try; nothing is promised.
async fn assert_undecided(bench: &Bench, payment: &SignedPayment) {
    let answer = bench.client.post("/verify", payment.body(), &[]).await.unwrap();
    assert_eq!((answer.status, &answer.json["isValid"]), (503, &false.into()), "{}", answer.text);
    assert_eq!(answer.json["invalidReason"], "unexpected_verify_error");
    assert!(answer.retry_after_seconds().is_some());
    assert!(bench.rows(payment).await.is_empty(), "promised");
}

on_both_stores! {
    /// What could not be settled for want of gas money is not promised.
    async fn no_promise_without_gas_money(store) {
        let bench = Setup::new(store).signers(2).start().await;
        let payment = bench.payment().await;
        for signer in &bench.signers {
            bench.anvil.set_balance(*signer, U256::from(1)).await.unwrap();
        }
        bench.proxy.reset_records();
        assert_undecided(&bench, &payment).await;
        assert_eq!(bench.proxy.calls().len(), 1, "no question beside the facts");
        bench.anvil.set_balance(bench.signers[1], U256::from(10).pow(U256::from(18))).await.unwrap();
        bench.verify(&payment).await.valid();
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_sqlite! {
    async fn no_promise_above_the_operators_cap(store) {
        let bench = Setup::new(store).set("policy.fee_per_settlement_wei_max", "1".into()).start().await;
        assert_undecided(&bench, &bench.payment().await).await;
        assert_eq!(bench.settle(&bench.payment().await).await.told(), Told::Unavailable);
    }

    /// Where nothing is promised, `/verify` speaks of the payment alone: what a gateway wants that settles elsewhere.
    async fn verify_that_only_looks_needs_no_gas_money(store) {
        let bench = Setup::new(store)
            .set("replay.reserve_on_verify", false.into())
            .set("policy.fee_per_settlement_wei_max", "1".into())
            .start()
            .await;
        bench.anvil.set_balance(bench.signers[0], U256::ZERO).await.unwrap();
        bench.verify(&bench.payment().await).await.valid();
    }
}
