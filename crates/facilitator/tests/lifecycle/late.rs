//! A store that takes its time: what was judged before is judged by what holds when it answers.

use crate::support::{Bench, Paused, Setup, StoreKind, Told, unix_now, until};
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::SignedPayment;
use std::time::Duration;

/// `policy.validity_margin_seconds` by default.
const MARGIN: u64 = 6;
/// After this, what was read of the chain is read again before anything is signed.
const FACTS_AGE_MAX: u64 = 12;
/// Longer than anything here is waited for.
const LONG: Duration = Duration::from_secs(60);

/// The server stands still there, with what it has just written.
async fn frozen_at(store: StoreKind, point: Point) -> Bench {
    let setting = format!("{}:1:freeze", point.as_str());
    Setup::new(store).first_start(VARIABLE, setting).start().await
}

async fn until_time(unix_seconds: u64) {
    until("that time", LONG, || async { (unix_now() >= unix_seconds).then_some(()) }).await;
}

/// All that the payer has.
async fn everything(bench: &Bench) -> SignedPayment {
    bench.builder().await.amount(1_000_000_000_u64).sign()
}

on_both_stores! {
    async fn a_window_that_closes_meanwhile_is_not_promised(store) {
        let bench = frozen_at(store, Point::VerifyReserved).await;
        let end = unix_now() + MARGIN + 6;
        let payment = bench.builder().await.valid_before(end).sign();
        let (client, body) = (bench.client.clone(), payment.body().clone());
        let call = tokio::spawn(async move { client.post("/verify", &body, &[]).await.unwrap() });
        let frozen = Paused::by_itself(&bench.server).await;
        until_time(end - MARGIN + 1).await;
        drop(frozen);
        let answer = call.await.unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json["invalidReason"], "invalid_exact_evm_payload_authorization_valid_before");
        bench.until_status(&payment, "refused").await;
    }

    async fn a_purse_that_is_emptied_meanwhile_pays_for_nothing(store) {
        let bench = frozen_at(store, Point::SettleReserved).await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        let frozen = Paused::by_itself(&bench.server).await;
        let judged = unix_now();
        let emptied = everything(&bench).await;
        bench.chain.settle_elsewhere(&emptied).await.unwrap();
        until_time(judged + FACTS_AGE_MAX + 1).await;
        drop(frozen);
        let mut told = call.await.unwrap().unwrap().told();
        if told == Told::Unavailable {
            // PostgreSQL has ended the sessions of a process that stood still inside a transaction.
            told = bench.settle(&payment).await.told();
        }
        assert_eq!(told, Told::no("invalid_exact_evm_insufficient_balance", ""));
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (0, 0));
        until("nothing left to settle", LONG, || async {
            bench.rows(&payment).await.iter().all(|row| row["status"] == "refused").then_some(())
        })
        .await;
    }
}
