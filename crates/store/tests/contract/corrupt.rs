//! A row this version cannot read is reported as such, with table and column, and never guessed at.

use quittance_store::{Store, StoreError};

use crate::{
    fixture::Fixture,
    given::{identity, key_of, known_lane, origin, payment, signed},
};

/// For a text column: wrong in spelling, in length and in kind.
const GARBAGE: [&str; 8] = ["''", "'0x'", "'garbage'", "'0X00'", "'-1'", "'01'", "'1e3'", "' 1'"];

async fn expect_corrupt(store: &dyn Store, fixture: &Fixture, table: &str, column: &str, garbage: &str) {
    let work = store.open_work(payment().key.network).await;
    match work {
        Err(StoreError::Corrupt { table: t, column: c }) => {
            assert_eq!((t, c), (table, column), "{garbage}");
        }
        other => panic!("{table}.{column} = {garbage} on sqlite={}: {other:?}", fixture.is_sqlite()),
    }
}

async fn garbage_in_a_payment_is_reported(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let columns = [
        "verifying_contract",
        "authorizer",
        "auth_nonce",
        "fingerprint",
        "pay_to",
        "amount",
        "valid_after",
        "valid_before",
        "signature_digest",
        "reason",
        "tx_hash",
    ];
    let upper = format!("'{}'", format!("{:#x}", slot.attempt.signed.hash).to_uppercase());
    for column in columns {
        let saved = format!("CREATE TABLE saved AS SELECT {column} FROM payments");
        fixture.meddle(&saved).await.unwrap();
        for garbage in GARBAGE.into_iter().chain([upper.as_str()]) {
            // Unknown reasons are garbage of their own kind; decimal columns reject the spelling of a hash.
            fixture.meddle(&format!("UPDATE payments SET {column} = {garbage}")).await.unwrap();
            expect_corrupt(store, &fixture, "payments", column, garbage).await;
            let read = store.payment(slot.payment.id).await;
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{column} = {garbage}: {read:?}");
        }
        fixture
            .meddle(&format!("UPDATE payments SET {column} = (SELECT {column} FROM saved)"))
            .await
            .unwrap();
        fixture.meddle("DROP TABLE saved").await.unwrap();
    }
    // One more than fits.
    let over = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
    fixture.meddle(&format!("UPDATE payments SET amount = '{over}'")).await.unwrap();
    expect_corrupt(store, &fixture, "payments", "amount", over).await;
}

/// What the CHECK constraints keep out, as if a later version had loosened them.
async fn what_a_newer_schema_may_hold_is_reported(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    signed(store, &lane).await;
    let loosen = |column: &str, constraint: &str| {
        if fixture.is_sqlite() {
            "PRAGMA ignore_check_constraints = ON".to_owned()
        } else {
            format!(
                "ALTER TABLE payments DROP CONSTRAINT payments_{column}_{constraint}; \
                 ALTER TABLE payments DROP CONSTRAINT IF EXISTS payments_check1"
            )
        }
    };
    for (column, garbage) in [
        ("status", "'broadcast'"),
        ("last_answer", "'refund'"),
        ("answer_before", "'refund'"),
        ("block_number", "-1"),
    ] {
        // The pragma is the connection's, so both travel in one string.
        let loosened = format!("{}; UPDATE payments SET {column} = {garbage}", loosen(column, "check"));
        fixture.meddle(&loosened).await.unwrap();
        if column == "status" {
            let key = fixture.peek("SELECT COUNT(*) FROM payments WHERE status = 'broadcast'").await;
            assert_eq!(key, 1);
        }
        expect_corrupt(store, &fixture, "payments", column, garbage).await;
        let mended = if column == "status" { "'signed'" } else { "NULL" };
        fixture.meddle(&format!("UPDATE payments SET {column} = {mended}")).await.unwrap();
    }
}

async fn garbage_in_an_attempt_is_reported(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    signed(store, &lane).await;
    let unguard = if fixture.is_sqlite() {
        "DROP TRIGGER attempts_no_update"
    } else {
        "ALTER TABLE attempts DISABLE TRIGGER attempts_append_only"
    };
    fixture.meddle(unguard).await.unwrap();
    for column in ["hash", "max_fee_per_gas", "max_priority_fee_per_gas"] {
        let saved = format!("CREATE TABLE saved AS SELECT {column} FROM attempts");
        fixture.meddle(&saved).await.unwrap();
        for garbage in GARBAGE {
            fixture.meddle(&format!("UPDATE attempts SET {column} = {garbage}")).await.unwrap();
            expect_corrupt(store, &fixture, "attempts", column, garbage).await;
        }
        fixture
            .meddle(&format!("UPDATE attempts SET {column} = (SELECT {column} FROM saved)"))
            .await
            .unwrap();
        fixture.meddle("DROP TABLE saved").await.unwrap();
    }
    fixture.meddle(&format!("UPDATE attempts SET max_fee_per_gas = '{}0'", u128::MAX)).await.unwrap();
    expect_corrupt(store, &fixture, "attempts", "max_fee_per_gas", "too large").await;
}

/// A lane that cannot be read must not give away a nonce.
async fn a_lane_that_cannot_be_read_signs_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let payment = crate::given::reserved(store).await;
    let negative = if fixture.is_sqlite() {
        "PRAGMA ignore_check_constraints = ON; UPDATE lanes SET nonce_floor = -1"
    } else {
        "ALTER TABLE lanes DROP CONSTRAINT lanes_nonce_floor_check; UPDATE lanes SET nonce_floor = -1"
    };
    fixture.meddle(negative).await.unwrap();
    let signed = store.sign_slot(payment.id, payment.version, &lane, &crate::given::never).await;
    assert!(
        matches!(signed, Err(StoreError::Corrupt { table: "lanes", column: "nonce_floor" })),
        "{signed:?}"
    );
}

async fn garbage_under_an_idempotency_key_is_reported(fixture: Fixture) {
    let store = &*fixture.store;
    let key = key_of(&payment());
    store.bind_idempotency_key(&key).await.unwrap();
    for column in ["signature_digest", "resource", "fingerprint"] {
        fixture.meddle(&format!("UPDATE idempotency_keys SET {column} = 'garbage'")).await.unwrap();
        for bound in [store.bind_idempotency_key(&key).await.map(Some), store.idempotency_key(&key).await] {
            assert!(
                matches!(bound, Err(StoreError::Corrupt { table: "idempotency_keys", column: c }) if c == column),
                "{bound:?}"
            );
        }
    }
}

async fn garbage_about_an_origin_is_reported(fixture: Fixture) {
    let store = &*fixture.store;
    let (origin, identity) = (origin(), identity());
    store.remember_identity(&origin, &identity, 100).await.unwrap();
    for (column, good) in
        [("registry", "eip155:1:0xabababababababababababababababababababab"), ("agent_id", "7")]
    {
        for garbage in GARBAGE.into_iter().chain(["'eip155:1:0xABABABABABABABABABABABABABABABABABABABAB'"]) {
            fixture.meddle(&format!("UPDATE payee_origins SET {column} = {garbage}")).await.unwrap();
            let read = store.first_identity(&origin).await;
            assert!(
                matches!(read, Err(StoreError::Corrupt { table: "payee_origins", column: c }) if c == column),
                "{column} = {garbage}: {read:?}"
            );
        }
        fixture.meddle(&format!("UPDATE payee_origins SET {column} = '{good}'")).await.unwrap();
        assert!(store.first_identity(&origin).await.unwrap().is_some());
    }
}

contract!(
    garbage_in_a_payment_is_reported,
    what_a_newer_schema_may_hold_is_reported,
    garbage_in_an_attempt_is_reported,
    a_lane_that_cannot_be_read_signs_nothing,
    garbage_under_an_idempotency_key_is_reported,
    garbage_about_an_origin_is_reported,
);
