//! Several processes, a server that may go away, and errors that tell nothing they should not.

use alloy_primitives::U256;
use futures::future::join_all;
use quittance_protocol::{
    settlement::{Event, Evidence, NewPayment},
    units::{LaneNonce, UnixSeconds},
};
use quittance_store::{
    PgStore, Store as _, StoreError,
    model::{Funds, LastAnswer, PaymentFilter, Reservation, Reserve, SettlementId, SlotOutcome},
};
use quittance_testkit::{harness::PgCluster, unix_now};
use sqlx::{Connection as _, Executor as _, PgConnection};
use std::{
    error::Error,
    fmt::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::{io::copy, net::TcpListener, net::TcpStream};
use uuid::Uuid;

use crate::{
    fixture::{Database, Fixture, eventually},
    given::{LATER, PAST, fill, holder, key_of, known_lane, network, pay, payment, reserved, rival, signed},
    upgrade::schema_of,
};

#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_migrate_at_once() {
    let database = Database::postgres().await;
    let stores = join_all((0..10).map(|_| database.open())).await;
    for store in stores {
        store.unwrap().ping().await.unwrap();
    }
    assert_eq!(database.peek("SELECT COUNT(*) FROM _sqlx_migrations").await.unwrap(), migrations());
}

fn migrations() -> i64 {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
    i64::try_from(std::fs::read_dir(directory).unwrap().count()).unwrap()
}

/// A transaction of a working process and a migration wait for each other: the migration gives way and is run again.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_meets_work_is_run_again() {
    let database = Database::postgres().await;
    schema_of(3, &database).await;
    let url = database.url();
    let name = url.rsplit('/').next().unwrap();
    // Time enough to step into its way before it looks, and it is the one that looks.
    database.meddle(&format!("ALTER DATABASE {name} SET deadlock_timeout = '3s'")).await.unwrap();
    let mut working = PgConnection::connect(&url).await.unwrap();
    working.execute("SET deadlock_timeout = '60s'").await.unwrap();
    working.execute("BEGIN").await.unwrap();
    working.execute("LOCK TABLE payments IN ROW EXCLUSIVE MODE").await.unwrap();

    let work = async {
        let waits = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'payments'::regclass";
        eventually(async || database.peek(waits).await.unwrap() == 1).await;
        working.execute("SELECT COUNT(*) FROM idempotency_keys").await.unwrap();
        working.execute("COMMIT").await.unwrap();
    };
    let (store, ()) = tokio::join!(database.open(), work);
    reserved(&*store.unwrap()).await;
    let ran = database.peek("SELECT COUNT(*) FROM _sqlx_migrations WHERE success").await.unwrap();
    assert_eq!(ran, migrations());
}

/// A process that stops in the middle of signing (paused, swapped out, in a debugger) holds the lane's row. The
/// database takes it away, the others go on, and when the process wakes up it has stored nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_paused_process_loses_the_lane() {
    let fixture = Fixture::postgres().await;
    let lane = known_lane(&*fixture.store).await;
    let (theirs, ours) = (reserved(&*fixture.store).await, reserved(&*fixture.store).await);

    let (asleep, falls_asleep) = tokio::sync::oneshot::channel();
    let (wake, wakes) = mpsc::channel::<()>();
    let (url, id, version) = (fixture.database.url(), theirs.id, theirs.version);
    // On a thread and a runtime of its own: everything of that process stands still, and nothing of ours.
    let paused = std::thread::spawn(move || {
        let (asleep, wakes) = (Mutex::new(Some(asleep)), Mutex::new(wakes));
        let sleepy = |nonce: LaneNonce| {
            asleep.lock().unwrap().take().unwrap().send(nonce).unwrap();
            wakes.lock().unwrap().recv_timeout(Duration::from_secs(120)).unwrap();
            pay(nonce)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = PgStore::connect(&url).await.unwrap();
            store.sign_slot(id, version, &lane, &sleepy).await
        })
    });
    let nonce = falls_asleep.await.unwrap();

    let mut slot = None;
    eventually(async || {
        match fixture.store.sign_slot(ours.id, ours.version, &lane, &pay).await {
            Ok(signed) => slot = signed,
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
        }
        slot.is_some()
    })
    .await;
    assert_eq!(slot.unwrap().attempt.lane_nonce, nonce, "the same nonce: it was never stored");

    wake.send(()).unwrap();
    let woken = tokio::task::spawn_blocking(|| paused.join().unwrap()).await.unwrap();
    assert!(matches!(woken, Err(StoreError::Unavailable(_))), "{woken:?}");
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots").await, 1);
    assert_eq!(fixture.store.payment(theirs.id).await.unwrap(), Some(theirs));
}

/// The database's clock goes ahead of every process's, and then far behind: it alone says what is over.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_alone_tells_the_time() {
    let database = Database::postgres().await;
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    // A clock of this database's own, found before the server's.
    let clock = |seconds: i64| {
        format!(
            "CREATE OR REPLACE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE \
             AS 'SELECT pg_catalog.clock_timestamp() + make_interval(secs => {seconds})'"
        )
    };
    let search_path = format!("ALTER DATABASE {name} SET search_path = public, shifted, pg_catalog");
    for setup in ["CREATE SCHEMA shifted", clock(0).as_str(), search_path.as_str()] {
        database.meddle(setup).await.unwrap();
    }
    let store = database.open().await.unwrap();
    let promise = async |seconds: u64| {
        let terms = payment();
        let until = UnixSeconds(unix_now() + seconds);
        store.reserve(&Reservation::new(&terms, until)).await.unwrap();
        terms
    };
    let start = (UnixSeconds(0), SettlementId(Uuid::nil()));
    let taken = async |terms: &NewPayment| {
        let over = store.outlived(network(8453), None, start, 10).await.unwrap();
        let listed = over.iter().any(|(_, payment)| payment.terms == *terms);
        let again = store.reserve(&Reservation::new(&rival(terms), LATER)).await.unwrap();
        (listed, matches!(again, Reserve::Other(holder) if holder.terms == *terms))
    };
    let (soon, late) = (promise(1800).await, promise(7200).await);
    assert_eq!(taken(&soon).await, (false, true));
    database.meddle(&clock(3600)).await.unwrap();
    assert_eq!(taken(&soon).await, (true, false), "over, by the one clock that counts");
    assert_eq!(taken(&late).await, (false, true));
    database.meddle(&clock(-3600)).await.unwrap();
    let over_by_ours = payment();
    store.reserve(&Reservation::new(&over_by_ours, UnixSeconds(unix_now() - 1800))).await.unwrap();
    assert_eq!(taken(&over_by_ours).await, (false, true), "a process whose clock is ahead ends no promise");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_comes_back_with_its_server() {
    let cluster = Arc::new(PgCluster::start().await.unwrap());
    let url = cluster.create_database().await.unwrap();
    let store = PgStore::connect(&url).await.unwrap();
    let lane = known_lane(&store).await;
    let slot = signed(&store, &lane).await;

    cluster.stop().await.unwrap();
    let during = store.sign_slot(slot.payment.id, slot.payment.version, &lane, &pay).await;
    assert!(matches!(during, Err(StoreError::Unavailable(_))), "{during:?}");
    let during = store.reserve(&Reservation::new(&payment(), LATER)).await;
    assert!(matches!(during, Err(StoreError::Unavailable(_))), "{during:?}");

    cluster.resume().await.unwrap();
    eventually(async || store.ping().await.is_ok()).await;
    assert_eq!(store.payment(slot.payment.id).await.unwrap().as_ref(), Some(&slot.payment));
    assert_eq!(signed(&store, &lane).await.attempt.lane_nonce, LaneNonce(1));
}

/// Carries bytes to the server until it is told to keep them: the network is gone, and nobody says so.
async fn cable(to_port: u16) -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = cut.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let is_cut = is_cut.clone();
            tokio::spawn(async move {
                let server = TcpStream::connect(("127.0.0.1", to_port)).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let upward = async {
                    while !is_cut.load(Ordering::SeqCst) {
                        let mut bytes = [0; 4096];
                        let n =
                            tokio::io::AsyncReadExt::read(&mut from_client, &mut bytes).await.unwrap_or(0);
                        if n == 0 || is_cut.load(Ordering::SeqCst) {
                            break;
                        }
                        tokio::io::AsyncWriteExt::write_all(&mut to_server, &bytes[..n]).await.unwrap();
                    }
                    if is_cut.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = upward => {}
                    _ = copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    (port, cut)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_vanishes_is_an_outage_in_bounded_time() {
    let database = Database::postgres().await;
    let Database::Postgres { cluster, url } = &database else { unreachable!() };
    let (port, cut) = cable(cluster.port()).await;
    let detour = url.replace(&format!(":{}", cluster.port()), &format!(":{port}"));
    assert_ne!(&detour, url);
    let store = Arc::new(PgStore::connect(&detour).await.unwrap());
    store.ping().await.unwrap();

    cut.store(true, Ordering::SeqCst);
    // More calls than connections, so that every one of them is stuck.
    let calls = (0..20).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.ping().await })
    });
    let bounded = tokio::time::timeout(Duration::from_secs(30), join_all(calls)).await;
    for outcome in bounded.expect("calls wait for a server that is gone") {
        assert!(matches!(outcome.unwrap(), Err(StoreError::Unavailable(_))));
    }
    // No connection is stuck for good: when the network is back, so is the store.
    cut.store(false, Ordering::SeqCst);
    eventually(async || store.ping().await.is_ok()).await;
}

/// The error and everything below it, as a log might print it.
fn told(error: &StoreError) -> String {
    let mut said = format!("{error:#?} {error:?}");
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        write!(said, " {error} {error:?}").unwrap();
        cause = error.source();
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_do_not_tell_the_url() {
    let database = Database::postgres().await;
    let Database::Postgres { cluster, .. } = &database else { unreachable!() };
    let port = cluster.port();
    for url in [
        // Nobody listens, nobody has the name, no such database, no such user, and not a PostgreSQL server at all.
        "postgres://secret-user:secret-password@127.0.0.1:1/secret-database".to_owned(),
        "postgres://secret-user:secret-password@secret-host.invalid/secret-database".to_owned(),
        format!("postgres://quittance:secret-password@127.0.0.1:{port}/secret-database"),
        format!("postgres://secret-user:secret-password@127.0.0.1:{port}/postgres"),
        format!("postgres://quittance@127.0.0.1:{port}/postgres?sslmode=require&password=secret-password"),
        format!(
            "postgres://quittance@127.0.0.1:{port}/postgres?sslrootcert=/secret-file&sslmode=verify-full"
        ),
        "postgres://secret-user@%2Fsecret-directory/secret-database".to_owned(),
        "postgres://secret-user:secret-password@host:secret-port/secret-database".to_owned(),
        "postgres://secret-user@host/db?secret-key=secret-value".to_owned(),
    ] {
        let error = PgStore::connect(&url).await.expect_err(&url);
        assert!(matches!(error, StoreError::Unavailable(_) | StoreError::Url(_)), "{error:?}");
        let told = told(&error);
        assert!(!told.contains("secret"), "{url}: {told}");
        assert!(!told.contains("127.0.0.1"), "{url}: {told}");
    }
}

/// PostgreSQL quotes the row it refuses, and the row is a signed transaction.
#[tokio::test(flavor = "multi_thread")]
async fn errors_do_not_tell_rows() {
    let fixture = Fixture::postgres().await;
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await.attempt;
    fixture.meddle("ALTER TABLE attempts ADD CHECK (gas_limit <> 7)").await.unwrap();
    let twice = |_| Ok(first.signed.clone());
    let refused = |nonce| {
        let mut signed = pay(nonce)?;
        signed.gas_limit = 7;
        signed.raw = vec![0xAB; 64].into();
        Ok(signed)
    };
    let payment = reserved(store).await;
    let sign: [quittance_store::SignWith<'_>; 2] = [&twice, &refused];
    for sign in sign {
        let error = store.sign_slot(payment.id, payment.version, &lane, sign).await.unwrap_err();
        let told = told(&error).to_lowercase();
        let StoreError::Unavailable(fault) = &error else { panic!("{error:?}") };
        assert!(matches!(fault.code(), Some("23505" | "23514")), "{fault}");
        let hash = format!("{:x}", first.signed.hash);
        for secret in [hash.as_str(), "abababab", &lane.address.to_string().to_lowercase()] {
            assert!(!told.contains(secret), "{told}");
        }
    }
    assert_eq!(
        format!("{:?}", PgStore::connect(&fixture.database.url()).await.unwrap()),
        "SqlStore { database: \"Postgres\", .. }"
    );
}

/// What each method costs in statements, read from the server's own log.
#[tokio::test(flavor = "multi_thread")]
async fn methods_cost_what_they_say() {
    let cluster = Arc::new(PgCluster::start().await.unwrap());
    let url = cluster.create_database().await.unwrap();
    let setup = Database::Postgres { cluster: cluster.clone(), url: url.clone() };
    let name = url.rsplit('/').next().unwrap();
    setup.meddle(&format!("ALTER DATABASE {name} SET log_statement = 'all'")).await.unwrap();
    let store = PgStore::connect(&url).await.unwrap();
    // Every connection that comes back is rolled back, beside the caller's way.
    let statements = || {
        cluster
            .log()
            .lines()
            .filter(|line| line.contains("LOG:  execute ") || line.contains("LOG:  statement: "))
            .filter(|line| !line.ends_with("ROLLBACK"))
            .count()
    };

    macro_rules! costs {
        ($expected:literal, $call:expr) => {{
            let before = statements();
            let outcome = $call.await.unwrap();
            assert_eq!(statements() - before, $expected, "{}\n{}", stringify!($call), cluster.log());
            outcome
        }};
    }

    let (terms, lane, who, ttl) = (payment(), crate::given::lane(), holder(), Duration::from_secs(60));
    let evidence = Evidence::default();
    costs!(1, store.ping());
    costs!(1, store.reserve(&Reservation::new(&terms, LATER)));
    costs!(2, store.reserve(&Reservation::new(&terms, LATER)));
    costs!(2, store.reserve(&Reservation::new(&rival(&terms), LATER)));
    let funds = Some(Funds { balance: U256::from(10_000), block_number: 0, over: &[] });
    let covered = payment();
    costs!(1, store.reserve(&Reservation { funds, ..Reservation::new(&covered, LATER) }));
    costs!(1, store.promises(&covered.key, 0));
    let read = costs!(1, store.lookup(&terms.key)).unwrap();
    // Somebody's whose time is over: it is ended on the way.
    let over = payment();
    store.reserve(&Reservation::new(&over, PAST)).await.unwrap();
    costs!(4, store.reserve(&Reservation::new(&rival(&over), LATER)));
    costs!(1, store.payment(read.id));
    costs!(1, store.find(&PaymentFilter::default(), 10));
    costs!(1, store.outlived(lane.network, None, (UnixSeconds(0), read.id), 10));
    costs!(1, store.raise_lane_floor(&lane, LaneNonce(0)));
    costs!(1, store.set_lane_floor(&lane, LaneNonce(0)));
    // BEGIN, lane, payment, slot, attempt, transition, COMMIT.
    let slot = costs!(7, store.sign_slot(read.id, read.version, &lane, &pay)).unwrap();
    // BEGIN, lane, slot, attempt, COMMIT.
    costs!(5, store.sign_filler(&lane, LaneNonce(9), &fill));
    // BEGIN, slot, count, attempt, hash, COMMIT.
    costs!(6, store.add_attempt(slot.attempt.slot, 1, &pay));
    // BEGIN, three reads, COMMIT; however many rows there are.
    costs!(5, store.open_work(lane.network));
    costs!(1, store.attempts(read.id));
    costs!(1, store.close_slot(slot.attempt.slot, SlotOutcome::Ours));
    costs!(1, store.reopen_slot(&lane, LaneNonce(1_000)));
    costs!(1, store.given_up(&lane, LaneNonce(1_000)));
    costs!(1, store.newest_closed(lane.network));
    costs!(1, store.transition(read.id, slot.payment.version, Event::SettledAtDepth, &evidence));
    costs!(1, store.take_answer(read.id, who, i64::MAX, ttl));
    costs!(1, store.begin_answer(read.id, who, LastAnswer::Success, ttl));
    costs!(1, store.lapse_answer(read.id));
    costs!(1, store.release_answer(read.id, who, true));
    let key = key_of(&terms);
    costs!(1, store.idempotency_key(&key));
    costs!(1, store.bind_idempotency_key(&key));
    costs!(2, store.bind_idempotency_key(&key));
    costs!(1, store.store_idempotent_answer(&key, "{}"));
    costs!(1, store.forget_idempotency_keys(ttl));
    // BEGIN, payment, key, COMMIT.
    let (with_key, new_key) = (payment(), key_of(&terms));
    costs!(4, store.reserve(&Reservation { key: Some(&new_key), ..Reservation::new(&with_key, LATER) }));
    let kept = reserved(&store).await.id;
    assert!(store.take_answer(kept, who, i64::MAX, ttl).await.unwrap());
    // BEGIN, answer, each key, COMMIT.
    let keys = [key_of(&terms), key_of(&terms)];
    costs!(5, store.begin_keyed_answer(kept, who, LastAnswer::Success, ttl, &keys, "{}"));
    costs!(1, store.take_keeper(network(8453), who, ttl));
}
