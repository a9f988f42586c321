//! Whoever only looks sees everything and changes nothing.

use quittance_protocol::settlement::Event;
use quittance_store::{
    StoreError,
    model::{PaymentFilter, Reservation},
    open_to_read,
};

use crate::{
    fixture::{Database, Fixture},
    given::{LATER, known_lane, moved, open_but_for_ages, payment, signed},
    upgrade::{note_newer, schema_of},
};

/// Beside a store that works, of a version that may be newer.
async fn a_reader_sees_what_is_written_and_writes_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    note_newer(&fixture).await;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let reader = open_to_read(&fixture.database.url()).await.unwrap();
    assert_eq!(reader.payment(first.payment.id).await.unwrap().as_ref(), Some(&first.payment));
    assert_eq!(reader.attempts(first.payment.id).await.unwrap(), std::slice::from_ref(&first.attempt));

    let second = signed(store, &lane).await;
    let mined = moved(store, &first.payment, Event::Mined).await;
    let seen = reader.find(&PaymentFilter::default(), 10).await.unwrap();
    assert_eq!(seen, [second.payment, mined]);
    let read = open_but_for_ages(&*reader, lane.network).await;
    assert_eq!(read, open_but_for_ages(store, lane.network).await);

    let terms = payment();
    let refused = reader.reserve(&Reservation::new(&terms, LATER)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(store.lookup(&terms.key).await.unwrap(), None);
    drop(reader);
    signed(store, &lane).await;
}

/// A server of the older version may be at work.
async fn leaves_an_older_schema_alone(database: Database) {
    for (there, missing) in [(1, 2), (3, 4)] {
        schema_of(there, &database).await;
        let refused = open_to_read(&database.url()).await.map(drop);
        assert!(matches!(refused, Err(StoreError::Behind(next)) if next == missing), "{refused:?}");
        let applied = database.peek("SELECT MAX(version) FROM _sqlx_migrations").await.unwrap();
        assert_eq!(applied, there);
    }
}

#[tokio::test]
async fn a_reader_leaves_an_older_schema_alone_on_sqlite() {
    leaves_an_older_schema_alone(Database::sqlite()).await;
}

#[tokio::test]
async fn a_reader_leaves_an_older_schema_alone_on_postgres() {
    let database = Database::postgres().await;
    let refused = open_to_read(&database.url()).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Behind(1))), "{refused:?}");
    leaves_an_older_schema_alone(database).await;
}

contract!(a_reader_sees_what_is_written_and_writes_nothing);
