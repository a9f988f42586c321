//! More requests than there is room for: an answer at once that says so, and nothing reserved.

use crate::support::{Bench, DEADLINE, Setup, StoreKind, until};
use quittance_testkit::{PaymentBuilder, SignedPayment, client::Answer, dev_signer};
use std::{collections::BTreeMap, time::Duration};
use tokio::task::JoinSet;

/// Requests the server works on at the same time, and how many of them may be of one payer.
const PLACES: usize = 2048;
const OF_ONE_PAYER: usize = PLACES / 2;

/// Many callers with payments of one payer, all at the same time. There are more payments than room for them, and more
/// callers than payments.
struct Burst {
    payments: Vec<SignedPayment>,
    callers: usize,
    calls: JoinSet<(usize, Answer)>,
    answers: Vec<(usize, Answer)>,
}

impl Burst {
    const PAYMENTS: usize = 200;

    fn of(builder: &PaymentBuilder, callers: usize) -> Self {
        let payments: Vec<_> = (0..Self::PAYMENTS).map(|_| builder.sign()).collect();
        Self { payments, callers, calls: JoinSet::new(), answers: Vec::new() }
    }

    fn start(&mut self, bench: &Bench) {
        for (index, payment) in self.payments.iter().enumerate().cycle().take(self.callers) {
            let (client, body) = (bench.client.clone(), payment.body().clone());
            let call = async move { client.settle_with(&body, &[]).await.expect("an answer") };
            self.calls.spawn(async move { (index, call.await) });
        }
    }

    /// The first so many answers, which are those of the callers who found no place.
    async fn turned_away(&mut self, count: usize) {
        while self.answers.len() < count {
            let (payment, answer) = self.calls.join_next().await.unwrap().unwrap();
            assert_come_again(&answer);
            self.answers.push((payment, answer));
        }
    }

    /// Everybody's answer: how many payments were begun. A payment has a row if any of its callers was told its hash, and
    /// each of them the same one.
    async fn end(mut self) -> usize {
        while let Some(answer) = self.calls.join_next().await {
            self.answers.push(answer.unwrap());
        }
        assert_eq!(self.answers.len(), self.callers);
        let mut hashes = BTreeMap::new();
        for (payment, answer) in &self.answers {
            if answer.status == 503 {
                assert_come_again(answer);
                continue;
            }
            let hash = answer.json["transaction"].as_str().unwrap_or_default();
            assert!(answer.status == 200 && hash.len() == 66, "{}", answer.text);
            assert_eq!(hashes.entry(payment).or_insert(hash), &hash, "{}", answer.text);
        }
        hashes.len()
    }
}

async fn ask(bench: &Bench, payment: &SignedPayment) -> Answer {
    bench.client.settle_with(payment.body(), &[]).await.unwrap()
}

/// Not decided, whatever the payment is worth.
fn assert_come_again(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.retry_after_seconds().is_some_and(|seconds| seconds > 0), "{:?}", answer.headers);
    assert_eq!(answer.json["errorReason"], "unexpected_settle_error", "{}", answer.text);
    assert_eq!((&answer.json["success"], &answer.json["transaction"]), (&false.into(), &"".into()));
}

/// Whoever was turned away left nothing behind: there are rows for the others alone.
async fn assert_rows(bench: &Bench, begun: usize) {
    let rows = bench.database().number("SELECT count(*) FROM payments").await;
    assert_eq!(rows, i64::try_from(begun).unwrap());
}

/// Several payers together fill every place: whoever comes then is told so at once, and is welcome later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_place_for_anybody() {
    const TOO_MANY: usize = 4;
    let bench = Setup::new(StoreKind::Postgres).no_mining().wait_seconds(20).start().await;
    let builder = bench.builder().await;
    let of = |payer| builder.clone().payer(dev_signer(payer));
    let mut bursts = [4, 5].map(|payer| Burst::of(&of(payer), OF_ONE_PAYER + TOO_MANY));
    let other = of(6).sign();
    for burst in &mut bursts {
        burst.start(&bench);
        burst.turned_away(TOO_MANY).await;
    }
    // Long before the wait of those who have a place is over.
    let asked = tokio::time::timeout(Duration::from_secs(10), ask(&bench, &other));
    assert_come_again(&asked.await.expect("an answer at once"));

    let mut begun = 0;
    for burst in bursts {
        begun += burst.end().await;
    }
    assert_eq!(begun, 256, "one lane's room");
    assert_rows(&bench, begun).await;
    bench.anvil.set_interval_mining(1).await.unwrap();
    until("a success", DEADLINE, || async { bench.settle(&other).await.told().is_success().then_some(()) })
        .await;
}
