//! Payments whose window opens in the next block: only its time is believed, and nothing that nobody has mined.

use crate::support::{Bench, SEND, Setup, StoreKind, Told, USED, unix_now, until};
use alloy_primitives::{Address, Bytes, U256, hex};
use alloy_sol_types::SolValue as _;
use quittance_testkit::{
    PaymentBuilder, dev_address, dev_signer,
    harness::{Fault, Rule},
};
use serde_json::{Value, json};
use std::time::Duration;

const POOR: &str = "invalid_exact_evm_insufficient_balance";
/// What each payer has.
const PURSE: u64 = 1_000_000_000;
const CALL: &str = "eth_call";
/// A dev account that has money, and one that has none.
const RICH: usize = 5;
const PENNILESS: usize = 3;

/// Describes payments that the latest block does not allow yet, and the wall clock does.
async fn opening_now(bench: &Bench) -> PaymentBuilder {
    let latest = bench.anvil.client().block_timestamp().await.unwrap();
    until("the second after the latest block", Duration::from_secs(10), || async {
        (unix_now() > latest).then_some(())
    })
    .await;
    bench.builder().await.valid_after(latest)
}

/// A call of the token that is in no block yet.
async fn in_the_pool(bench: &Bench, from: Address, data: Bytes) {
    let transaction = json!([{ "from": from, "to": bench.chain.token, "data": data }]);
    bench.anvil.rpc("eth_sendTransaction", transaction).await.unwrap();
}

async fn on_its_way(bench: &Bench, from: Address, to: Address, amount: u64) {
    let transfer = [&hex!("a9059cbb")[..], &(to, U256::from(amount)).abi_encode()].concat();
    in_the_pool(bench, from, transfer.into()).await;
}

/// The blocks that facts were asked of.
fn asked_of(bench: &Bench) -> Vec<Value> {
    bench.proxy.calls_of(CALL).iter().map(|call| call.params[1].clone()).collect()
}

on_both_stores! {
    /// What is promised on it, and settled, would revert at the operator's cost when the transfer never comes.
    async fn money_on_its_way_is_not_there(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payer = dev_signer(PENNILESS);
        on_its_way(&bench, dev_address(RICH), payer.address(), 1_000).await;
        let builder = opening_now(&bench).await;
        let payment = builder.clone().payer(payer).amount(1_000_u64).sign();
        bench.proxy.reset_records();
        assert_eq!(bench.verify(&payment).await.invalid(), POOR);
        assert_eq!(asked_of(&bench), ["latest", "pending"]);
        assert_eq!(bench.settle(&payment).await.told(), Told::no(POOR, ""));
        assert_eq!(bench.proxy.count(SEND), 0);
        // Who has it already pays in the next block.
        bench.verify(&builder.sign()).await.valid();

        bench.anvil.mine(1).await.unwrap();
        bench.verify(&payment).await.valid();
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        call.await.unwrap().unwrap().success_of(&payment);
    }

    async fn money_on_its_way_elsewhere_is_gone(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let builder = opening_now(&bench).await.amount(PURSE);
        let payment = builder.sign();
        on_its_way(&bench, payment.payer(), dev_address(RICH), 1).await;
        assert_eq!(bench.verify(&payment).await.invalid(), POOR);
        bench.verify(&builder.amount(PURSE - 1).sign()).await.valid();
    }

    /// The last block of the facts is the latest one: what was settled in the next one is not in the balance that they show.
    async fn a_purse_emptied_in_the_next_block(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let first = bench.builder().await.amount(PURSE).sign();
        bench.verify(&first).await.valid();
        let second = opening_now(&bench).await.amount(PURSE).sign();
        bench.proxy.reset_records();
        let pending = Rule::on(CALL).when(|call| call.params[1] == "pending");
        let held = bench.proxy.add(pending.then(Fault::held_answer()));
        let (client, body) = (bench.client.clone(), second.body().clone());
        let asked = tokio::spawn(async move { client.verify(&body).await.unwrap() });
        bench.proxy.wait_answered(CALL, 2).await.unwrap();
        assert_eq!(bench.proxy.hits(held), 1);

        let call = bench.settling(&first);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        call.await.unwrap().unwrap().success_of(&first);
        bench.proxy.release();
        let (status, json) = asked.await.unwrap();
        assert_eq!((status, &json["invalidReason"]), (200, &POOR.into()), "{json}");
        assert_eq!(bench.rows(&second).await, Vec::<Value>::new());
    }

    /// A verdict, and no outage until the block is there that the time was taken from.
    async fn what_is_not_covered_is_refused_at_once(store) {
        let bench = Setup::new(store).no_mining().start().await;
        bench.verify(&bench.builder().await.amount(PURSE).sign()).await.valid();
        let second = opening_now(&bench).await.amount(PURSE).sign();
        assert_eq!(bench.verify(&second).await.invalid(), POOR);
        assert_eq!(bench.settle(&second).await.told(), Told::no(POOR, ""));
    }

    async fn a_nonce_that_is_used_in_the_next_block(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = opening_now(&bench).await.sign();
        in_the_pool(&bench, dev_address(RICH), payment.transfer_call()).await;
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
    }
}
