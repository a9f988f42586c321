//! Bytes that a node took and lost, or never passed on.

use crate::support::{RECEIPT, SEND, Setup, StoreKind, Told, USED};
use quittance_testkit::{
    Anvil,
    harness::{Fault, Rule},
};
use serde_json::Value;

on_both_stores! {
    /// The preferred node says yes to everything, for ever, and keeps nothing.
    async fn first_endpoint_swallows_for_ever(store) {
        let bench = Setup::new(store).second_endpoint().no_mining().start().await;
        let second = bench.second_proxy.as_ref().unwrap();
        bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let payments = bench.payments(3).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 3).await.unwrap();
        assert_eq!(second.count(SEND), 0, "the first send goes to the preferred one alone");
        bench.anvil.set_interval_mining(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&payments) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (3, 3));
        // Identical bytes are the identical transaction.
        let raw = |calls: Vec<quittance_testkit::harness::proxy::Call>| {
            let mut raw: Vec<Value> = calls.into_iter().map(|call| call.params[0].clone()).collect();
            raw.sort_by_key(Value::to_string);
            raw.dedup();
            raw
        };
        assert_eq!(raw(bench.proxy.calls_of(SEND)), raw(second.calls_of(SEND)));
    }

    /// The preferred node is cut off from the network: it answers, takes everything, and nothing it holds is ever mined.
    async fn first_endpoint_is_cut_off(store) {
        let bench = Setup::new(store).second_endpoint().no_mining().start().await;
        let island = Anvil::builder().fork_url(bench.anvil.url()).no_mining().spawn().await.unwrap();
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        bench.proxy.set_upstream(island.url());
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        assert_eq!(bench.known_to_the_node().await, 0);
        bench.anvil.set_interval_mining(1).await.unwrap();
        let hash = call.await.unwrap().unwrap().success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
        assert_eq!(island.nonce(bench.signers[0], false).await.unwrap(), 0);
    }

    /// One has reverted, and what that means cannot be read: what stands behind it and was lost is sent again all the same.
    async fn one_that_cannot_be_concluded_stops_no_rebroadcast(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let (first, second) = (bench.payment().await, bench.payment().await);
        bench.proxy.add(Rule::on("eth_getLogs").then(Fault::error(-32005, "query returned too many results")));
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Hang));
        let unreadable = bench.settling(&first);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let theirs = bench.chain.settle_elsewhere(&first).await.unwrap().transaction;
        bench.proxy.release();
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.mined().await, 1, "ours, reverted");
        let call = bench.settling(&second);
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        let hash = bench.sent()[1];
        assert!(bench.anvil.drop_transaction(hash).await.unwrap());
        bench.proxy.wait_answered(SEND, 3).await.unwrap();
        assert_eq!(bench.row(&first).await["status"], "signed");
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&second), hash);
        bench.proxy.clear();
        assert_eq!(unreadable.await.unwrap().unwrap().told(), Told::no(USED, theirs));
        assert_eq!(bench.transfers().await.len(), 2);
    }

    /// An endpoint that knows nothing and says so with errors keeps nobody from sending again what the other one has lost.
    async fn an_endpoint_that_cannot_be_read_stops_no_rebroadcast(store) {
        let bench = Setup::new(store).second_endpoint().no_mining().start().await;
        let second = bench.second_proxy.as_ref().unwrap();
        second.add(Rule::on(RECEIPT).then(Fault::error(-32005, "request rate limited")));
        second.add(Rule::on(SEND).then(Fault::error(-32005, "request rate limited")));
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let hash = bench.sent()[0];
        assert!(bench.anvil.drop_transaction(hash).await.unwrap());
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), hash);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}
