//! What could hold a lane up for good: nonces that nobody fills, offers that nobody can pay, and a node of another chain.

use crate::support::{Bench, DEADLINE, Metrics, Reply, Rows, SEND, Setup, StoreKind, settle_at, until};
use alloy_primitives::{Address, U256};
use quittance_testkit::{
    Anvil, DevChain, SignedPayment,
    dev_accounts::dev_key,
    dev_address,
    harness::{Fault, QuittanceProcess, Rule},
};
use serde_json::json;

const GWEI: u128 = 1_000_000_000;

/// Alive whatever becomes of the chain's clock.
async fn long_payment(bench: &Bench) -> SignedPayment {
    bench.builder().await.max_timeout_seconds(600).sign()
}

on_both_stores! {
    /// A foreign transaction takes a nonce, the payment goes on in the next one, and the chain loses the foreign transaction: it
    /// waits for a nonce that its payment has left behind. That is filled with nothing, and the payment executes once.
    async fn the_chain_gives_back_a_nonce_that_a_stranger_took(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let swallow = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let [signer] = bench.signers[..] else { panic!("{:?}", bench.signers) };
        let outside = bench.chain.send(signer, Some(dev_address(8)), Default::default()).await.unwrap();
        assert!(outside.success);
        bench.proxy.remove(swallow);
        let first = bench.sent()[0];
        let second = bench.replacement_of(first).await;
        assert_eq!(bench.field(second, "nonce").await, 1);
        bench.anvil.reorg(1).await.unwrap();
        assert_eq!(bench.mined().await, 0);
        bench.anvil.set_interval_mining(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), second);
        let next = bench.payment().await;
        bench.settle(&next).await.success_of(&next);

        bench.assert_paid_once(&[payment, next]).await;
        let mined = bench.mined_by(signer).await;
        assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(mined[&0]["to"].as_str().unwrap().parse::<Address>().unwrap(), signer, "{}", mined[&0]);
        assert_eq!((&mined[&0]["value"], &mined[&0]["input"]), (&json!("0x0"), &json!("0x")));
        assert_eq!(mined[&1]["hash"], second.to_string());
        let rows = Rows::of(&bench);
        assert_eq!(rows.number("SELECT count(*) FROM attempts WHERE kind = 'filler'").await, 1);
        assert_eq!(rows.number("SELECT count(*) FROM slots WHERE outcome IS NULL").await, 0);
        Metrics::until_counted(&bench, &[("gaps_filled", 1), ("foreign_nonces", 1)]).await;
    }

    /// Fees rise beyond what the signer has, its money goes, and the node loses what it held: a replacement offers no more than the
    /// signer can pay, and when that is too much as well, what it offered before is sent, and mined once fees are down.
    async fn the_signer_cannot_pay_for_its_replacement(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let [signer] = bench.signers[..] else { panic!("{:?}", bench.signers) };
        let base_fee = |wei| bench.anvil.set_next_block_base_fee(wei);
        base_fee(GWEI).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let has = U256::from(1_000_000 * GWEI);
        bench.anvil.set_balance(signer, has).await.unwrap();
        let payment = long_payment(&bench).await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let first = bench.sent()[0];
        let gas = bench.field(first, "gas").await;
        let (first_offer, _) = bench.fees_of(first).await;
        bench.anvil.drop_all().await.unwrap();
        base_fee(400 * GWEI).await.unwrap();
        bench.anvil.mine(1).await.unwrap();

        let rows = Rows::of(&bench);
        let offers = "SELECT max_fee_per_gas FROM attempts ORDER BY sequence";
        let offers = || async { rows.texts(offers).await.iter().map(|wei| wei.parse().unwrap()).collect::<Vec<u128>>() };
        until("a replacement", DEADLINE, || async { (offers().await.len() > 1).then_some(()) }).await;
        for offer in offers().await {
            assert!(U256::from(offer * gas) <= has, "{offer} for each of {gas}, of {has}");
        }
        bench.anvil.set_balance(signer, U256::from(first_offer * gas)).await.unwrap();
        bench.anvil.drop_all().await.unwrap();
        base_fee(GWEI).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        // One block after the other, none of them dearer.
        let told = until("blocks enough", DEADLINE, || async {
            base_fee(GWEI).await.unwrap();
            bench.anvil.mine(1).await.unwrap();
            call.is_finished().then_some(())
        });
        told.await;
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), first);
        bench.assert_one_transaction_paid(&payment, first).await;
    }
}

/// A node of another chain, on which our signer has done much, and where it is tomorrow.
async fn another_chain(bench: &Bench) -> (Anvil, DevChain) {
    let other = Anvil::builder().chain_id(8453).spawn().await.unwrap();
    let chain = DevChain::deploy(&other).await.unwrap();
    assert_eq!(chain.token, bench.chain.token);
    other.set_nonce(bench.signers[0], 5_000).await.unwrap();
    other.increase_time(86_400).await.unwrap();
    other.mine(1).await.unwrap();
    (other, chain)
}

/// The preferred endpoint answers for another chain for some time, while a payment is on its way.
async fn on_another_chain_for_a_while(setup: Setup) {
    const CHAIN_ID: &str = "eth_chainId";
    let bench = setup.no_mining().start().await;
    let (other, _chain) = another_chain(&bench).await;
    let payment = long_payment(&bench).await;
    let call = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let hash = bench.sent()[0];
    bench.proxy.reset_records();
    bench.proxy.set_upstream(other.url());
    // A look that would conclude something asks for this first; the second one does so too, and it has not concluded.
    until("looks that conclude nothing", DEADLINE, || async {
        (call.is_finished() || bench.proxy.count_answered(CHAIN_ID) >= 3).then_some(())
    })
    .await;
    assert_eq!(bench.row(&payment).await["status"], "signed");
    assert!(!call.is_finished());
    let rows = Rows::of(&bench);
    assert_eq!(rows.number("SELECT max(nonce_floor) FROM lanes").await, 0);
    assert_eq!(rows.number("SELECT count(*) FROM slots WHERE outcome IS NULL").await, 1);
    assert_eq!(rows.number("SELECT count(*) FROM attempts").await, 1);
    bench.proxy.set_upstream(bench.anvil.url());
    bench.anvil.set_interval_mining(1).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().success_of(&payment), hash);
    let next = long_payment(&bench).await;
    let next_call = until("the next payment", DEADLINE, || async {
        let reply = bench.settle(&next).await;
        (reply.status == 200).then_some(reply)
    });
    next_call.await.success_of(&next);
    bench.assert_paid_once(&[payment, next]).await;
    assert_eq!(bench.mined_by(bench.signers[0]).await.into_keys().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(rows.number("SELECT count(*) FROM attempts").await, 2, "no filler");
}

on_both_stores! {
    /// The only endpoint does.
    async fn a_node_of_another_chain_concludes_nothing(store) {
        on_another_chain_for_a_while(Setup::new(store)).await;
    }
}

on_sqlite! {
    /// There is another endpoint, and it is right.
    async fn a_node_of_another_chain_beside_a_right_one(store) {
        on_another_chain_for_a_while(Setup::new(store).second_endpoint()).await;
    }
}

/// Two replicas with a signer each: one has the lease, and the other looks after its own lane all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_keeps_its_own_signers_lane() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().start().await;
    let config = bench.config.clone().on_other_ports().unwrap().env("DEV_SIGNER_0", dev_key(1));
    let other = QuittanceProcess::start(env!("CARGO_BIN_EXE_quittance"), config).await.unwrap();
    let client = other.client().unwrap();
    let builder = bench.builder().await.max_timeout_seconds(600);
    let [theirs, ours] = [1_000_u64, 2_000].map(|amount| builder.clone().amount(amount).sign());
    let body = theirs.body().clone();
    let their_call = tokio::spawn(async move { settle_at(&client, &body).await });
    let database = bench.database();
    until("the lease of the other replica", DEADLINE, || async {
        (database.number("SELECT count(*) FROM keepers").await == 1).then_some(())
    })
    .await;
    let holder = "SELECT count(DISTINCT holder) + max(epoch) FROM keepers";
    let held = database.number(holder).await;
    let our_call = bench.settling(&ours);
    until("both are signed", DEADLINE, || async {
        (database.number("SELECT count(*) FROM slots").await == 2).then_some(())
    })
    .await;
    bench.anvil.set_next_block_base_fee(60 * GWEI).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    until("both are replaced", DEADLINE, || async {
        let replaced = "SELECT count(DISTINCT slot_id) FROM attempts WHERE sequence > 0";
        (database.number(replaced).await == 2).then_some(())
    })
    .await;
    assert_eq!(database.number(holder).await, held, "the lease has not changed hands");
    bench.anvil.set_interval_mining(1).await.unwrap();
    let success = |reply: Option<Reply>, payment: &SignedPayment| reply.unwrap().success_of(payment);
    success(our_call.await.unwrap(), &ours);
    success(their_call.await.unwrap(), &theirs);
    bench.assert_paid_once(&[theirs, ours]).await;
}
