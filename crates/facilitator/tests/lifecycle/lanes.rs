//! Signers, their nonces, and what stands in their way.

use crate::support::{Bench, DEADLINE, SEND, Setup, StoreKind, Told, until};
use alloy_primitives::{Address, B256, U256};
use quittance_testkit::{
    Facilitator, dev_address,
    harness::{Fault, Rule},
    jsonrpc::{hex_quantity, quantity},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Transactions of a signer by nonce, from all blocks since the server started.
async fn mined_by(bench: &Bench, signer: Address) -> BTreeMap<u64, Value> {
    let last = bench.anvil.client().block_number().await.unwrap();
    let mut mined = BTreeMap::new();
    for number in bench.started_at + 1..=last {
        let block =
            bench.anvil.rpc("eth_getBlockByNumber", json!([hex_quantity(number), true])).await.unwrap();
        for transaction in block["transactions"].as_array().unwrap() {
            if transaction["from"].as_str().unwrap().parse::<Address>().unwrap() == signer {
                mined.insert(quantity(&transaction["nonce"]).unwrap(), transaction.clone());
            }
        }
    }
    mined
}

on_both_stores! {
    /// The nonce is gone, and the signer has nothing left: another one signs again.
    async fn signed_again_by_a_signer_that_can_pay(store) {
        let bench = Setup::new(store).no_mining().signers(2).start().await;
        let [poor, rich] = bench.signers[..] else { panic!("{:?}", bench.signers) };
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        let outside = bench.chain.send(poor, Some(dev_address(8)), Default::default()).await.unwrap();
        assert!(outside.success);
        bench.anvil.set_balance(poor, U256::ZERO).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let hash = call.await.unwrap().unwrap().success_of(&payment);
        bench.assert_paid_once(&[payment]).await;
        let mined = mined_by(&bench, rich).await;
        assert_eq!(mined[&0]["hash"], hash.to_string());
        // The other signer's nonce went to the stranger, and nothing of ours is left behind it.
        assert_eq!(bench.anvil.nonce(poor, true).await.unwrap(), 1);
        let sent: Vec<B256> = bench.sent().into_iter().filter(|sent| *sent != hash).collect();
        assert!(sent.windows(2).all(|pair| pair[0] == pair[1]), "signed again by a signer without money");
    }
}

/// Nonces that no transaction of ours holds: they are filled, one after the other, and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holes_are_filled_with_nothing() {
    let bench = Setup::new(StoreKind::Postgres).block_time(1).start().await;
    let first = bench.payment().await;
    bench.settle(&first).await.success_of(&first);
    // An operator, or a restored backup, lets two nonces go.
    bench.database().run("UPDATE lanes SET nonce_floor = 3").await;
    let payment = bench.payment().await;
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_paid_once(&[first, payment]).await;
    let signer = bench.signers[0];
    let mined = mined_by(&bench, signer).await;
    assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(mined[&3]["hash"], hash.to_string());
    for nonce in [1, 2] {
        let filler = &mined[&nonce];
        assert_eq!(filler["to"].as_str().unwrap().parse::<Address>().unwrap(), signer, "{filler}");
        assert_eq!((&filler["value"], &filler["input"]), (&json!("0x0"), &json!("0x")), "{filler}");
    }
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts WHERE kind = 'filler'").await, 2);
    let operator = Facilitator::new(bench.server.operator_url()).unwrap();
    let metrics = operator.get("/metrics").await.unwrap().text;
    assert!(metrics.contains(r#"quittance_gaps_filled_total{network="eip155:84532"} 2"#), "{metrics}");
}

/// A replacement is stored and sent, and the chain takes the original: its receipt decides, whatever came later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_original_is_mined_after_its_replacement() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().start().await;
    let payment = bench.payment().await;
    // The node hears of the first one alone.
    bench.proxy.add(Rule::on(SEND).skip(1).then(Fault::Swallow));
    let call = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let original = bench.sent()[0];
    let base_fee = |wei| bench.anvil.set_next_block_base_fee(wei);
    base_fee(100_000_000_000).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let replaced = until("a replacement", DEADLINE, || async {
        bench.sent().into_iter().find(|hash| *hash != original)
    })
    .await;
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts").await, 2);
    let newest = bench.row(&payment).await;
    assert_eq!(newest["transaction"], replaced.to_string());
    // Anvil lets go of what its next block cannot take; another node had it all the time.
    base_fee(1_000).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let raw = &bench.proxy.calls_of(SEND)[0].params;
    bench.anvil.rpc(SEND, raw.clone()).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let hash = call.await.unwrap().unwrap().success_of(&payment);
    assert_eq!(hash, original);
    bench.assert_one_transaction_paid(&payment, original).await;
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(original));
}
