//! Several processes on one PostgreSQL, with the same signers.

use crate::support::{
    Bench, DEADLINE, Found, Paused, RECEIPT, Reply, SEND, Setup, StoreKind, Told, USED, another_replica,
    seek, settle, until,
};
use alloy_primitives::B256;
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::{
    SignedPayment, dev_address,
    harness::{Fault, QuittanceProcess, Rule, process::Wait},
};
use tokio::task::JoinHandle;

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
    assert_eq!(again["invalidReason"], USED);
    let Some(Told::Pending(hash)) = settle(&second, payment.body()).await else { panic!("not pending") };
    assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(settle(&second, payment.body()).await, Some(Told::Success(hash)));
    assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    bench.assert_one_transaction_paid(&payment, hash).await;
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
        let Found { told: Told::Success(hash), .. } = call.await.unwrap() else { panic!("no success") };
        assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (100, 100));
}

/// What a later version might add, one migration each, and its note that it has.
const NEWER: [&str; 5] = [
    "ALTER TABLE payments ADD COLUMN later TEXT",
    "ALTER TABLE slots ADD COLUMN later BIGINT NOT NULL DEFAULT 0",
    "CREATE TABLE later (payment_id TEXT PRIMARY KEY REFERENCES payments (id))",
    "CREATE INDEX payments_by_later ON payments (later)",
    r"INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
      VALUES (9999, 'later', TRUE, '\x00', 0)",
];

/// A newer version changes the schema while two replicas of this one work. Both go on, and both start again on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_comes_while_replicas_work() {
    let mut bench = Setup::new(StoreKind::Postgres).block_time(1).signers(2).start().await;
    let mut second = another_replica(&bench).await;
    let payments = bench.payments(60).await;
    let clients = [bench.client.clone(), second.client().unwrap()];
    let calls: Vec<_> = payments
        .iter()
        .enumerate()
        .map(|(index, payment)| {
            let (clients, body) = (clients.clone(), payment.body().clone());
            tokio::spawn(async move { seek(&clients, &body, index).await })
        })
        .collect();
    bench.proxy.wait_for(SEND, 10).await.unwrap();
    for change in NEWER {
        bench.database().run(change).await;
    }
    bench.server.sigterm().await.unwrap();
    bench.server.restart(Wait::Ready).await.unwrap();
    second.sigterm().await.unwrap();
    second.restart(Wait::Ready).await.unwrap();
    for (call, payment) in calls.into_iter().zip(&payments) {
        let Found { told: Told::Success(hash), .. } = call.await.unwrap() else { panic!("no success") };
        assert_eq!(settle(&clients[1], payment.body()).await, Some(Told::Duplicate(hash)));
    }
    let more = bench.payments(6).await;
    for (client, payment) in clients.iter().cycle().zip(&more) {
        let Some(Told::Success(_)) = settle(client, payment.body()).await else { panic!("no success") };
    }
    bench.assert_paid_once(&[payments, more].concat()).await;
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (66, 66));
    let slots = "SELECT COUNT(*) FROM slots";
    let gapless = "SELECT CAST(SUM(size) AS BIGINT) FROM \
                   (SELECT MAX(lane_nonce) - MIN(lane_nonce) + 1 AS size FROM slots GROUP BY network, lane) AS lanes";
    assert_eq!((bench.database().number(slots).await, bench.database().number(gapless).await), (66, 66));
    assert_eq!(bench.database().number("SELECT MAX(version) FROM _sqlx_migrations").await, 9999);
}

/// A replica dies with everything it signed unsent; the other one finishes it without being asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_finishes_what_a_dead_one_signed() {
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

/// The keeper freezes with a replacement signed, in the middle of the transaction that stores it. The other one takes over and
/// replaces. When it wakes up, its own is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_frozen_while_it_replaces_wakes_up_harmless() {
    let bench = frozen_at(Point::Replacing).await;
    let payment = bench.payment().await;
    let waiting = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let original = bench.sent()[0];
    let (max_fee, _) = bench.fees_of(original).await;
    bench.anvil.set_next_block_base_fee(3 * max_fee).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let frozen = Paused::by_itself(&bench.server).await;
    let second = another_replica(&bench).await;
    let replaced = bench.replacement_of(original).await;
    bench.proxy.wait_answered(SEND, 2).await.unwrap();
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts").await, 2);
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(settled_at(&second, &payment).await, replaced);
    wakes_up_harmless(&bench, frozen, waiting, payment, replaced, [1, 2]).await;
}

/// The keeper freezes after it has read that a foreign transaction took a nonce, and before it writes anything. The other one
/// takes over and signs the payment again. What the first one then writes is of no use to anybody, and does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_frozen_before_it_writes_wakes_up_harmless() {
    let bench = frozen_at(Point::ForeignSeen).await;
    let payment = bench.payment().await;
    let swallowing = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
    let waiting = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    let outside = bench.chain.send(bench.signers[0], Some(dev_address(8)), Default::default()).await.unwrap();
    assert!(outside.success);
    let frozen = Paused::by_itself(&bench.server).await;
    bench.proxy.remove(swallowing);
    bench.anvil.set_automine(true).await.unwrap();
    let second = another_replica(&bench).await;
    let hash = settled_at(&second, &payment).await;
    wakes_up_harmless(&bench, frozen, waiting, payment, hash, [2, 2]).await;
}

/// The keeper freezes with the rows it has read, and with its lease. The other one takes over and replaces; then the first one acts on
/// what it read long ago, as if it were the keeper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_frozen_with_old_rows_wakes_up_harmless() {
    let bench = frozen_at(Point::KeeperLeased).await;
    let payment = bench.payment().await;
    let waiting = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let frozen = Paused::by_itself(&bench.server).await;
    let original = bench.sent()[0];
    let (max_fee, _) = bench.fees_of(original).await;
    bench.anvil.set_next_block_base_fee(3 * max_fee).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let mut second = another_replica(&bench).await;
    let replaced = bench.replacement_of(original).await;
    bench.proxy.wait_answered(SEND, 2).await.unwrap();
    second.kill9();
    // Another price than the other one saw, so that the same replacement would have other bytes; still too much for the original.
    assert!(bench.anvil.drop_transaction(replaced).await.unwrap());
    bench.anvil.set_next_block_base_fee(2 * max_fee).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let looks = bench.proxy.count_answered(RECEIPT);
    drop(frozen);
    bench.proxy.wait_answered(RECEIPT, looks + 3).await.unwrap();
    until("the replacement, sent again", DEADLINE, || async {
        (bench.known_to_the_node().await == 1).then_some(())
    })
    .await;
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts").await, 2, "replaced twice");
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().success_of(&payment), replaced);
    goes_on(&bench, payment, [1, 2]).await;
}

/// The only server, which will freeze there.
async fn frozen_at(point: Point) -> Bench {
    let setting = format!("{}:1:freeze", point.as_str());
    Setup::new(StoreKind::Postgres).no_mining().first_start(VARIABLE, setting).start().await
}

/// Asks until it is settled: a new keeper waits for the lease of the old one.
async fn settled_at(server: &QuittanceProcess, payment: &SignedPayment) -> B256 {
    let found = seek(&[server.client().unwrap()], payment.body(), 0).await;
    let Told::Success(hash) = found.told else { panic!("{found:?}") };
    hash
}

/// The frozen one goes on, and its caller is told what the other one's has heard.
async fn wakes_up_harmless(
    bench: &Bench,
    frozen: Paused,
    waiting: JoinHandle<Option<Reply>>,
    payment: SignedPayment,
    hash: B256,
    then: [u64; 2],
) {
    drop(frozen);
    assert_eq!(waiting.await.unwrap().unwrap().told(), Told::Duplicate(hash));
    goes_on(bench, payment, then).await;
}

/// Nothing is paid twice, nothing is left over, and the lane takes the next payment. Of the signer so many transactions are mined,
/// and so many were signed here.
async fn goes_on(bench: &Bench, payment: SignedPayment, [mined, signed]: [u64; 2]) {
    bench.anvil.set_automine(true).await.unwrap();
    let next = bench.payment().await;
    bench.settle(&next).await.success_of(&next);
    bench.assert_paid_once(&[payment, next]).await;
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (mined + 1, mined + 1));
    let attempts = bench.database().number("SELECT count(*) FROM attempts").await;
    assert_eq!(u64::try_from(attempts).unwrap(), signed + 1);
    let open = "SELECT count(*) FROM slots WHERE outcome IS NULL";
    until("no open slot", DEADLINE, || async { (bench.database().number(open).await == 0).then_some(()) })
        .await;
}
