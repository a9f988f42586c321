//! Whoever was told a hash and asks again with the payer's signature is told a hash, however it ended.

use crate::support::{SEND, Setup, StoreKind, Told};
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule},
};

const EXPIRED: &str = "invalid_exact_evm_payload_authorization_valid_before";

/// The same terms, signed by nobody.
fn forged(payment: &SignedPayment) -> SignedPayment {
    let mut bytes = payment.signature().to_vec();
    bytes[1] ^= 1;
    payment.clone().with_signature(bytes)
}

/// The same signature, spelled with the recovery id as parity.
fn respelled(payment: &SignedPayment) -> SignedPayment {
    let v = payment.signature()[64];
    payment.clone().with_v(if v >= 27 { v - 27 } else { v + 27 }).unwrap()
}

on_both_stores! {
    /// Pending, and then the authorization expires: the refusal says of which transaction it is.
    async fn what_was_pending_and_has_expired_keeps_its_hash(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let now = bench.chain.client().block_timestamp().await.unwrap();
        let payment = bench.builder().await.valid_before(now + 60).sign();
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Swallow));
        let Told::Pending(hash) = bench.settle(&payment).await.told() else { panic!("it is not mined") };
        bench.anvil.increase_time(120).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let row = bench.until_status(&payment, "failed").await;
        assert_eq!(row["transaction"], hash.to_string());
        for _ in 0..2 {
            let answer = bench.settle(&payment).await;
            assert_eq!(answer.told(), Told::no(EXPIRED, hash));
            let extra = &answer.json["extra"];
            assert_eq!((&extra["status"], &extra["settlementId"]), (&row["status"], &row["settlementId"]));
        }
        assert_eq!(bench.settle(&respelled(&payment)).await.told(), Told::no(EXPIRED, hash));
        let answer = bench.settle(&forged(&payment)).await;
        assert_eq!((answer.told(), answer.json.get("extra")), (Told::no(EXPIRED, ""), None));
        assert!(bench.transfers().await.is_empty());
    }
}
