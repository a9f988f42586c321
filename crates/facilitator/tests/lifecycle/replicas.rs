//! Several processes on one PostgreSQL, with the same signers.

use crate::support::{Bench, DEADLINE, Reply, SEND, Setup, StoreKind, Told, until};
use quittance_testkit::{
    Facilitator, SignedPayment,
    harness::{QuittanceProcess, process::Wait},
};
use serde_json::Value;

pub(crate) async fn another_replica(bench: &Bench) -> QuittanceProcess {
    let config = bench.config.clone().on_other_ports().unwrap();
    QuittanceProcess::start(env!("CARGO_BIN_EXE_quittance"), config).await.unwrap()
}

pub(crate) async fn settle(client: &Facilitator, body: &Value) -> Option<Told> {
    let (status, json) = client.settle(body).await.ok()?;
    Some(Reply { status, json }.told())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_of_two_replicas_with_one_payment() {
    let bench = Setup::new(StoreKind::Postgres).block_time(1).start().await;
    let second = another_replica(&bench).await;
    let payment = bench.payment().await;
    let clients = [bench.client.clone(), second.client().unwrap()];
    let calls: Vec<_> = clients
        .iter()
        .cycle()
        .take(100)
        .map(|client| {
            let (client, body) = (client.clone(), payment.body().clone());
            tokio::spawn(async move { settle(&client, &body).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let successes: Vec<_> = answers.iter().filter(|answer| answer.is_success()).collect();
    let [Told::Success(hash)] = successes[..] else { panic!("{answers:?}") };
    let duplicates = answers.iter().filter(|answer| **answer == Told::Duplicate(*hash)).count();
    assert_eq!(duplicates, 99, "{answers:?}");
    bench.assert_one_transaction_paid(&payment, *hash).await;
}

/// What one replica verified, the other settles; what one was asked, the other answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_may_go_to_any_replica() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().wait_seconds(1).start().await;
    let second = another_replica(&bench).await;
    let second = second.client().unwrap();
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    let (_, again) = second.verify(payment.body()).await.unwrap();
    assert_eq!(again["invalidReason"], "invalid_exact_evm_nonce_already_used");
    let Some(Told::Pending(hash)) = settle(&second, payment.body()).await else { panic!("not pending") };
    assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(settle(&second, payment.body()).await, Some(Told::Success(hash)));
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// Asks one replica after the other until one of them decides.
async fn seek(clients: &[Facilitator; 2], body: &Value, first: usize) -> Vec<Told> {
    let mut turn = first;
    let mut heard = Vec::new();
    let last = until("a decision", DEADLINE, || {
        let client = &clients[turn % 2];
        turn += 1;
        async move {
            match settle(client, body).await {
                Some(Told::Pending(_) | Told::Unavailable) | None => None,
                decided => decided,
            }
        }
    })
    .await;
    heard.push(last);
    heard
}

/// One of two replicas dies in the middle and comes back; the other one goes on with its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_replicas_dies_in_the_middle() {
    let mut bench = Setup::new(StoreKind::Postgres).block_time(1).signers(2).start().await;
    let second = another_replica(&bench).await;
    let payments: Vec<SignedPayment> = bench.payments(100).await;
    let clients = [bench.client.clone(), second.client().unwrap()];
    let calls: Vec<_> = payments
        .iter()
        .enumerate()
        .map(|(index, payment)| {
            let (clients, body) = (clients.clone(), payment.body().clone());
            tokio::spawn(async move { seek(&clients, &body, index).await })
        })
        .collect();
    bench.proxy.wait_for(SEND, 30).await.unwrap();
    bench.server.kill9();
    bench.proxy.wait_for(SEND, 60).await.unwrap();
    bench.server.restart(Wait::Ready).await.unwrap();
    for (call, payment) in calls.into_iter().zip(&payments) {
        let heard = call.await.unwrap();
        let [Told::Success(hash)] = heard[..] else { panic!("{heard:?}") };
        assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (100, 100));
}

/// A replica dies with everything it signed unsent; the other one finishes it without being asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_finishes_what_a_dead_one_signed() {
    use quittance_testkit::harness::{Fault, Rule};
    let mut bench = Setup::new(StoreKind::Postgres).start().await;
    let second = another_replica(&bench).await;
    let payments = bench.payments(5).await;
    let held = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.proxy.wait_for(SEND, 5).await.unwrap();
    bench.server.kill9();
    bench.proxy.remove(held);
    for call in calls {
        assert_eq!(call.await.unwrap(), None);
    }
    bench.client = second.client().unwrap();
    for payment in &payments {
        bench.until_status(payment, "settled").await;
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 5);
}

/// A replica is paused with a caller waiting; the other one answers in its place. When it wakes up, it keeps still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_replica_wakes_up_harmless() {
    let bench = Setup::new(StoreKind::Postgres).no_mining().start().await;
    let second = another_replica(&bench).await;
    let payment = bench.payment().await;
    let waiting = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let paused = Paused::new(&bench.server);
    let elsewhere = {
        let (client, body) = (second.client().unwrap(), payment.body().clone());
        tokio::spawn(async move { settle(&client, &body).await })
    };
    bench.anvil.mine(1).await.unwrap();
    let Some(Told::Success(hash)) = elsewhere.await.unwrap() else { panic!("no success") };
    drop(paused);
    assert_eq!(waiting.await.unwrap().unwrap().told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// Paused with the bytes stored and unsent, woken up when they are long mined.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_sender_wakes_up_harmless() {
    use quittance_testkit::harness::{Fault, Rule};
    let mut bench = Setup::new(StoreKind::Postgres).start().await;
    let second = another_replica(&bench).await;
    let payments = bench.payments(3).await;
    let held = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
    let waiting: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.proxy.wait_for(SEND, 3).await.unwrap();
    let paused = Paused::new(&bench.server);
    bench.proxy.remove(held);
    bench.client = second.client().unwrap();
    for payment in &payments {
        bench.until_status(payment, "settled").await;
    }
    drop(paused);
    bench.proxy.release();
    for (call, payment) in waiting.into_iter().zip(&payments) {
        let hash = call.await.unwrap().unwrap().success_of(payment);
        assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    }
    let more = bench.payments(3).await;
    for (reply, payment) in bench.settle_all(&more).await.iter().zip(&more) {
        reply.success_of(payment);
    }
    bench.assert_paid_once(&[payments, more].concat()).await;
    assert_eq!(bench.mined().await, 6);
}

/// A server that gets no processor until this value is dropped.
struct Paused(String);

impl Paused {
    fn new(server: &QuittanceProcess) -> Self {
        // Its working directory is its own.
        let home = server.dir().canonicalize().unwrap();
        let pid = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .find(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == home));
        let paused = Self(pid.expect("the server's process").file_name().into_string().unwrap());
        paused.signal("STOP");
        paused
    }

    fn signal(&self, name: &str) {
        let kill = ["-c", "kill -s \"$0\" \"$1\"", name, &self.0];
        assert!(std::process::Command::new("sh").args(kill).status().unwrap().success());
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}
