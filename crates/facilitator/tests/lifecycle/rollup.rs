//! A chain whose EVM shows contracts another chain's block number, as Arbitrum's do.

use crate::{
    kept::{FACTORY, strict_factory, undeployed},
    support::{Bench, SEND, Setup, StoreKind, Told},
};
use alloy_primitives::{Address, B256, U256, address, hex};
use quittance_testkit::{
    dev_signer,
    harness::{Fault, Rule, proxy::RuleId},
    jsonrpc::hex_quantity,
};
use serde_json::{Value, json};

/// Where such a chain tells its own number.
const ARB_SYS: Address = address!("0000000000000000000000000000000000000064");
/// What each payer has.
const PURSE: u64 = 1_000_000_000;
/// A dev account that has nothing.
const PENNILESS: usize = 3;

/// What the server has the EVM run sees another chain's number; in an old block, if one is given.
fn shows_another_number(bench: &Bench, old_block: Option<u64>) -> RuleId {
    let with_another_number = move |mut params: Value| {
        let given = params.as_array_mut().unwrap();
        if let Some(number) = old_block {
            given[1] = json!(hex_quantity(number));
        }
        given.extend([json!({}), json!({ "number": "0x7" })]);
        params
    };
    let creates = Rule::on("eth_call").when(|call| call.params[0].get("to").is_none());
    bench.proxy.add(creates.then(Fault::rewrite_params(with_another_number)))
}

/// So many blocks, of which the last says its number.
async fn mine(bench: &Bench, blocks: u64) {
    bench.anvil.mine(blocks).await.unwrap();
    says_its_number(bench).await;
}

async fn says_its_number(bench: &Bench) {
    let number = bench.anvil.client().block_number().await.unwrap();
    let code = [&hex!("67")[..], &number.to_be_bytes(), &hex!("60005260206000f3")].concat();
    bench.anvil.set_code(ARB_SYS, &code.into()).await.unwrap();
}

async fn a_rollup(setup: Setup) -> Bench {
    let bench = setup.no_mining().start().await;
    says_its_number(&bench).await;
    shows_another_number(&bench, None);
    bench
}

on_both_stores! {
    /// The payment that did not deploy the wallet goes on as soon as facts are as young as its receipt.
    async fn a_wallet_that_another_payment_has_deployed(store) {
        let bench = a_rollup(Setup::new(store).wallet_factory(FACTORY)).await;
        strict_factory(&bench).await;
        let payments = undeployed(&bench, B256::ZERO, 2).await;
        says_its_number(&bench).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.until_known(2).await;
        mine(&bench, 1).await;
        bench.until_known(3).await;
        mine(&bench, 1).await;
        let mut told = Vec::new();
        for (call, payment) in calls.into_iter().zip(&payments) {
            told.push((payment, call.await.unwrap().unwrap().success_of(payment)));
        }
        bench.assert_executed_by(&told).await;
    }

    /// The node that is asked at `/settle` does not know the payer's money yet.
    async fn a_promise_judged_by_a_node_one_block_behind(store) {
        let bench = Setup::new(store).no_mining().start().await;
        says_its_number(&bench).await;
        let before = bench.anvil.client().block_number().await.unwrap();
        let payer = dev_signer(PENNILESS);
        bench.chain.mint(bench.chain.token, payer.address(), U256::from(20_000)).await.unwrap();
        says_its_number(&bench).await;
        let in_time = shows_another_number(&bench, None);
        let payment = bench.builder().await.payer(payer).valid_after(0_u64).sign();
        bench.verify(&payment).await.valid();
        bench.proxy.remove(in_time);
        let late = shows_another_number(&bench, Some(before));
        assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
        assert_eq!(bench.row(&payment).await["status"], "reserved");

        bench.proxy.remove(late);
        shows_another_number(&bench, None);
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        mine(&bench, 1).await;
        call.await.unwrap().unwrap().success_of(&payment);
    }

    /// What is settled is in the balance already: it is not looked at again for each payment that follows.
    async fn a_payer_who_has_paid_before(store) {
        let bench = a_rollup(Setup::new(store)).await;
        let builder = bench.builder().await.payer(dev_signer(4)).amount(PURSE / 2);
        let (first, second) = (builder.sign(), builder.sign());
        let call = bench.settling(&first);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        mine(&bench, 1).await;
        call.await.unwrap().unwrap().success_of(&first);
        bench.proxy.reset_records();
        bench.verify(&second).await.valid();
        let asked: Vec<_> = bench.proxy.calls().into_iter().map(|call| call.method).collect();
        assert_eq!(asked, ["eth_call"]);
    }
}
