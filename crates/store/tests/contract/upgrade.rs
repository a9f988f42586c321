//! An older version wrote the rows, this one reads them; and for a minute both run on the newer schema.

use alloy_primitives::{Address, B256, U256, address, hex};
use quittance_protocol::{
    settlement::{Event, Evidence, ReplayKey, ResourceDigest, SignatureDigest, Status},
    units::{AuthNonce, LaneNonce},
};
use quittance_store::{
    MigrationFault, Store, StoreError,
    model::{IdempotencyKey, KeyBinding, KeyUse, LaneId, Reservation, Reserve, SlotOutcome},
    open_to_read,
};
use sqlx::{
    Connection, PgConnection,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteConnection},
};
use std::{borrow::Cow, time::Duration};

use crate::{
    fixture::{Database, Fixture},
    given::{LATER, holder, identity, key_of, known_lane, moved, network, origin, pay, signed},
};

/// The schemas before the newest.
const OLDER: std::ops::RangeInclusive<i64> = 1..=6;
const PAYMENT: &str = "01976d4e-0000-7000-8000-000000000001";
const TOKEN: Address = address!("036cbd53842c5426634e7929541ec2318f3dcf7e");
const PAYER: Address = address!("70997970c51812dc3a010c7d01b50e0d17dc79c8");
const SIGNER: Address = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");

/// A payment as each version of the schema was written with, word for word: this text must not follow the code.
fn payment_of(version: i64, blob: &str, id: &str, status: &str, nonce: u8) -> String {
    let word = |byte: u8| B256::repeat_byte(byte).to_string();
    let (mut columns, mut values) = (String::new(), String::new());
    if version >= 2 {
        columns += ", payee, pay_to_account";
        values += &format!(", '{{\"outcome\":\"mismatch\"}}', {blob}");
    }
    if version >= 3 {
        columns += ", signature_digest, asset_account";
        values += &format!(", '{}', {blob}", word(0x55));
    }
    format!(
        "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, \
         fingerprint, pay_to, amount, valid_after, valid_before, expires_at, tx_hash, created_at_ms, \
         updated_at_ms{columns}) VALUES ('{id}', 2, '{status}', 84532, '{}', '{}', '{}', '{}', '{}', '10000', '0', \
         '115792089237316195423570985008687907853269984665640564039457584007913129639935', \
         9223372036854775807, '{}', 1800000000000, 1800000000000{values})",
        lower(TOKEN),
        lower(PAYER),
        word(nonce),
        word(2 * nonce),
        lower(SIGNER),
        word(0x33),
    )
}

/// One that was signed, with what belongs to it.
fn rows_of(version: i64, blob: &str) -> [String; 5] {
    let word = |byte: u8| B256::repeat_byte(byte).to_string();
    [
        payment_of(version, blob, PAYMENT, "signed", 0x11),
        format!("INSERT INTO lanes (network, address, nonce_floor) VALUES (84532, '{}', 7)", lower(SIGNER)),
        format!(
            "INSERT INTO slots (network, lane, lane_nonce, payment_id, created_at_ms) \
             VALUES (84532, '{}', 7, '{PAYMENT}', 1800000000000)",
            lower(SIGNER)
        ),
        format!(
            "INSERT INTO attempts (slot_id, sequence, kind, raw, hash, max_fee_per_gas, max_priority_fee_per_gas, \
             gas_limit, created_at_ms) SELECT id, 0, 'payment', {blob}, '{}', '20', '2', 100000, 1800000000000 \
             FROM slots",
            word(0x33)
        ),
        format!(
            "INSERT INTO idempotency_keys (scope, key, fingerprint, answer, bound_at) \
             VALUES ('header', 'k', '{}', '{{}}', 1800000000)",
            word(0x22)
        ),
    ]
}

fn lower(address: Address) -> String {
    hex::encode_prefixed(address)
}

/// The migrations up to a version.
fn up_to(version: i64, of: &Migrator) -> Migrator {
    let known = of.iter().filter(|migration| migration.version <= version).cloned().collect();
    Migrator { migrations: Cow::Owned(known), ..Migrator::DEFAULT }
}

/// The schema of a version; how its rows spell bytes.
pub(crate) async fn schema_of(version: i64, database: &Database) -> &'static str {
    match database {
        Database::Sqlite(_) => {
            let options = SqliteConnectOptions::new().filename(database.file()).create_if_missing(true);
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            up_to(version, &sqlx::migrate!("../../migrations/sqlite")).run(&mut connection).await.unwrap();
            "X'02f801'"
        }
        Database::Postgres { url, .. } => {
            let mut connection = PgConnection::connect(url).await.unwrap();
            up_to(version, &sqlx::migrate!("../../migrations/postgres")).run(&mut connection).await.unwrap();
            r"'\x02f801'::bytea"
        }
    }
}

/// A row of each status, told apart by its place.
fn id_in(status: Status) -> (String, u8) {
    let place = u8::try_from(Status::ALL.iter().position(|other| *other == status).unwrap()).unwrap();
    (format!("01976d4e-0000-7000-8000-0000000001{place:02}"), 0x70 + place)
}

async fn written_by(version: i64, database: Database) -> Fixture {
    let blob = schema_of(version, &database).await;
    for row in rows_of(version, blob) {
        database.meddle(&row).await.unwrap();
    }
    for status in Status::ALL {
        let (id, nonce) = id_in(status);
        database.meddle(&payment_of(version, blob, &id, status.as_str(), nonce)).await.unwrap();
    }
    let store = database.open().await.unwrap();
    Fixture { store, database }
}

async fn goes_on_with_what_was_written_by(version: i64, database: Database) {
    let fixture = written_by(version, database).await;
    let store = &*fixture.store;
    let key = ReplayKey {
        network: network(84532),
        verifying_contract: TOKEN,
        authorizer: PAYER,
        auth_nonce: AuthNonce(B256::repeat_byte(0x11)),
    };
    let payment = store.lookup(&key).await.unwrap().unwrap();
    assert_eq!(
        (payment.id.to_string().as_str(), payment.version, payment.status),
        (PAYMENT, 2, Status::Signed)
    );
    assert_eq!((payment.terms.valid_before, payment.terms.amount.0), (U256::MAX, U256::from(10_000)));
    let signature = (version >= 3).then_some(SignatureDigest(B256::repeat_byte(0x55)));
    assert_eq!((payment.last_answer, payment.answers, payment.terms.signature), (None, 0, signature));
    let work = store.open_work(network(84532)).await.unwrap();
    let [slot] = &work.slots[..] else { panic!("{work:?}") };
    assert_eq!((slot.lane.address, slot.lane_nonce), (SIGNER, LaneNonce(7)));
    assert_eq!(slot.attempts[0].signed.raw.as_ref(), [0x02, 0xf8, 0x01]);
    let evidence = Evidence { block_number: Some(9), ..Evidence::default() };
    let settled =
        store.conclude(slot.id, payment.id, payment.version, Event::SettledAtDepth, &evidence).await.unwrap();
    assert_eq!(settled.unwrap().status, Status::Settled);

    // A key stands for what it stood for, and is forgotten like every other.
    let name = IdempotencyKey { scope: "header".to_owned(), key: "k".to_owned() };
    let known = KeyUse { key: name, payment: payment.terms.fingerprint, resource: None, signature: None };
    let kept = Some(KeyBinding::Same(Some("{}".to_owned())));
    assert_eq!(store.idempotency_key(&known).await.unwrap(), kept);
    let resource = Some(ResourceDigest(B256::repeat_byte(0x66)));
    let signature = Some(SignatureDigest(B256::repeat_byte(0x67)));
    assert_eq!(store.idempotency_key(&KeyUse { resource, signature, ..known }).await.unwrap(), kept);
    fixture.meddle("UPDATE idempotency_keys SET bound_at = 1").await.unwrap();
    assert_eq!(store.forget_idempotency_keys(Duration::from_secs(1)).await.unwrap(), 1);

    // Nothing is known of payees' servers, and something can be learned.
    let (origin, identity) = (origin(), identity());
    assert_eq!(store.first_identity(&origin).await.unwrap(), None);
    assert_eq!(store.remember_identity(&origin, &identity, 10).await.unwrap(), Some(identity));

    // The older process is still there, and writes as it always did.
    let again = payment_of(version, "NULL", "01976d4e-0000-7000-8000-000000000002", "signed", 0x44);
    fixture.meddle(&again).await.unwrap();
    let key = ReplayKey { auth_nonce: AuthNonce(B256::repeat_byte(0x44)), ..key };
    assert_eq!(store.lookup(&key).await.unwrap().unwrap().status, Status::Signed);
    every_status_goes_on(store, &key).await;
}

/// A payment of each status is read as what it is and moves as every other does: nowhere, or as the state machine says.
async fn every_status_goes_on(store: &dyn Store, of: &ReplayKey) {
    for status in Status::ALL {
        let (id, nonce) = id_in(status);
        let key = ReplayKey { auth_nonce: AuthNonce(B256::repeat_byte(nonce)), ..*of };
        let row = store.lookup(&key).await.unwrap().unwrap();
        assert_eq!((row.id.to_string(), row.status, row.version), (id, status, 2));
        // The same payment comes again.
        match store.reserve(&Reservation::new(&row.terms, LATER)).await.unwrap() {
            Reserve::Same(holder) => assert!(status.holds_key() && holder == row, "{holder:?}"),
            Reserve::Fresh(fresh) => assert!(!status.holds_key() && fresh.id != row.id, "{fresh:?}"),
            other => panic!("{other:?}"),
        }
        if status == Status::Reserved || status == Status::Signed {
            let lane = LaneId { network: key.network, address: SIGNER };
            let signed = store.sign_slot(row.id, row.version, &lane, &pay).await.unwrap().unwrap();
            let payment = signed.payment;
            assert_eq!((payment.status, payment.version), (Status::Signed, 3));
            store.close_slot(signed.attempt.slot, SlotOutcome::Ours).await.unwrap();
            moved(store, &payment, Event::SettledAtDepth).await;
            continue;
        }
        for event in Event::ALL.into_iter().filter(|event| *event != Event::Signed) {
            let before = store.payment(row.id).await.unwrap().unwrap();
            let after = store.transition(row.id, before.version, event, &Evidence::default()).await.unwrap();
            assert_eq!(
                after.map(|row| row.status),
                before.status.on(event),
                "{} on {event:?}",
                before.status
            );
        }
    }
}

/// What a later version might add.
const NEWER: [&str; 3] = [
    "ALTER TABLE payments ADD COLUMN later TEXT",
    "CREATE TABLE later (payment_id TEXT PRIMARY KEY REFERENCES payments (id), said TEXT NOT NULL)",
    "CREATE INDEX payments_by_later ON payments (later)",
];

fn blob(fixture: &Fixture) -> &'static str {
    if fixture.is_sqlite() { "x'00'" } else { r"'\x00'::bytea" }
}

/// Writes down that a later version's migration ran.
pub(crate) async fn note_newer(fixture: &Fixture) {
    let note = format!(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'later', TRUE, {}, 0)",
        blob(fixture)
    );
    fixture.meddle(&note).await.unwrap();
}

/// The newer version's schema comes while this one works, and this one goes on, and starts again on it.
async fn a_newer_schema_is_worked_on(fixture: Fixture) {
    let lane = known_lane(&*fixture.store).await;
    let before = signed(&*fixture.store, &lane).await;
    for change in NEWER {
        fixture.meddle(change).await.unwrap();
    }
    note_newer(&fixture).await;
    let mut fixture = fixture;
    for _ in 0..2 {
        let store = &*fixture.store;
        let slot = signed(store, &lane).await;
        let key = key_of(&slot.payment.terms);
        assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), KeyBinding::First);
        let bump = store.add_attempt(slot.attempt.slot, 1, &pay).await.unwrap().unwrap();
        assert_eq!(store.attempts(slot.payment.id).await.unwrap(), [slot.attempt.clone(), bump]);
        assert_eq!(store.open_work(lane.network).await.unwrap().slots.len(), 2);
        let (id, version) = (slot.payment.id, slot.payment.version);
        let settled =
            store.conclude(slot.attempt.slot, id, version, Event::SettledAtDepth, &Evidence::default()).await;
        assert_eq!(settled.unwrap().unwrap().status, Status::Settled);
        assert!(store.take_answer(id, holder(), 0, Duration::from_secs(60)).await.unwrap());
        assert_eq!(store.payment(before.payment.id).await.unwrap().as_ref(), Some(&before.payment));
        fixture = fixture.restarted().await;
    }
    assert_eq!(fixture.peek("SELECT MAX(lane_nonce) + 1 - COUNT(*) FROM slots").await, 0);
    assert_eq!(fixture.peek("SELECT MAX(version) FROM _sqlx_migrations").await, 9999, "it is left alone");
}

/// It is another schema than the one this version was tested on.
async fn a_migration_of_another_text_is_refused(fixture: Fixture) {
    note_newer(&fixture).await;
    let other = blob(&fixture);
    let changed = format!("UPDATE _sqlx_migrations SET checksum = {other} WHERE version = 2");
    assert_eq!(fixture.meddle(&changed).await.unwrap(), 1);
    let Fixture { store, database } = fixture;
    drop(store);
    for refused in [database.open().await.map(drop), open_to_read(&database.url()).await.map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, StoreError::Migration(MigrationFault::Changed(2))), "{error:?}");
    }
}

contract!(a_newer_schema_is_worked_on, a_migration_of_another_text_is_refused);

/// Whoever adds a migration adds to [`payment_of`] and [`rows_of`] what the version before it wrote.
#[test]
fn no_older_version_is_left_out() {
    for migrations in [sqlx::migrate!("../../migrations/sqlite"), sqlx::migrate!("../../migrations/postgres")]
    {
        let versions: Vec<i64> = migrations.iter().map(|migration| migration.version).collect();
        let (newest, older) = versions.split_last().unwrap();
        assert_eq!(older, OLDER.collect::<Vec<_>>(), "below {newest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_older_version_on_sqlite() {
    for version in OLDER {
        goes_on_with_what_was_written_by(version, Database::sqlite()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_older_version_on_postgres() {
    for version in OLDER {
        goes_on_with_what_was_written_by(version, Database::postgres().await).await;
    }
}
