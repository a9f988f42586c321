//! Signers, their nonces, and what stands in their way.

use crate::support::{Metrics, Rows, SEND, Setup, StoreKind, Told, USED};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use quittance_testkit::{
    dev_accounts::dev_key,
    dev_address,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::json;

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
        let mined = bench.mined_by(rich).await;
        assert_eq!(mined[&0]["hash"], hash.to_string());
        Metrics::until_counted(&bench, &[("foreign_nonces", 1), ("settlements status=settled", 1)]).await;
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
    let mined = bench.mined_by(signer).await;
    assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(mined[&3]["hash"], hash.to_string());
    for nonce in [1, 2] {
        let filler = &mined[&nonce];
        assert_eq!(filler["to"].as_str().unwrap().parse::<Address>().unwrap(), signer, "{filler}");
        assert_eq!((&filler["value"], &filler["input"]), (&json!("0x0"), &json!("0x")), "{filler}");
    }
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts WHERE kind = 'filler'").await, 2);
    Metrics::until_counted(&bench, &[("gaps_filled", 2)]).await;
}

on_both_stores! {
    /// A replacement is stored and sent, and the chain takes the original: its receipt decides, whatever came later.
    async fn the_original_is_mined_after_its_replacement(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        // The node hears of the first one alone.
        bench.proxy.add(Rule::on(SEND).skip(1).then(Fault::Swallow));
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let original = bench.sent()[0];
        let base_fee = |wei| bench.anvil.set_next_block_base_fee(wei);
        base_fee(100_000_000_000).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let replaced = bench.replacement_of(original).await;
        assert_eq!(Rows::of(&bench).number("SELECT count(*) FROM attempts").await, 2);
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
}

on_both_stores! {
    /// The signer's transaction count, as a node says it that is wrong about it once, as an earlier start has left it, and as a node of
    /// another chain says it: no transaction of ours goes where the chain never comes.
    async fn a_count_that_is_too_high(store) {
        const COUNT: &str = "eth_getTransactionCount";
        let mut bench = Setup::new(store).start().await;
        let payments = bench.payments(3).await;
        let wrong_once = bench.proxy.add(Rule::on(COUNT).times(1).then(Fault::Answer(json!("0x64"))));
        bench.crash_and_restart().await;
        assert_eq!(bench.proxy.hits(wrong_once), 1);
        bench.settle(&payments[0]).await.success_of(&payments[0]);

        Rows::of(&bench).run("UPDATE lanes SET nonce_floor = 1000").await;
        bench.crash_and_restart().await;
        bench.settle(&payments[1]).await.success_of(&payments[1]);

        bench.proxy.add(Rule::on(COUNT).then(Fault::Answer(json!("0x64"))));
        bench.proxy.add(Rule::on("eth_chainId").then(Fault::Answer(json!("0x1"))));
        bench.server.restart(Wait::Healthy).await.unwrap();
        assert_eq!(bench.settle(&payments[2]).await.told(), Told::Unavailable);
        bench.proxy.clear();
        bench.settle(&payments[2]).await.success_of(&payments[2]);
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined_by(bench.signers[0]).await.into_keys().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(Rows::of(&bench).number("SELECT count(*) FROM attempts").await, 3, "no filler");
    }
}

on_both_stores! {
    /// Signed, taken by no block, and then the operator has other signers: nobody can fill the nonces, and nobody has to. When the
    /// authorizations are dead, the chain says how each of them ended.
    async fn the_signer_was_removed(store) {
        let mut bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let now = bench.chain.client().block_timestamp().await.unwrap();
        let builder = bench.builder().await.valid_before(now + 120);
        let [mined, expired, elsewhere] =
            [1_000_u64, 2_000, 3_000].map(|amount| builder.clone().amount(amount).sign());
        bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let mut hashes = Vec::new();
        for payment in [&mined, &expired, &elsewhere] {
            let told = bench.settle(payment).await.told();
            let Told::Pending(hash) = told else { panic!("{told:?}") };
            hashes.push(hash);
        }
        bench.server.kill9();
        let first = bench
            .proxy
            .calls_of(SEND)
            .into_iter()
            .find(|call| keccak256(call.params[0].as_str().unwrap().parse::<Bytes>().unwrap()) == hashes[0]);
        bench.anvil.rpc(SEND, first.unwrap().params).await.unwrap();
        let theirs = bench.chain.settle_elsewhere(&elsewhere).await.unwrap();
        assert!(theirs.success);
        bench.anvil.increase_time(240).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let other_signer = bench.config.clone().env("DEV_SIGNER_0", dev_key(1));
        bench.server.restart_with(other_signer, Wait::Ready).await.unwrap();

        for (payment, status) in [(&mined, "settled"), (&expired, "failed"), (&elsewhere, "settled_elsewhere")] {
            bench.until_status(payment, status).await;
        }
        assert_eq!(bench.settle(&mined).await.success_of(&mined), hashes[0]);
        let too_late = "invalid_exact_evm_payload_authorization_valid_before";
        assert_eq!(bench.row(&expired).await["reason"], too_late);
        let told = bench.settle(&expired).await.told();
        assert!(matches!(&told, Told::No(code, _) if code == too_late), "{told:?}");
        assert_eq!(bench.settle(&elsewhere).await.told(), Told::no(USED, theirs.transaction));
        assert!(!bench.is_used(&expired).await);

        // The new signer does its work, and nothing of the old one's is touched.
        bench.proxy.clear();
        bench.anvil.set_automine(true).await.unwrap();
        let next = bench.builder().await.max_timeout_seconds(600).sign();
        bench.settle(&next).await.success_of(&next);
        assert_eq!(bench.mined().await, 1, "of the old signer");
        assert_eq!(bench.anvil.nonce(dev_address(1), true).await.unwrap(), 1);

        // The old signer comes back: its two nonces are filled with nothing, and its lane goes on.
        bench.server.restart_with(bench.config.clone(), Wait::Ready).await.unwrap();
        let last = bench.builder().await.max_timeout_seconds(600).sign();
        bench.settle(&last).await;
        bench.until_status(&last, "settled").await;
        bench.assert_paid_once(&[mined, elsewhere, next, last]).await;
        assert_eq!(bench.mined().await, 4);
        assert!(!bench.is_used(&expired).await);
    }
}
