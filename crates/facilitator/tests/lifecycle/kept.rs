//! What `/verify` accepted `/settle` accepts, and who was told that nothing was decided is not paid for a moment later.

use crate::support::{Bench, DEADLINE, Rows, Setup, StoreKind, Told, USED, until};
use alloy_primitives::{Address, B256, Bytes, U256, address, hex};
use alloy_sol_types::SolValue as _;
use quittance_testkit::{
    DevChain, SignedPayment, dev_signer,
    harness::{Fault, Rule},
    jsonrpc::hex_quantity,
};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use std::any::Any;

pub(crate) const FACTORY: Address = address!("fac0000000000000000000000000000000000001");

/// While this is held nobody gets a nonce of any lane. Dropped, they are free again.
async fn hold_lanes(bench: &Bench) -> Box<dyn Any> {
    let rows = Rows::of(bench);
    match &rows {
        Rows::Sqlite(_) => Box::new(rows.hold_writes().await),
        Rows::Postgres(url) => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql("BEGIN; SELECT * FROM lanes FOR UPDATE").execute(&mut connection).await.unwrap();
            Box::new(connection)
        }
    }
}

/// Puts a factory there that reverts for a wallet that exists, as Safe's does: one word with the wallet's address, and then what
/// is passed on to the bench's own factory.
pub(crate) async fn strict_factory(bench: &Bench) {
    let code = [
        &hex!("5f353b6032576020360360205f375f5f602036035f5f73")[..],
        bench.chain.wallet_factory.as_slice(),
        &hex!("5af115603257005b5f5ffd"),
    ];
    bench.anvil.set_code(FACTORY, &code.concat().into()).await.unwrap();
}

/// Payments of one wallet that is not there yet.
pub(crate) async fn undeployed(bench: &Bench, salt: B256, count: usize) -> Vec<SignedPayment> {
    let owner = dev_signer(4);
    let wallet = bench.chain.wallet_address(owner.address(), salt).await.unwrap();
    bench.chain.mint(bench.chain.token, wallet, U256::from(1_000_000)).await.unwrap();
    let create = DevChain::wallet_calldata(owner.address(), salt);
    let create: Bytes = [wallet.abi_encode(), create.to_vec()].concat().into();
    let builder = bench.builder().await.wallet(wallet, owner);
    (0..count).map(|_| builder.clone().sign().erc6492(FACTORY, &create)).collect()
}

/// Facts come from a block that is this old.
fn facts_of(block: u64) -> Rule {
    let at_an_old_block = move |mut params: Value| {
        params[1] = json!(hex_quantity(block));
        params
    };
    Rule::on("eth_call").then(Fault::rewrite_params(at_an_old_block))
}

on_both_stores! {
    /// One of them deploys the wallet, and the others' deployments revert: these are executed by the transfer alone. Once, and not
    /// again and again.
    async fn payments_of_one_wallet_that_is_not_there_yet(store) {
        let bench = Setup::new(store).wallet_factory(FACTORY).no_mining().confirmations(2).start().await;
        strict_factory(&bench).await;
        let payments = undeployed(&bench, B256::ZERO, 3).await;
        for payment in &payments {
            bench.verify(payment).await.valid();
        }
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.until_known(3).await;
        bench.anvil.mine(1).await.unwrap();
        for payment in &payments {
            bench.until_status(payment, "mined").await;
        }
        bench.anvil.mine(1).await.unwrap();
        bench.until_known(5).await;
        bench.anvil.mine(2).await.unwrap();
        let mut told = Vec::new();
        for (call, payment) in calls.into_iter().zip(&payments) {
            told.push((payment, call.await.unwrap().unwrap().success_of(payment)));
            assert_eq!(bench.row(payment).await["status"], "settled");
        }
        bench.assert_executed_by(&told).await;

        let [first, second] = &undeployed(&bench, B256::repeat_byte(1), 2).await[..] else { unreachable!() };
        let first_call = bench.settling(first);
        bench.until_known(6).await;
        let second_call = bench.settling(second);
        bench.until_known(7).await;
        bench.anvil.mine(2).await.unwrap();
        first_call.await.unwrap().unwrap().success_of(first);
        bench.until_known(8).await;
        let token = bench.chain.code(first.asset()).await.unwrap();
        bench.anvil.set_code(first.asset(), &hex!("5f5ffd").into()).await.unwrap();
        bench.anvil.mine(2).await.unwrap();
        bench.anvil.set_code(first.asset(), &token).await.unwrap();
        assert!(matches!(second_call.await.unwrap().unwrap().told(), Told::No(..)));
        assert_eq!(bench.row(second).await["status"], "failed");
        assert!(!bench.is_used(second).await);
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (8, 8));
    }

    /// The payer's money is a block old, and the node that is asked at `/settle` a block late: that is no proof that it is not there.
    async fn a_promise_judged_by_a_node_one_block_behind(store) {
        let bench = Setup::new(store).second_endpoint().start().await;
        let second = bench.second_proxy.as_ref().unwrap();
        let before = bench.chain.client().block_number().await.unwrap();
        let payer = dev_signer(3);
        bench.chain.mint(bench.chain.token, payer.address(), U256::from(20_000)).await.unwrap();
        let builder = bench.builder().await.payer(payer).valid_after(0_u64);
        let payments = [builder.clone().sign(), builder.sign()];
        for payment in &payments {
            bench.verify(payment).await.valid();
        }
        bench.proxy.add(facts_of(before));
        let late = second.add(facts_of(before));
        assert_eq!(bench.settle(&payments[0]).await.told(), Told::Unavailable);
        assert_eq!(bench.row(&payments[0]).await["status"], "reserved");
        second.remove(late);
        // The other endpoint knows better.
        bench.settle(&payments[0]).await.success_of(&payments[0]);
        bench.proxy.clear();
        bench.settle(&payments[1]).await.success_of(&payments[1]);
        for payment in &payments {
            assert!(bench.is_used(payment).await);
        }
        assert_eq!(bench.mined().await, 2);
    }

    /// The process that promised is gone, and the next one's first facts are older than the promise.
    async fn a_promise_of_another_process_judged_by_a_late_node(store) {
        let mut bench = Setup::new(store).start().await;
        let before = bench.chain.client().block_number().await.unwrap();
        let payer = dev_signer(3);
        bench.chain.mint(bench.chain.token, payer.address(), U256::from(10_000)).await.unwrap();
        let payment = bench.builder().await.payer(payer).valid_after(0_u64).sign();
        bench.verify(&payment).await.valid();
        let late = bench.proxy.add(facts_of(before));
        bench.crash_and_restart().await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        bench.proxy.remove(late);
        bench.settle(&payment).await.success_of(&payment);
    }

    /// "Used" and not yet how is no last word: the same key is told the rest.
    async fn a_key_keeps_no_refusal_of_what_is_still_promised(store) {
        let bench = Setup::new(store).confirmations(3).start().await;
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        let theirs = bench.chain.settle_elsewhere(&payment).await.unwrap();
        assert!(theirs.success);
        assert_eq!(bench.settle_with_key(&payment, "key").await.told(), Told::no(USED, ""));
        assert_eq!(bench.row(&payment).await["status"], "reserved");
        bench.anvil.mine(2).await.unwrap();
        let ended = Told::no(USED, theirs.transaction);
        let told = until("how it ended", DEADLINE, || async {
            let told = bench.settle_with_key(&payment, "key").await.told();
            (told != Told::no(USED, "")).then_some(told)
        });
        assert_eq!(told.await, ended);
        assert_eq!(bench.row(&payment).await["status"], "settled_elsewhere");
        assert_eq!(bench.settle_with_key(&payment, "key").await.told(), ended);
        assert!(bench.sent().is_empty());
    }

    /// The lane is in other hands for longer than the callers can wait: nothing is signed behind their backs. What was promised
    /// stays promised, what was not is free at once.
    async fn what_could_not_be_signed_in_time_is_not_signed(store) {
        let bench = Setup::new(store).set("server.request_timeout_ms", 2_000.into()).start().await;
        let [first, promised, fresh, last] = &bench.payments(4).await[..] else { unreachable!() };
        bench.settle(first).await.success_of(first);
        bench.verify(promised).await.valid();
        let held = hold_lanes(&bench).await;
        let calls = [bench.settling(promised), bench.settling(fresh)];
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().told(), Told::Unavailable);
        }
        drop(held);
        // Comes after them in every queue.
        bench.settle(last).await.success_of(last);
        bench.until_status(fresh, "refused").await;
        bench.verify(fresh).await.valid();
        assert_eq!(bench.row(promised).await["status"], "reserved");
        assert_eq!(bench.sent().len(), 2);
        for payment in [promised, fresh] {
            bench.settle(payment).await.success_of(payment);
        }
        bench.assert_paid_once(&[first.clone(), promised.clone(), fresh.clone(), last.clone()]).await;
        assert_eq!(bench.mined().await, 4);
    }
}
