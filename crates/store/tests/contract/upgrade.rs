//! An older version wrote the rows, this one reads them; and for a minute both run on the newer schema.

use alloy_primitives::{Address, B256, U256, address, hex};
use quittance_protocol::{
    settlement::{Event, Evidence, ReplayKey, ResourceDigest, SignatureDigest, Status},
    units::{AuthNonce, LaneNonce},
};
use quittance_store::model::{IdempotencyKey, KeyBinding, KeyUse};
use sqlx::{
    Connection, PgConnection,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteConnection},
};
use std::{borrow::Cow, time::Duration};

use crate::{
    fixture::{Database, Fixture},
    given::{identity, network, origin},
};

/// The schemas before the newest.
const OLDER: std::ops::RangeInclusive<i64> = 1..=3;
const PAYMENT: &str = "01976d4e-0000-7000-8000-000000000001";
const TOKEN: Address = address!("036cbd53842c5426634e7929541ec2318f3dcf7e");
const PAYER: Address = address!("70997970c51812dc3a010c7d01b50e0d17dc79c8");
const SIGNER: Address = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");

/// What each version of the schema was written with, word for word: this text must not follow the code.
fn rows_of(version: i64, blob: &str) -> [String; 5] {
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
    [
        format!(
            "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, \
             fingerprint, pay_to, amount, valid_after, valid_before, expires_at, tx_hash, created_at_ms, \
             updated_at_ms{columns}) VALUES ('{PAYMENT}', 2, 'signed', 84532, '{}', '{}', '{}', '{}', '{}', '10000', '0', \
             '115792089237316195423570985008687907853269984665640564039457584007913129639935', \
             9223372036854775807, '{}', 1800000000000, 1800000000000{values})",
            lower(TOKEN),
            lower(PAYER),
            word(0x11),
            word(0x22),
            lower(SIGNER),
            word(0x33),
        ),
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

async fn written_by(version: i64, database: Database) -> Fixture {
    let blob = match &database {
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
    };
    for row in rows_of(version, blob) {
        database.meddle(&row).await.unwrap();
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
    let known = KeyUse { key: name, payment: payment.terms.fingerprint, resource: None };
    let kept = Some(KeyBinding::Same(Some("{}".to_owned())));
    assert_eq!(store.idempotency_key(&known).await.unwrap(), kept);
    let resource = Some(ResourceDigest(B256::repeat_byte(0x66)));
    assert_eq!(store.idempotency_key(&KeyUse { resource, ..known }).await.unwrap(), kept);
    fixture.meddle("UPDATE idempotency_keys SET bound_at = 1").await.unwrap();
    assert_eq!(store.forget_idempotency_keys(Duration::from_secs(1)).await.unwrap(), 1);

    // Nothing is known of payees' servers, and something can be learned.
    let (origin, identity) = (origin(), identity());
    assert_eq!(store.first_identity(&origin).await.unwrap(), None);
    assert_eq!(store.remember_identity(&origin, &identity, 10).await.unwrap(), Some(identity));

    // The older process is still there, and writes as it always did.
    let again = rows_of(version, "NULL")[0]
        .replace(PAYMENT, "01976d4e-0000-7000-8000-000000000002")
        .replace(&B256::repeat_byte(0x11).to_string(), &B256::repeat_byte(0x44).to_string());
    fixture.meddle(&again).await.unwrap();
    let key = ReplayKey { auth_nonce: AuthNonce(B256::repeat_byte(0x44)), ..key };
    assert_eq!(store.lookup(&key).await.unwrap().unwrap().status, Status::Signed);
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
