//! Every statement, once for both databases. They differ in how to read the clock and in row locks, nothing else:
//! both take `$1` placeholders, `ON CONFLICT` on a partial index and `RETURNING`.

use quittance_protocol::settlement::{Event, Status};

use crate::model::PaymentFilter;

/// What `rows::payment` reads.
macro_rules! payment_columns {
    () => {
        "id, version, status, network, verifying_contract, authorizer, auth_nonce, fingerprint, pay_to, amount, \
         valid_after, valid_before, signature_digest, reason, message, tx_hash, block_number, judged_in_block, last_answer, answer_before, \
         answers, payee, created_at_ms, updated_at_ms"
    };
}

/// What `rows::attempt` reads, with the slots they are in.
macro_rules! attempts_in_slots {
    ($($and:tt)*) => {
        concat!(
            "SELECT a.slot_id, a.sequence, s.lane_nonce, a.kind, a.raw, a.hash, a.max_fee_per_gas, \
             a.max_priority_fee_per_gas, a.gas_limit, a.created_at_ms",
            $($and)*
            " FROM slots s JOIN attempts a ON a.slot_id = s.id "
        )
    };
}

/// A closed slot whose payment has an open one.
macro_rules! given_up {
    () => {
        "s.network = $1 AND s.lane = $2 AND s.lane_nonce = $3 AND s.outcome IS NOT NULL \
         AND EXISTS (SELECT 1 FROM slots o WHERE o.payment_id = s.payment_id AND o.outcome IS NULL)"
    };
}

/// The statements of one dialect. The comments are on the macro that writes them.
#[derive(Debug)]
pub struct Statements {
    now: &'static str,
    pub(crate) ping: &'static str,
    pub(crate) reserve: &'static str,
    /// Where the database can add up and lock in one statement.
    pub(crate) reserve_covered: Option<&'static str>,
    pub(crate) promises: &'static str,
    pub(crate) promised_amounts: &'static str,
    pub(crate) lookup: &'static str,
    pub(crate) payment: &'static str,
    pub(crate) outlived: &'static str,
    pub(crate) raise_lane_floor: &'static str,
    pub(crate) set_lane_floor: &'static str,
    pub(crate) lock_lane: &'static str,
    pub(crate) signable: &'static str,
    pub(crate) insert_slot: &'static str,
    pub(crate) insert_attempt: &'static str,
    pub(crate) lock_slot: &'static str,
    pub(crate) count_attempts: &'static str,
    pub(crate) newest_hash: &'static str,
    pub(crate) close_slot: &'static str,
    pub(crate) reopen_slot: &'static str,
    pub(crate) lock_given_up: &'static str,
    pub(crate) given_up: &'static str,
    pub(crate) newest_closed: &'static str,
    pub(crate) closed_lately: &'static str,
    pub(crate) sign_settled: &'static str,
    pub(crate) open_slots: &'static str,
    pub(crate) open_attempts: &'static str,
    pub(crate) open_payments: &'static str,
    pub(crate) payment_attempts: &'static str,
    pub(crate) stuck: &'static str,
    pub(crate) take_answer: &'static str,
    pub(crate) begin_answer: &'static str,
    pub(crate) end_answer: &'static str,
    pub(crate) take_back_answer: &'static str,
    pub(crate) lapse_answer: &'static str,
    pub(crate) bind_key: &'static str,
    pub(crate) read_key: &'static str,
    pub(crate) answer_key: &'static str,
    pub(crate) bind_and_answer_key: &'static str,
    pub(crate) forget_keys: &'static str,
    pub(crate) first_identity: &'static str,
    pub(crate) remember_identity: &'static str,
    pub(crate) take_keeper: &'static str,
    pub(crate) reset_answers: &'static str,
    pub(crate) reset_keepers: &'static str,
}

/// What a payer's balance has to cover. Reserved for longer than the authorization lives, it is no promise.
macro_rules! promised {
    ($columns:expr, $now:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM payments ",
            "WHERE network = $1 AND verifying_contract = $2 AND authorizer = $3 ",
            "AND status IN ('reserved', 'signed', 'mined') AND (status <> 'reserved' OR expires_at > ",
            $now,
            " / 1000) ",
            "UNION ALL SELECT ",
            $columns,
            " FROM payments ",
            "WHERE network = $1 AND verifying_contract = $2 AND authorizer = $3 ",
            "AND status IN ('settled', 'settled_elsewhere') AND block_number > $4"
        )
    };
}

/// A new row, from its values or from a query that may yield none. The predicate names the index that guards rule 5; a clash
/// on any other one is an error.
macro_rules! reserve {
    ($now:literal, $before:literal, $after:literal) => {
        concat!(
            "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, ",
            "fingerprint, pay_to, amount, valid_after, valid_before, expires_at, pay_to_account, asset_account, ",
            "signature_digest, payee, judged_in_block, created_at_ms, updated_at_ms) ",
            $before, "$1, 1, 'reserved', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, ",
            $now, ", ", $now, $after, " ",
            "ON CONFLICT (network, verifying_contract, authorizer, auth_nonce) ",
            "WHERE status NOT IN ('failed', 'refused') DO NOTHING RETURNING ", payment_columns!()
        )
    };
}

/// `now`: Unix milliseconds of the database's clock, read when the expression is evaluated and not when the
/// transaction began: a statement that waited for a row must judge a lease by the time after the wait.
macro_rules! statements {
    (now: $now:literal, lock: $lock:literal, skip_locked: $skip_locked:literal, covered: $covered:expr) => {
        Statements {
            now: $now,
            ping: "SELECT 1",
            reserve: reserve!($now, "VALUES (", ")"),
            reserve_covered: $covered,
            // Oldest first.
            promises: concat!(promised!(payment_columns!(), $now), " ORDER BY created_at_ms, id"),
            promised_amounts: promised!("id, amount", $now),
            lookup: concat!(
                "SELECT ", payment_columns!(), ", CAST(CASE WHEN status = 'reserved' AND expires_at <= ", $now, " / 1000 ",
                "THEN 1 ELSE 0 END AS BIGINT) AS outlived, ",
                "CAST(CASE WHEN created_at_ms > ", $now, " - 30000 THEN 1 ELSE 0 END AS BIGINT) AS is_young FROM payments ",
                "WHERE network = $1 AND verifying_contract = $2 AND authorizer = $3 AND auth_nonce = $4 ",
                "ORDER BY CASE WHEN status IN ('failed', 'refused') THEN 1 ELSE 0 END, created_at_ms DESC, id DESC ",
                "LIMIT 1"
            ),
            payment: concat!("SELECT ", payment_columns!(), " FROM payments WHERE id = $1"),
            // The present stands in a query of its own, which is asked once: PostgreSQL would look through all rows for it.
            outlived: concat!(
                "SELECT ", payment_columns!(), ", expires_at FROM payments ",
                "WHERE status = 'reserved' AND (expires_at, id) > ($2, $3) AND network = $1 ",
                "AND expires_at <= (SELECT ", $now, " / 1000) AND expires_at > (SELECT ", $now, " / 1000 - $4) ",
                "ORDER BY expires_at, id LIMIT $5"
            ),
            raise_lane_floor: "INSERT INTO lanes (network, address, nonce_floor) VALUES ($1, $2, $3) \
                 ON CONFLICT (network, address) DO UPDATE SET nonce_floor = excluded.nonce_floor \
                 WHERE lanes.nonce_floor < excluded.nonce_floor",
            set_lane_floor: "INSERT INTO lanes (network, address, nonce_floor) VALUES ($1, $2, $3) \
                 ON CONFLICT (network, address) DO UPDATE SET nonce_floor = excluded.nonce_floor \
                 WHERE lanes.nonce_floor <> excluded.nonce_floor",
            // Always a statement of its own: what the next statement reads must be newer than the lock.
            lock_lane: concat!("SELECT nonce_floor FROM lanes WHERE network = $1 AND address = $2", $lock),
            signable: concat!(
                "SELECT status, (SELECT MAX(lane_nonce) FROM slots WHERE network = $3 AND lane = $4) AS highest, ",
                "(SELECT COUNT(*) FROM slots WHERE payment_id = payments.id AND outcome IS NULL) AS open_slots ",
                "FROM payments WHERE id = $1 AND version = $2 AND network = $3", $lock
            ),
            insert_slot: concat!(
                "INSERT INTO slots (network, lane, lane_nonce, payment_id, created_at_ms) ",
                "VALUES ($1, $2, $3, $4, ", $now, ") ON CONFLICT (network, lane, lane_nonce) DO NOTHING RETURNING id"
            ),
            insert_attempt: concat!(
                "INSERT INTO attempts (slot_id, sequence, kind, raw, hash, max_fee_per_gas, ",
                "max_priority_fee_per_gas, gas_limit, created_at_ms) ",
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ", $now, ") RETURNING created_at_ms"
            ),
            lock_slot: concat!("SELECT lane_nonce, payment_id FROM slots WHERE id = $1 AND outcome IS NULL", $lock),
            count_attempts: "SELECT COUNT(*) AS attempts FROM attempts WHERE slot_id = $1",
            newest_hash: concat!(
                "UPDATE payments SET tx_hash = $2, updated_at_ms = ", $now, " WHERE id = $1 AND status = 'signed'"
            ),
            close_slot: concat!(
                "UPDATE slots SET outcome = $2, closed_at_ms = ", $now, " WHERE id = $1 AND outcome IS NULL"
            ),
            reopen_slot: "UPDATE slots SET outcome = NULL, closed_at_ms = NULL \
                 WHERE network = $1 AND lane = $2 AND lane_nonce = $3 AND outcome IS NOT NULL \
                 AND NOT EXISTS (SELECT 1 FROM slots o WHERE o.payment_id = slots.payment_id AND o.outcome IS NULL)",
            lock_given_up: concat!("SELECT id FROM slots s WHERE ", given_up!(), $lock),
            given_up: concat!(attempts_in_slots!(), "WHERE ", given_up!(), " ORDER BY a.sequence"),
            newest_closed: concat!(
                "SELECT s.lane, s.lane_nonce, ", $now, " - s.closed_at_ms AS closed_ago_ms FROM lanes l ",
                "JOIN slots s ON s.network = l.network AND s.lane = l.address AND s.lane_nonce = ",
                "(SELECT MAX(n.lane_nonce) FROM slots n WHERE n.network = l.network AND n.lane = l.address) ",
                "WHERE l.network = $1 AND s.outcome IS NOT NULL ORDER BY s.lane"
            ),
            // The newest slots of a lane, however many are younger than that.
            closed_lately: concat!(
                "SELECT ", payment_columns!(), " FROM payments WHERE id IN (SELECT payment_id FROM slots ",
                "WHERE network = $1 AND lane = $2 AND lane_nonce > ",
                "(SELECT MAX(lane_nonce) FROM slots WHERE network = $1 AND lane = $2) - $4 ",
                "AND closed_at_ms >= ", $now, " - $3) AND status IN ('settled', 'failed') ORDER BY id"
            ),
            sign_settled: concat!(
                "UPDATE payments SET tx_hash = $3, version = version + 1, updated_at_ms = ", $now, " ",
                "WHERE id = $1 AND version = $2 AND status = 'settled' RETURNING ", payment_columns!()
            ),
            open_slots: "SELECT id, lane, lane_nonce, payment_id FROM slots \
                 WHERE network = $1 AND outcome IS NULL ORDER BY lane, lane_nonce",
            open_attempts: concat!(
                attempts_in_slots!(", ", $now, " - a.created_at_ms AS signed_ago_ms",),
                "WHERE s.network = $1 AND s.outcome IS NULL ORDER BY a.slot_id, a.sequence"
            ),
            payment_attempts: concat!(
                attempts_in_slots!(),
                "WHERE s.payment_id = $1 ORDER BY a.slot_id, a.sequence"
            ),
            open_payments: concat!(
                "SELECT ", payment_columns!(), " FROM payments ",
                "WHERE network = $1 AND status IN ('signed', 'mined') UNION ",
                "SELECT ", payment_columns!(), " FROM payments ",
                "WHERE id IN (SELECT payment_id FROM slots WHERE network = $1 AND outcome IS NULL) ",
                "ORDER BY id"
            ),
            // The inner query reads what is not final, and of that the attempts.
            stuck: concat!(
                "SELECT ", payment_columns!(), ", ", $now, " - first_signed_ms AS signed_ago_ms FROM (SELECT ",
                payment_columns!(), ", (SELECT MIN(a.created_at_ms) FROM slots s JOIN attempts a ON a.slot_id = s.id ",
                "WHERE s.payment_id = payments.id) AS first_signed_ms ",
                "FROM payments WHERE status IN ('signed', 'mined')) AS unfinished ",
                "WHERE first_signed_ms <= (SELECT ", $now, " - $1) ORDER BY first_signed_ms, id LIMIT $2"
            ),
            // A new holder leaves an answer that was begun and never confirmed as it was recorded.
            // "Pending" on its way to a caller hands nothing out: who asks after it was begun need not wait until it arrived.
            take_answer: concat!(
                "UPDATE payments SET answer_holder = $2, answer_until_ms = ", $now, " + $3, ",
                "answer_before = CASE WHEN answer_holder = $2 THEN answer_before ELSE NULL END ",
                "WHERE id = $1 AND answers <= $4 AND (last_answer IS NULL OR last_answer <> 'success') ",
                "AND (answer_holder IS NULL OR answer_holder = $2 OR answer_until_ms <= ", $now, " ",
                "OR (answer_before IS NOT NULL AND last_answer = 'pending'))"
            ),
            // Begun twice, it is one answer, and goes back to what stood before the first time.
            begin_answer: concat!(
                "UPDATE payments SET answer_before = COALESCE(answer_before, last_answer, 'none'), last_answer = $3, ",
                "answers = answers + CASE WHEN answer_before IS NULL THEN 1 ELSE 0 END, ",
                "answer_until_ms = ", $now, " + $4, updated_at_ms = ", $now, " ",
                "WHERE id = $1 AND answer_holder = $2 AND (last_answer IS NULL OR last_answer <> 'success')"
            ),
            // A lease that lapsed but that nobody took over still counts: the caller was told.
            end_answer: concat!(
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL, answer_before = NULL ",
                "WHERE id = $1 AND answer_holder = $2"
            ),
            take_back_answer: concat!(
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL, answer_before = NULL, ",
                "last_answer = CASE answer_before WHEN 'none' THEN NULL WHEN 'pending' THEN 'pending' ",
                "ELSE last_answer END, answers = answers - CASE WHEN answer_before IS NULL THEN 0 ELSE 1 END ",
                "WHERE id = $1 AND answer_holder = $2"
            ),
            lapse_answer: concat!(
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL, answer_before = NULL ",
                "WHERE id = $1 AND answer_until_ms <= ", $now
            ),
            bind_key: concat!(
                "INSERT INTO idempotency_keys (scope, key, fingerprint, resource, signature_digest, bound_at) ",
                "VALUES ($1, $2, $3, $4, $5, ", $now, " / 1000) ON CONFLICT (scope, key) DO NOTHING"
            ),
            read_key: "SELECT fingerprint, resource, signature_digest, answer FROM idempotency_keys WHERE scope = $1 AND key = $2",
            // Bound without a resource, a key stands for the payment alone, whatever it is paid for; without a signature, however
            // it was signed.
            answer_key: "UPDATE idempotency_keys SET answer = $6 WHERE scope = $1 AND key = $2 AND answer IS NULL \
                 AND fingerprint = $3 AND (resource IS NULL OR resource = $4) \
                 AND (signature_digest IS NULL OR signature_digest = $5)",
            bind_and_answer_key: concat!(
                "INSERT INTO idempotency_keys (scope, key, fingerprint, resource, signature_digest, bound_at, answer) ",
                "VALUES ($1, $2, $3, $4, $5, ", $now, " / 1000, $6) ON CONFLICT (scope, key) DO UPDATE ",
                "SET answer = COALESCE(idempotency_keys.answer, excluded.answer) ",
                "WHERE idempotency_keys.fingerprint = excluded.fingerprint ",
                "AND (idempotency_keys.resource IS NULL OR idempotency_keys.resource = excluded.resource) ",
                "AND (idempotency_keys.signature_digest IS NULL ",
                "OR idempotency_keys.signature_digest = excluded.signature_digest)"
            ),
            // The payments of a key: one that may still move, or whose nonce was given back while it can be used. A key
            // without any was only ever refused.
            forget_keys: concat!(
                "DELETE FROM idempotency_keys WHERE (scope, key) IN (SELECT k.scope, k.key FROM idempotency_keys k ",
                "WHERE k.bound_at <= (", $now, " - $1) / 1000 AND NOT EXISTS (SELECT 1 FROM payments p ",
                "WHERE p.fingerprint = k.fingerprint AND (p.status IN ('reserved', 'signed', 'mined') ",
                "OR (p.status IN ('failed', 'refused') AND p.expires_at > ", $now, " / 1000))) ",
                "ORDER BY k.bound_at LIMIT $2", $skip_locked, ")"
            ),
            first_identity: "SELECT registry, agent_id FROM payee_origins WHERE origin = $1",
            // Two that fill the last place at once may both get in.
            remember_identity: concat!(
                "INSERT INTO payee_origins (origin, registry, agent_id, verified_at_ms) SELECT $1, $2, $3, ", $now, " ",
                "WHERE (SELECT COUNT(*) FROM payee_origins) < $4 ON CONFLICT (origin) DO NOTHING"
            ),
            take_keeper: concat!(
                "INSERT INTO keepers (network, holder, epoch, until_ms) VALUES ($1, $2, 1, ", $now, " + $3) ",
                "ON CONFLICT (network) DO UPDATE SET holder = excluded.holder, until_ms = ", $now, " + $3, ",
                "epoch = keepers.epoch + CASE WHEN keepers.holder = excluded.holder THEN 0 ELSE 1 END ",
                "WHERE keepers.holder = excluded.holder OR keepers.until_ms <= ", $now, " RETURNING epoch"
            ),
            reset_answers:
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL, answer_before = NULL \
                 WHERE answer_holder IS NOT NULL",
            reset_keepers: "UPDATE keepers SET until_ms = 0",
        }
    };
}

/// PostgreSQL 14 and later.
pub(crate) const POSTGRES: Statements = statements!(
    now: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    lock: " FOR UPDATE",
    skip_locked: " FOR UPDATE SKIP LOCKED",
    covered: Some(reserve!(
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
        "SELECT ",
        " WHERE payments_promised_amount($2, $3, $4, $18, $19) + CAST($8 AS NUMERIC) <= CAST($17 AS NUMERIC)"
    ))
);

/// The bundled SQLite. Its one writer is the lock.
pub(crate) const SQLITE: Statements =
    statements!(now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)", lock: "", skip_locked: "", covered: None);

impl Statements {
    /// The compare-and-set for an event: the arms are [`Status::on`] itself, so that SQL knows no second state graph.
    ///
    /// Binds id, version, reason, message, hash and block number; evidence that is not given stays as it was.
    /// A payment that becomes `signed` is in no block.
    pub(crate) fn transition(&self, event: Event) -> String {
        let moves = || Status::ALL.into_iter().filter_map(move |from| Some((from, from.on(event)?)));
        let arms: String = moves().map(|(from, to)| format!(" WHEN '{from}' THEN '{to}'")).collect();
        let sources = moves().map(|(from, _)| format!("'{from}'")).collect::<Vec<_>>().join(", ");
        format!(
            "UPDATE payments SET status = CASE status{arms} END, version = version + 1, \
             reason = COALESCE($3, reason), message = COALESCE($4, message), tx_hash = COALESCE($5, tx_hash), \
             block_number = CASE WHEN (CASE status{arms} END) = 'signed' THEN NULL \
             ELSE COALESCE($6, block_number) END, updated_at_ms = {now} \
             WHERE id = $1 AND version = $2 AND status IN ({sources}) RETURNING {columns}",
            now = self.now,
            columns = payment_columns!(),
        )
    }

    /// The search for the filters that are set, in the order of [`PaymentFilter`]'s fields; the limit is bound last.
    pub(crate) fn find(filter: &PaymentFilter) -> String {
        let PaymentFilter { network, asset, payer, auth_nonce, status } = filter;
        let columns = [
            ("network", network.is_some()),
            ("verifying_contract", asset.is_some()),
            ("authorizer", payer.is_some()),
            ("auth_nonce", auth_nonce.is_some()),
            ("status", status.is_some()),
        ];
        let given: Vec<_> =
            columns.into_iter().filter(|(_, given)| *given).map(|(column, _)| column).collect();
        let conditions: Vec<_> =
            given.iter().enumerate().map(|(i, column)| format!("{column} = ${}", i + 1)).collect();
        let filter = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        format!(
            "SELECT {columns} FROM payments{filter} ORDER BY created_at_ms DESC, id DESC LIMIT ${limit}",
            columns = payment_columns!(),
            limit = given.len() + 1,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256};
    use quittance_protocol::units::{AuthNonce, Network};
    use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqliteConnection};

    /// A store that has been in use for a year must answer as fast as a new one: no statement of the service walks a
    /// whole table.
    #[tokio::test]
    async fn every_statement_has_an_index() {
        let mut database = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        sqlx::migrate!("../../migrations/sqlite").run(&mut database).await.unwrap();
        let filter = PaymentFilter {
            network: Network::from_chain_id(1),
            asset: Some(Address::ZERO),
            payer: Some(Address::ZERO),
            auth_nonce: Some(AuthNonce(B256::ZERO)),
            status: Some(Status::Settled),
        };
        let by_payer = PaymentFilter { payer: filter.payer, ..PaymentFilter::default() };
        let by_nonce = PaymentFilter { auth_nonce: filter.auth_nonce, ..PaymentFilter::default() };
        let Statements {
            now: _,
            ping,
            reserve,
            reserve_covered: _,
            promises,
            promised_amounts,
            lookup,
            payment,
            outlived,
            raise_lane_floor,
            set_lane_floor,
            lock_lane,
            signable,
            insert_slot,
            insert_attempt,
            lock_slot,
            count_attempts,
            newest_hash,
            close_slot,
            reopen_slot,
            lock_given_up,
            given_up,
            newest_closed,
            closed_lately,
            sign_settled,
            open_slots,
            open_attempts,
            open_payments,
            payment_attempts,
            stuck,
            take_answer,
            begin_answer,
            end_answer,
            take_back_answer,
            lapse_answer,
            bind_key,
            read_key,
            answer_key,
            bind_and_answer_key,
            forget_keys,
            first_identity,
            take_keeper,
            // Once per origin. It counts a table that is bounded.
            remember_identity: _,
            // Once per start, and allowed to take its time.
            reset_answers: _,
            reset_keepers: _,
        } = SQLITE;
        let statements = [
            ping,
            reserve,
            promises,
            promised_amounts,
            lookup,
            payment,
            outlived,
            raise_lane_floor,
            set_lane_floor,
            lock_lane,
            signable,
            insert_slot,
            insert_attempt,
            lock_slot,
            count_attempts,
            newest_hash,
            close_slot,
            reopen_slot,
            lock_given_up,
            given_up,
            newest_closed,
            closed_lately,
            sign_settled,
            open_slots,
            open_attempts,
            open_payments,
            payment_attempts,
            stuck,
            take_answer,
            begin_answer,
            end_answer,
            take_back_answer,
            lapse_answer,
            bind_key,
            read_key,
            answer_key,
            bind_and_answer_key,
            forget_keys,
            first_identity,
            take_keeper,
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(Event::ALL.map(|event| SQLITE.transition(event)))
        .chain([&filter, &by_payer, &by_nonce, &PaymentFilter::default()].map(Statements::find));
        for statement in statements {
            let plan =
                database.fetch_all(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"))).await.unwrap();
            for step in plan {
                let step: String = step.get("detail");
                let walks = step.starts_with("SCAN ")
                    && step != "SCAN CONSTANT ROW"
                    // Newest first, and it stops at the limit.
                    && step != "SCAN payments USING INDEX payments_by_age"
                    // Only what is not final is in it.
                    && step != "SCAN payments USING INDEX payments_unfinished";
                assert!(!walks, "{step}: {statement}");
            }
        }
    }
}
