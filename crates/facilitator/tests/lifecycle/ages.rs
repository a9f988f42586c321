//! Whether `/metrics` tells that payments wait, or that nobody looks after them, when that is so and only then.

use crate::support::{Bench, DEADLINE, Metrics, Rows, SEND, Setup, StoreKind, Told, until};
use quittance_testkit::{
    dev_address,
    harness::{Fault, Rule},
};

const LAST_PASS: &str = "quittance_keeper_last_pass_seconds";

/// As `/metrics` says, once the keeper has looked at something that is open.
async fn oldest_seconds(bench: &Bench, at_least: f64) -> f64 {
    until("an age", DEADLINE, || async {
        let age = Metrics::read(bench).await.of_network("quittance_oldest_open_payment_seconds");
        (age >= at_least).then_some(age)
    })
    .await
}

on_both_stores! {
    /// The store can be read, and nothing of what is open can be looked at.
    async fn a_pass_that_fails_is_no_pass(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let told = bench.settle(&payment).await.told();
        assert!(matches!(told, Told::Pending(_)), "{told:?}");
        let down = bench.proxy.add(Rule::any().then(Fault::HttpStatus(502)));
        let failed = async |more: u64| {
            until("passes that fail", DEADLINE, || async {
                let metrics = Metrics::read(&bench).await;
                (metrics.count("keeper_failures") >= more).then_some(metrics)
            })
            .await
        };
        let first = failed(1).await;
        let stood = first.of_network(LAST_PASS);
        assert!(stood > 0.0);
        // Each a second after the one before.
        let later = failed(first.count("keeper_failures") + 3).await;
        assert_eq!(later.of_network(LAST_PASS), stood);
        bench.proxy.remove(down);
        until("a pass that does not fail", DEADLINE, || async {
            (Metrics::read(&bench).await.of_network(LAST_PASS) > stood).then_some(())
        })
        .await;
        bench.anvil.mine(1).await.unwrap();
        bench.insisting(&payment).await.unwrap();
        bench.assert_paid_once(&[payment]).await;
    }
}

on_both_stores! {
    /// Promised long before it is settled: it waits since it was signed. Signed again in another slot: it waits as long as before.
    async fn a_payment_waits_from_its_first_signature_on(store) {
        let mut bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let rows = Rows::of(&bench);
        let payment = bench.payment().await;
        bench.verify(&payment).await.valid();
        rows.run("UPDATE payments SET created_at_ms = created_at_ms - 1000000").await;
        // The node keeps nothing.
        bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let told = bench.settle(&payment).await.told();
        assert!(matches!(told, Told::Pending(_)), "{told:?}");
        let age = oldest_seconds(&bench, 1.0).await;
        assert!(age < 500.0, "{age} s, since it was promised");

        // Its nonce goes to a stranger, and it gets another one.
        let stranger = bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
        assert!(stranger.success);
        until("a second slot", DEADLINE, || async {
            (rows.number("SELECT count(*) FROM slots").await == 2).then_some(())
        })
        .await;
        bench.assert_log_names_signers("took a nonce of this signer");
        rows.age_first_attempts(2_000).await;
        bench.crash_and_restart().await;
        let age = oldest_seconds(&bench, 2_000.0).await;
        assert!(age < 2_500.0, "{age} s");
    }
}
