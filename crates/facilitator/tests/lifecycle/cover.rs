//! One balance is promised once.

use crate::support::{Bench, RECEIPT, SEND, Setup, StoreKind, Told, another_replica, settle_at, told};
use quittance_testkit::{
    SignedPayment, dev_signer,
    harness::{Fault, Rule},
    unix_now,
};
use serde_json::Value;
use std::collections::HashSet;

const POOR: &str = "invalid_exact_evm_insufficient_balance";
/// What each payer has.
const PURSE: u64 = 1_000_000_000;

/// Payments of one payer whose purse is enough for so many of them.
async fn payments_of_one(bench: &Bench, count: usize, enough_for: u64) -> Vec<SignedPayment> {
    let builder = bench.builder().await.amount(PURSE / enough_for);
    (0..count).map(|_| builder.sign()).collect()
}

fn refused(told: &Told) -> bool {
    matches!(told, Told::No(code, _) if code == POOR)
}

on_both_stores! {
    /// Many at once, and one after the other: what is promised can be settled, all of it.
    async fn no_more_is_promised_than_there_is(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payments = payments_of_one(&bench, 12, 3).await;
        let asked = payments.iter().map(|payment| bench.verify(payment));
        let mut promised = Vec::new();
        for (reply, payment) in futures::future::join_all(asked).await.into_iter().zip(&payments) {
            if reply.json["isValid"] == true {
                promised.push(payment.clone());
            } else {
                assert_eq!((reply.status, &reply.json["invalidReason"]), (200, &POOR.into()), "{}", reply.json);
                assert_eq!(bench.rows(payment).await, Vec::<Value>::new(), "nothing is left of it");
            }
        }
        assert_eq!(promised.len(), 3);
        assert_eq!(bench.verify(&payments_of_one(&bench, 1, 4).await[0]).await.invalid(), POOR);
        // Somebody else's purse, and the same payer's smaller payment to the last unit, are other matters.
        let other = bench.builder().await.payer(dev_signer(5)).amount(PURSE).sign();
        bench.verify(&other).await.valid();
        bench.verify(&bench.builder().await.amount(PURSE % 3).sign()).await.valid();

        let calls: Vec<_> = promised.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_answered(SEND, 3).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&promised) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&promised).await;
    }

    /// Nothing is broadcast that only one of them could have paid for.
    async fn a_purse_for_one_pays_for_one_transaction(store) {
        let bench = Setup::new(store).start().await;
        let payments = payments_of_one(&bench, 20, 1).await;
        let answers = told(&bench.settle_all(&payments).await);
        assert_eq!(answers.iter().filter(|answer| answer.is_success()).count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| refused(answer)).count(), 19, "{answers:?}");
        assert_eq!((bench.mined().await, bench.sent().len()), (1, 1), "and no other was sent");
        assert_eq!(bench.transfers().await.len(), 1);
    }

    /// Executed, and its row does not know it yet: it is not taken from the balance a second time.
    async fn what_is_paid_already_is_not_owed(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let [first, second, third] = &payments_of_one(&bench, 3, 2).await[..] else { unreachable!() };
        let hidden = bench.proxy.add(Rule::on(RECEIPT).then(Fault::Answer(Value::Null)));
        let call = bench.settling(first);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.row(first).await["status"], "signed");
        bench.verify(second).await.valid();
        assert_eq!(bench.verify(third).await.invalid(), POOR);
        bench.proxy.remove(hidden);
        call.await.unwrap().unwrap().success_of(first);
    }

    /// Promised here and settled by another facilitator, taken back by the payer, or too late: the money is free again.
    async fn what_cannot_be_paid_here_is_not_owed(store) {
        let bench = Setup::new(store).start().await;
        let [elsewhere, canceled, next, last] = &payments_of_one(&bench, 4, 2).await[..] else { unreachable!() };
        for promised in [elsewhere, canceled] {
            bench.verify(promised).await.valid();
        }
        assert_eq!(bench.verify(next).await.invalid(), POOR);
        assert!(bench.chain.settle_elsewhere(elsewhere).await.unwrap().success);
        assert_eq!(bench.verify(next).await.invalid(), POOR);
        assert!(bench.chain.cancel_authorization(canceled).await.unwrap().success);
        bench.verify(next).await.valid();
        assert_eq!(bench.verify(last).await.invalid(), POOR);
        bench.settle(next).await.success_of(next);
        bench.assert_paid_once(&[elsewhere.clone(), next.clone()]).await;

        let builder = bench.builder().await.payer(dev_signer(5)).amount(PURSE);
        let short = builder.clone().valid_before(unix_now() + 60).sign();
        bench.verify(&short).await.valid();
        let long = builder.valid_before(unix_now() + 7_200).sign();
        assert_eq!(bench.verify(&long).await.invalid(), POOR);
        bench.anvil.increase_time(120).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        bench.verify(&long).await.valid();
    }
}

/// Two replicas promise no more than one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_share_one_purse() {
    let bench = Setup::new(StoreKind::Postgres).block_time(1).start().await;
    let second = another_replica(&bench).await;
    let clients = [bench.client.clone(), second.client().unwrap()];
    let payments = payments_of_one(&bench, 20, 2).await;
    let calls: Vec<_> = payments
        .iter()
        .enumerate()
        .map(|(index, payment)| {
            let (client, body) = (clients[index % 2].clone(), payment.body().clone());
            tokio::spawn(async move { settle_at(&client, &body).await.unwrap().told() })
        })
        .collect();
    let mut paid = HashSet::new();
    for call in calls {
        match call.await.unwrap() {
            Told::Success(hash) => assert!(paid.insert(hash)),
            told => assert!(refused(&told), "{told:?}"),
        }
    }
    assert_eq!((paid.len(), bench.transfers().await.len(), bench.mined().await), (2, 2, 2));
}
