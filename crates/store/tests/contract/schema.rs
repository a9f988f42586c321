//! What the databases themselves refuse, and that both have the same schema.

use quittance_protocol::settlement::Status;
use std::collections::BTreeSet;

use crate::{
    fixture::Fixture,
    given::{known_lane, payment, reserved_as, signed},
};

async fn attempts_are_append_only(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let mut edits =
        vec!["UPDATE attempts SET raw = raw", "UPDATE attempts SET gas_limit = 1", "DELETE FROM attempts"];
    if !fixture.is_sqlite() {
        edits.push("TRUNCATE attempts");
        edits.push("TRUNCATE payments CASCADE");
    }
    for edit in edits {
        let refused = fixture.meddle(edit).await.unwrap_err();
        let refused = refused.into_database_error().unwrap();
        assert!(refused.message().contains("append-only"), "{edit}: {refused:?}");
    }
    let work = store.open_work(lane.network).await.unwrap();
    assert_eq!(work.slots[0].attempts, [slot.attempt]);
}

/// The partial unique index and `Status::holds_key` are the same list, seen from the database's side.
async fn the_index_agrees_with_holds_key(fixture: Fixture) {
    let store = &*fixture.store;
    for old in Status::ALL {
        for new in Status::ALL {
            let row = reserved_as(store, &payment()).await;
            fixture
                .meddle(&format!("UPDATE payments SET status = '{old}' WHERE id = '{}'", row.id))
                .await
                .unwrap();
            let twin = format!(
                "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, \
                 fingerprint, pay_to, amount, valid_after, valid_before, expires_at, created_at_ms, updated_at_ms) \
                 SELECT 'twin of ' || id, 1, '{new}', network, verifying_contract, authorizer, auth_nonce, \
                 fingerprint, pay_to, amount, valid_after, valid_before, expires_at, 0, 0 \
                 FROM payments WHERE id = '{}'",
                row.id
            );
            let both = fixture.meddle(&twin).await;
            assert_eq!(both.is_err(), old.holds_key() && new.holds_key(), "{old} and {new}: {both:?}");
            if let Err(error) = both {
                assert!(error.into_database_error().unwrap().is_unique_violation());
            }
        }
    }
}

async fn the_database_refuses_what_no_method_writes(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let id = slot.payment.id;
    let second_slot = format!(
        "INSERT INTO slots (network, lane, lane_nonce, payment_id, created_at_ms) \
         SELECT network, lane, 99, '{id}', 0 FROM slots"
    );
    let unknown_lane =
        "INSERT INTO slots (network, lane, lane_nonce, created_at_ms) VALUES (1, 'nobody', 0, 0)";
    let same_nonce = "INSERT INTO slots (network, lane, lane_nonce, created_at_ms) \
                      SELECT network, lane, lane_nonce, 0 FROM slots";
    for impossible in [
        "UPDATE payments SET status = 'broadcast'",
        "UPDATE payments SET last_answer = 'refund'",
        "UPDATE payments SET version = 0",
        "UPDATE payments SET network = 0",
        "UPDATE payments SET network = 9007199254740992",
        "UPDATE payments SET block_number = -1",
        "UPDATE payments SET answer_holder = 'nobody'",
        "UPDATE payments SET answer_before = 'none'",
        "UPDATE payments SET answer_before = 'success', last_answer = 'success', answer_holder = 'x', answer_until_ms = 0",
        "UPDATE slots SET outcome = 'stolen'",
        "UPDATE slots SET lane_nonce = -1",
        "DELETE FROM slots",
        "DELETE FROM payments",
        "DELETE FROM lanes",
        "UPDATE lanes SET nonce_floor = -1",
        &second_slot,
        unknown_lane,
        same_nonce,
    ] {
        assert!(fixture.meddle(impossible).await.is_err(), "{impossible}");
    }
    assert_eq!(store.payment(id).await.unwrap(), Some(slot.payment));
}

/// The canonical bytes are there to find payments by, and nothing else reads them yet: only the database tells of an index.
async fn payments_are_indexed_by_payee_and_by_asset(fixture: Fixture) {
    let first_columns = fixture
        .list(if fixture.is_sqlite() {
            "SELECT c.name FROM pragma_index_list('payments') i, pragma_index_info(i.name) c \
             WHERE c.seqno = 0 AND i.partial = 0"
        } else {
            "SELECT a.attname::text FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
             WHERE i.indrelid = 'payments'::regclass AND i.indisvalid AND i.indpred IS NULL"
        })
        .await;
    for column in ["pay_to_account", "asset_account"] {
        assert!(first_columns.contains(column), "{column}: {first_columns:?}");
    }
}

contract!(
    payments_are_indexed_by_payee_and_by_asset,
    attempts_are_append_only,
    the_index_agrees_with_holds_key,
    the_database_refuses_what_no_method_writes
);

#[tokio::test(flavor = "multi_thread")]
async fn both_databases_have_the_same_columns() {
    let (sqlite, postgres) = (Fixture::sqlite().await, Fixture::postgres().await);
    let on_sqlite = sqlite
        .list(
            "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
        )
        .await;
    let on_postgres = postgres
        .list(
            "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'",
        )
        .await;
    assert!(on_sqlite.len() > 40, "{on_sqlite:?}");
    assert_eq!(on_sqlite, on_postgres);
}

#[test]
fn both_databases_have_the_same_migrations() {
    let names = |database: &str| -> BTreeSet<String> {
        let directory = format!("{}/../../migrations/{database}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    assert!(!names("sqlite").is_empty());
    assert_eq!(names("sqlite"), names("postgres"));
}
