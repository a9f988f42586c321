//! A process whose clock is not the database's: ages are told by the one clock that all replicas share.

use crate::support::{Bench, DEADLINE, Database, Metrics, SEND, Setup, StoreKind, Told, until};
use quittance::fault_point::{Point, VARIABLE};
use quittance_testkit::harness::{Fault, Rule};

/// A database whose clock is so much ahead of the server's: the server's is behind.
async fn ahead_by(seconds: i64) -> Database {
    let database = Database::create().await;
    let name = database.url.rsplit('/').next().unwrap().to_owned();
    // A clock of this database's own, found before the real one.
    database
        .run(&format!(
            "CREATE SCHEMA shifted;
             CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
               AS 'SELECT pg_catalog.clock_timestamp() + make_interval(secs => {seconds})';
             ALTER DATABASE {name} SET search_path = public, shifted, pg_catalog"
        ))
        .await;
    database
}

fn setup(database: Database) -> Setup {
    Setup::new(StoreKind::Postgres).database(database)
}

async fn oldest_seconds(bench: &Bench) -> f64 {
    until("an age", DEADLINE, || async {
        let age = Metrics::read(bench).await.of_network("quittance_oldest_open_payment_seconds");
        (age > 0.0).then_some(age)
    })
    .await
}

/// What a dead process has signed is not left to it for as long as the clock is behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_behind_sends_what_a_dead_one_has_signed() {
    let point = Point::SettleSigned.as_str().to_owned();
    let mut bench = setup(ahead_by(600).await).first_start(VARIABLE, point).start().await;
    let payment = bench.builder().await.max_timeout_seconds(3_600).sign();
    assert!(bench.settling(&payment).await.unwrap().is_none());
    bench.crash_and_restart().await;
    let hash = bench.insisting(&payment).await.unwrap();
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// What was signed a moment ago is not older by as much as the clock is ahead, and is not raised at every look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_ahead_raises_at_no_other_pace() {
    let bench = setup(ahead_by(-300).await).no_mining().wait_seconds(1).start().await;
    let low = bench.proxy.add(Rule::on(SEND).then(Fault::error(-32000, "transaction underpriced")));
    let payment = bench.builder().await.max_timeout_seconds(3_600).sign();
    let told = bench.settle(&payment).await.told();
    assert!(matches!(told, Told::Pending(_)), "{told:?}");
    let attempts = async || bench.database().number("SELECT count(*) FROM attempts").await;
    until("a second raise", DEADLINE, || async { (attempts().await >= 3).then_some(()) }).await;
    // As `lane/plan.rs` says of replacements.
    let between = "SELECT min(b.created_at_ms - a.created_at_ms) FROM attempts a JOIN attempts b
                     ON b.slot_id = a.slot_id AND b.sequence = a.sequence + 1 WHERE a.sequence > 0";
    let pause = bench.database().number(between).await;
    assert!(pause >= 3_000, "raised after {pause} ms");
    let age = oldest_seconds(&bench).await;
    assert!(age < 200.0, "{age} s");
    bench.proxy.remove(low);
    bench.anvil.set_automine(true).await.unwrap();
    let hash = bench.insisting(&payment).await.unwrap();
    bench.assert_executed_by(&[(&payment, hash)]).await;
}
