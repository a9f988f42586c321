//! What others do with the payer's authorization, and with our signer's key.

mod accepted;

use crate::support::{DEADLINE, SEND, Setup, StoreKind, Told, USED, until};
use quittance_testkit::{
    dev_address,
    harness::{Fault, Rule, process::Wait, proxy::Call},
    jsonrpc::quantity,
};

on_both_stores! {
    /// Somebody else's transaction executes the authorization first.
    async fn foreign_settlement(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        assert!(theirs.success);
        bench.anvil.set_interval_mining(1).await.unwrap();
        let first = call.await.unwrap().unwrap().told();
        assert_eq!(first, Told::no(USED, theirs.transaction));
        assert_eq!(bench.settle(&payment).await.told(), first);
        let row = bench.row(&payment).await;
        assert_eq!((&row["status"], &row["transaction"]), (&"settled_elsewhere".into(), &theirs.transaction.to_string().into()));
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        let transfers = bench.transfers().await;
        assert_eq!((transfers.len(), transfers[0].transaction), (1, theirs.transaction));
    }

    /// The signer's key was used elsewhere: its nonce is gone, the payment is not.
    async fn nonce_taken_from_outside(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payments = bench.payments(4).await;
        bench.proxy.add(Rule::on(SEND).times(4).then(Fault::Swallow));
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 4).await.unwrap();
        let outside = bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        assert!(outside.success);
        bench.anvil.set_interval_mining(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&payments) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (5, 5));
        let next = bench.payment().await;
        bench.settle(&next).await.success_of(&next);
    }
}

/// A node that gives logs of so many blocks at a time and no more.
fn at_most(blocks: u64) -> Rule {
    let is_more = move |call: &Call| {
        let block = |name: &str| quantity(&call.params[0][name]).unwrap();
        block("toBlock") - block("fromBlock") >= blocks
    };
    Rule::on("eth_getLogs").when(is_more).then(Fault::error(-32600, "up to a 10 block range"))
}

on_both_stores! {
    /// The server was away for many times as many blocks as its node gives logs of. One payment was signed, one only promised;
    /// somebody else has settled both.
    async fn settled_elsewhere_long_ago(store) {
        let mut bench = Setup::new(store).no_mining().started_ago(5_000).start().await;
        bench.anvil.mine(200).await.unwrap();
        bench.anvil.increase_time(4_700).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let builder = bench.builder().await.max_timeout_seconds(1_000_000);
        let (signed, promised) = (builder.clone().sign(), builder.sign());
        bench.verify(&promised).await.valid();
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let call = bench.settling(&signed);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        bench.server.kill9();
        assert_eq!(call.await.unwrap(), None);
        let [first, second] = [
            bench.chain.settle_elsewhere(&signed).await.unwrap(),
            bench.chain.settle_elsewhere(&promised).await.unwrap(),
        ];
        assert!(first.success && second.success);
        bench.anvil.mine(1_500).await.unwrap();
        bench.proxy.add(at_most(10));
        bench.server.restart(Wait::Ready).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let row = bench.until_status(&signed, "settled_elsewhere").await;
        assert_eq!(row["transaction"], first.transaction.to_string());
        until("the transaction that used the promise", DEADLINE, || async {
            let told = bench.settle(&promised).await.told();
            (told == Told::no(USED, second.transaction)).then_some(())
        })
        .await;
        assert_eq!(bench.row(&promised).await["status"], "settled_elsewhere");
        assert_eq!(bench.transfers().await.len(), 2);
        let asked = bench.proxy.count("eth_getLogs");
        assert!(asked < 75, "{asked} questions, for half of all blocks would have been enough");
    }

    /// The payer takes the authorization back after we have sent it.
    async fn canceled_by_the_payer(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        assert!(bench.chain.cancel_authorization(&payment).await.unwrap().success);
        bench.anvil.set_interval_mining(1).await.unwrap();
        let Told::No(code, _) = call.await.unwrap().unwrap().told() else { panic!("a canceled payment settled") };
        assert_eq!(code, USED);
        assert_eq!(bench.row(&payment).await["status"], "failed");
        bench.assert_nothing_moved().await;
    }

    /// The signer was used elsewhere while nothing was on its way: the next payment does not stumble.
    async fn signer_used_outside_between_payments(store) {
        let bench = Setup::new(store).start().await;
        let first = bench.payment().await;
        bench.settle(&first).await.success_of(&first);
        for _ in 0..3 {
            bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        }
        let next = bench.payments(3).await;
        for (reply, payment) in bench.settle_all(&next).await.iter().zip(&next) {
            reply.success_of(payment);
        }
        bench.assert_paid_once(&[&[first], &next[..]].concat()).await;
    }

    /// Nobody mines it until it is too late: told so, the nonce filled, the lane free.
    async fn expired_before_it_was_mined(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let now = bench.chain.client().block_timestamp().await.unwrap();
        let short = bench.builder().await.valid_before(now + 60).sign();
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let call = bench.settling(&short);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        bench.anvil.increase_time(120).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let told = call.await.unwrap().unwrap().told();
        assert!(matches!(&told, Told::No(code, _) if code == "invalid_exact_evm_payload_authorization_valid_before"), "{told:?}");
        assert_eq!(bench.row(&short).await["status"], "failed");
        assert_eq!(bench.mined().await, 1, "the nonce was to be filled, or used up by the dead payment");
        let next = bench.builder().await.max_timeout_seconds(600).sign();
        bench.settle(&next).await.success_of(&next);
        bench.assert_paid_once(&[next]).await;
    }
}

/// Both at once: executed by somebody else, and our nonce taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_settlement_and_nonce_taken() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().start().await;
    let payment = bench.payment().await;
    bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
    let call = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
    bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
    bench.anvil.set_interval_mining(1).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().told(), Told::no(USED, theirs.transaction));
    assert_eq!(bench.row(&payment).await["status"], "settled_elsewhere");
    assert_eq!(bench.transfers().await.len(), 1);
}

/// What became of one payment cannot be read: that one waits, and no other does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_read_holds_up_no_other() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().start().await;
    let payment = bench.payment().await;
    bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
    let unreadable = bench
        .proxy
        .add(Rule::on("eth_getLogs").then(Fault::error(-32005, "query returned too many results")));
    let call = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
    bench.anvil.set_interval_mining(1).await.unwrap();
    bench.proxy.wait_for("eth_getLogs", 1).await.unwrap();
    let others = bench.payments(5).await;
    for (reply, other) in bench.settle_all(&others).await.iter().zip(&others) {
        reply.success_of(other);
    }
    assert_eq!(bench.row(&payment).await["status"], "signed");
    bench.proxy.remove(unreadable);
    assert_eq!(call.await.unwrap().unwrap().told(), Told::no(USED, theirs.transaction));
}
