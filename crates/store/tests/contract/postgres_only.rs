//! Several processes, a server that may go away, and errors that tell nothing they should not.

use futures::future::join_all;
use quittance_protocol::{
    settlement::{Event, Evidence},
    units::{LaneNonce, UnixSeconds},
};
use quittance_store::{
    PgStore, Store as _, StoreError,
    model::{LastAnswer, PaymentFilter, Reservation, SlotOutcome},
};
use quittance_testkit::harness::PgCluster;
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

use crate::{
    fixture::{Database, Fixture, eventually},
    given::{LATER, NOW, fill, holder, key_of, known_lane, network, pay, payment, reserved, rival, signed},
};

#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_migrate_at_once() {
    let database = Database::postgres().await;
    let stores = join_all((0..10).map(|_| database.open())).await;
    for store in stores {
        store.unwrap().ping().await.unwrap();
    }
    let migrations = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/postgres");
    let migrations = i64::try_from(std::fs::read_dir(migrations).unwrap().count()).unwrap();
    assert_eq!(database.peek("SELECT COUNT(*) FROM _sqlx_migrations").await.unwrap(), migrations);
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
    let during = store.reserve(&Reservation::new(&payment(), LATER), NOW).await;
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
    costs!(1, store.reserve(&Reservation::new(&terms, LATER), NOW));
    costs!(2, store.reserve(&Reservation::new(&terms, LATER), NOW));
    costs!(2, store.reserve(&Reservation::new(&rival(&terms), LATER), NOW));
    costs!(4, store.reserve(&Reservation::new(&rival(&terms), LATER), LATER));
    let read = costs!(1, store.lookup(&terms.key)).unwrap();
    costs!(1, store.payment(read.id));
    costs!(1, store.find(&PaymentFilter::default(), 10));
    costs!(1, store.outlived(lane.network, (UnixSeconds(0), read.id), NOW, 10));
    costs!(1, store.raise_lane_floor(&lane, LaneNonce(0)));
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
    costs!(4, store.reserve(&Reservation { key: Some(&new_key), ..Reservation::new(&with_key, LATER) }, NOW));
    let kept = reserved(&store).await.id;
    assert!(store.take_answer(kept, who, i64::MAX, ttl).await.unwrap());
    // BEGIN, answer, each key, COMMIT.
    let keys = [key_of(&terms), key_of(&terms)];
    costs!(5, store.begin_keyed_answer(kept, who, LastAnswer::Success, ttl, &keys, "{}"));
    costs!(1, store.take_keeper(network(8453), who, ttl));
}
