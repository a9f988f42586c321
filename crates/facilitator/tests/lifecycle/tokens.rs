//! Tokens that do not keep what they promise, and signers without money.

use crate::support::{Bench, SEND, Setup, StoreKind, Told};
use alloy_primitives::U256;
use quittance_testkit::SignedPayment;

const MISMATCH: &str = "invalid_exact_evm_transfer_event_mismatch";

async fn payment_in(bench: &Bench, contract: &str) -> SignedPayment {
    let token = bench.chain.deploy_token(contract).await.unwrap();
    let payment = bench.builder().await.asset(token).sign();
    bench.chain.mint(token, payment.payer(), payment.value()).await.unwrap();
    payment
}

/// Seen in the simulation: nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_moves_less_or_nothing() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    for contract in ["FeeOnTransferToken", "SilentToken"] {
        let payment = payment_in(&bench, contract).await;
        assert_eq!(bench.verify(&payment).await.invalid(), MISMATCH, "{contract}");
        assert_eq!(bench.settle(&payment).await.told(), Told::no(MISMATCH, ""), "{contract}");
    }
    assert!(bench.sent().is_empty());
}

on_sqlite! {
    /// It turned bad after the simulation: the receipt tells, and it is no success.
    async fn a_token_that_changes_its_mind(store) {
        let bench = Setup::new(store).no_mining().start().await;
        for contract in ["SilentToken", "FeeOnTransferToken"] {
            let bad = bench.chain.deploy_token(contract).await.unwrap();
            let payment = payment_in(&bench, "FiatToken").await;
            bench.proxy.reset_records();
            let call = bench.settling(&payment);
            bench.proxy.wait_answered(SEND, 1).await.unwrap();
            bench.anvil.set_code(payment.asset(), &bench.chain.code(bad).await.unwrap()).await.unwrap();
            bench.anvil.mine(1).await.unwrap();
            let told = call.await.unwrap().unwrap().told();
            assert_eq!(told, Told::no(MISMATCH, bench.sent()[0]), "{contract}");
            assert_eq!(bench.settle(&payment).await.told(), told, "{contract}");
            assert_eq!(bench.row(&payment).await["status"], "failed");
        }
    }

    /// The payer's money left between simulation and block: mined, reverted, and told with its hash.
    async fn money_gone_before_the_block(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = payment_in(&bench, "FiatToken").await;
        bench.proxy.reset_records();
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let hash = bench.sent()[0];
        bench.anvil.drop_all().await.unwrap();
        use alloy_sol_types::SolCall as _;
        let take = quittance_testkit::abi::IToken::transferCall { to: quittance_testkit::dev_address(9), amount: payment.value() };
        bench.chain.send(payment.payer(), Some(payment.asset()), take.abi_encode().into()).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        let told = call.await.unwrap().unwrap().told();
        assert_eq!(told, Told::no("invalid_exact_evm_transaction_failed", hash));
        assert_eq!(bench.row(&payment).await["status"], "failed");
        // It can still be paid: the failure proved that nothing has executed.
        bench.chain.mint(payment.asset(), payment.payer(), payment.value()).await.unwrap();
        bench.settle(&payment).await.success_of(&payment);
    }
}

/// No money for gas: not decided, not lost, and taken up as soon as there is some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poor_signer() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.payment().await;
    bench.anvil.set_balance(bench.signers[0], U256::ZERO).await.unwrap();
    let answer = bench.client.settle_with(payment.body(), &[]).await.unwrap();
    assert_eq!(
        (answer.status, answer.json["errorReason"].as_str()),
        (503, Some("unexpected_settle_error")),
        "{}",
        answer.text
    );
    assert!(answer.retry_after_seconds().is_some());
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 503);
    assert!(bench.sent().is_empty());
    bench.anvil.set_balance(bench.signers[0], U256::from(10).pow(U256::from(18))).await.unwrap();
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 200);
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// One poor signer among two takes no new work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poor_signer_beside_a_rich_one() {
    let bench = Setup::new(StoreKind::Sqlite).signers(2).start().await;
    bench.anvil.set_balance(bench.signers[0], U256::ZERO).await.unwrap();
    let payments = bench.payments(10).await;
    for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
        reply.success_of(payment);
    }
    assert_eq!(bench.anvil.nonce(bench.signers[0], true).await.unwrap(), 0);
}

/// The money runs out with transactions on their way: they wait for funds, and nothing is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_runs_out_in_the_middle() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().wait_seconds(2).start().await;
    let payments = bench.payments(5).await;
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.proxy.wait_answered(SEND, 5).await.unwrap();
    bench.anvil.drop_all().await.unwrap();
    bench.anvil.set_balance(bench.signers[0], U256::from(1)).await.unwrap();
    for call in calls {
        let told = call.await.unwrap().unwrap().told();
        assert!(matches!(told, Told::Pending(_)), "{told:?}");
    }
    // At least one of them was tried again, in vain.
    bench.proxy.wait_for(SEND, 6).await.unwrap();
    bench.anvil.set_balance(bench.signers[0], U256::from(10).pow(U256::from(18))).await.unwrap();
    bench.anvil.set_interval_mining(1).await.unwrap();
    for payment in &payments {
        bench.until_status(payment, "settled").await;
        bench.settle(payment).await.success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 5);
}
