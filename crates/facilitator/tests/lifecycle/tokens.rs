//! Tokens that do not keep what they promise, and signers without money.

use crate::support::{Bench, SEND, Setup, StoreKind, Told, USED};
use alloy_primitives::{Address, U256, keccak256};
use quittance_testkit::{SignedPayment, dev_address};

const MISMATCH: &str = "invalid_exact_evm_transfer_event_mismatch";
/// What callers are told of a token that says no in its own words.
const FAILS: &str = "invalid_exact_evm_transaction_simulation_failed";

/// What the token's owner does, with an account or to all.
async fn rule(bench: &Bench, function: &str, account: Option<Address>) {
    let mut call = keccak256(function)[..4].to_vec();
    call.extend(account.iter().flat_map(|account| account.into_word().0));
    assert!(bench.chain.send(dev_address(9), Some(bench.chain.token), call.into()).await.unwrap().success);
}

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

on_both_stores! {
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

    /// Promised, and then the token's owner stops it: the promise ends with the refusal, and not before by anybody who has no
    /// signature. Afterwards the same payment is as good as new, and so is another one under its nonce.
    async fn stopped_by_the_tokens_owner_and_let_go_again(store) {
        let bench = Setup::new(store).start().await;
        let mut paid = Vec::new();
        for (stop, go, who, cause) in [
            ("pause()", "unpause()", None, "invalid_exact_evm_token_paused"),
            ("blacklist(address)", "unBlacklist(address)", Some(true), "invalid_exact_evm_account_blacklisted"),
            ("blacklist(address)", "unBlacklist(address)", Some(false), "invalid_exact_evm_account_blacklisted"),
        ] {
            let payment = bench.payment().await;
            let who = who.map(|payer| if payer { payment.payer() } else { payment.recipient() });
            bench.verify(&payment).await.valid();
            rule(&bench, stop, who).await;
            let mut forged = payment.signature().to_vec();
            forged[1] ^= 1;
            let forged = payment.clone().with_signature(forged);
            assert_eq!(bench.settle(&forged).await.told(), Told::no("invalid_exact_evm_signature", ""));
            // Other bytes than those that were believed prove nothing about them.
            let v = payment.signature()[64];
            let respelled = payment.clone().with_v(if v >= 27 { v - 27 } else { v + 27 }).unwrap();
            assert_eq!(bench.settle(&respelled).await.told(), Told::no(FAILS, ""));
            assert_eq!(bench.row(&payment).await["status"], "reserved", "{stop}");
            assert_eq!(bench.settle(&payment).await.told(), Told::no(FAILS, ""));
            let row = bench.row(&payment).await;
            assert_eq!((&row["status"], &row["reason"]), (&"refused".into(), &cause.into()), "{stop}");
            rule(&bench, go, who).await;
            if who.is_none() {
                // Nobody holds the nonce: another payment may have it, until it is refused as well.
                let other = bench.builder().await.nonce(payment.nonce()).amount(20_000).sign();
                bench.verify(&other).await.valid();
                assert_eq!(bench.verify(&payment).await.invalid(), USED);
                rule(&bench, stop, who).await;
                assert_eq!(bench.settle(&other).await.told(), Told::no(FAILS, ""));
                rule(&bench, go, who).await;
            }
            bench.verify(&payment).await.valid();
            let hash = bench.settle(&payment).await.success_of(&payment);
            assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
            paid.push(payment);
        }
        bench.assert_paid_once(&paid).await;
        assert_eq!(bench.mined().await, 3);
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

on_both_stores! {
    /// No money for gas: not decided, not lost, and taken up as soon as there is some.
    async fn a_poor_signer(store) {
        let bench = Setup::new(store).start().await;
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
}

on_both_stores! {
    /// One poor signer among two takes no new work.
    async fn a_poor_signer_beside_a_rich_one(store) {
        let bench = Setup::new(store).signers(2).start().await;
        bench.anvil.set_balance(bench.signers[0], U256::ZERO).await.unwrap();
        let payments = bench.payments(10).await;
        for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
            reply.success_of(payment);
        }
        assert_eq!(bench.anvil.nonce(bench.signers[0], true).await.unwrap(), 0);
    }
}

on_both_stores! {
    /// The money runs out with transactions on their way: they wait for funds, and nothing is given up.
    async fn money_runs_out_in_the_middle(store) {
        let bench = Setup::new(store).no_mining().wait_seconds(2).start().await;
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
}
