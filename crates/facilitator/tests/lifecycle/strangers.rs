//! The terms of a payment are public. Who knows them and has no signature is told nothing, and takes nothing.

use crate::support::{RECEIPT, Rows, SEND, Setup, StoreKind, Told};
use alloy_primitives::keccak256;
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule},
};
use serde_json::json;

/// The same terms, signed by nobody.
fn forged(payment: &SignedPayment) -> SignedPayment {
    let mut bytes = payment.signature().to_vec();
    bytes[1] ^= 1;
    payment.clone().with_signature(bytes)
}

/// The same terms and signature, under a domain for which the payer did not sign.
fn renamed(payment: &SignedPayment) -> SignedPayment {
    payment.clone().with_value("/paymentRequirements/extra/name", json!("Another Coin"))
}

/// The same signature, spelled with the recovery id as parity.
fn respelled(payment: &SignedPayment) -> SignedPayment {
    let v = payment.signature()[64];
    payment.clone().with_v(if v >= 27 { v - 27 } else { v + 27 }).unwrap()
}

fn no() -> Told {
    Told::no("invalid_exact_evm_signature", "")
}

on_both_stores! {
    async fn a_forged_signature_takes_nothing(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let Told::Pending(hash) = bench.settle(&payment).await.told() else { panic!("it is not mined") };
        // The last answer was pending: whoever asks next with the right to ask gets the success.
        let strangers = [forged(&payment), renamed(&payment)];
        for stranger in &strangers {
            assert_eq!(bench.settle(stranger).await.told(), no());
        }
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        for stranger in &strangers {
            assert_eq!(bench.settle(stranger).await.told(), no());
        }
        assert_eq!(bench.settle(&payment).await.success_of(&payment), hash);
        for stranger in &strangers {
            assert_eq!(bench.settle(stranger).await.told(), no());
        }
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// While the caller with the signature waits.
    async fn a_forged_signature_is_no_twin(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(RECEIPT).then(Fault::Hang));
        let owner = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.until_status(&payment, "signed").await;
        for _ in 0..5 {
            assert_eq!(bench.settle(&forged(&payment)).await.told(), no());
        }
        bench.proxy.clear();
        let hash = owner.await.unwrap().unwrap().success_of(&payment);
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// An older version wrote down a digest of the signature alone. It matches nothing, so that the signature is proven once more.
    async fn what_an_older_version_knew_is_proven_anew(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let Told::Pending(hash) = bench.settle(&payment).await.told() else { panic!("it is not mined") };
        let older = keccak256(payment.signature());
        let rows = Rows::of(&bench);
        rows.run(&format!("UPDATE payments SET signature_digest = '{older}'")).await;
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        assert_eq!(bench.settle(&renamed(&payment)).await.told(), no());
        assert_eq!(bench.settle(&payment).await.success_of(&payment), hash);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }

    /// Another spelling of the signature proves as much as the one that was believed.
    async fn another_spelling_is_the_payers(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(1).start().await;
        let payment = bench.payment().await;
        let Told::Pending(hash) = bench.settle(&payment).await.told() else { panic!("it is not mined") };
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        assert_eq!(bench.settle(&respelled(&payment)).await.success_of(&payment), hash);
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }
}
