//! Every statement, once for both databases. They differ in how to read the clock and in row locks, nothing else:
//! both take `$1` placeholders, `ON CONFLICT` on a partial index and `RETURNING`.

use quittance_protocol::settlement::{Event, Status};

use crate::model::PaymentFilter;

/// What `rows::payment` reads.
macro_rules! payment_columns {
    () => {
        "id, version, status, network, verifying_contract, authorizer, auth_nonce, fingerprint, pay_to, amount, \
         valid_after, valid_before, reason, message, tx_hash, block_number, last_answer, created_at_ms, updated_at_ms"
    };
}

/// The statements of one dialect. The comments are on the macro that writes them.
#[derive(Debug)]
pub struct Statements {
    now: &'static str,
    pub(crate) ping: &'static str,
    pub(crate) reserve: &'static str,
    pub(crate) lookup: &'static str,
    pub(crate) payment: &'static str,
    pub(crate) expire: &'static str,
    pub(crate) raise_lane_floor: &'static str,
    pub(crate) lock_lane: &'static str,
    pub(crate) signable: &'static str,
    pub(crate) insert_slot: &'static str,
    pub(crate) insert_attempt: &'static str,
    pub(crate) lock_slot: &'static str,
    pub(crate) count_attempts: &'static str,
    pub(crate) newest_hash: &'static str,
    pub(crate) close_slot: &'static str,
    pub(crate) open_slots: &'static str,
    pub(crate) open_attempts: &'static str,
    pub(crate) open_payments: &'static str,
    pub(crate) payment_attempts: &'static str,
    pub(crate) take_answer: &'static str,
    pub(crate) release_answer: &'static str,
    pub(crate) bind_key: &'static str,
    pub(crate) read_key: &'static str,
    pub(crate) answer_key: &'static str,
    pub(crate) take_keeper: &'static str,
    pub(crate) reset_answers: &'static str,
    pub(crate) reset_keepers: &'static str,
}

/// `now`: Unix milliseconds of the database's clock, read when the expression is evaluated and not when the
/// transaction began: a statement that waited for a row must judge a lease by the time after the wait.
macro_rules! statements {
    (now: $now:literal, lock: $lock:literal, skip_locked: $skip_locked:literal) => {
        Statements {
            now: $now,
            ping: "SELECT 1",
            // The predicate names the index that guards rule 5; a clash on any other one is an error.
            reserve: concat!(
                "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, ",
                "fingerprint, pay_to, amount, valid_after, valid_before, expires_at, created_at_ms, updated_at_ms) ",
                "VALUES ($1, 1, 'reserved', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ", $now, ", ", $now, ") ",
                "ON CONFLICT (network, verifying_contract, authorizer, auth_nonce) ",
                "WHERE status NOT IN ('failed', 'refused') DO NOTHING RETURNING ", payment_columns!()
            ),
            lookup: concat!(
                "SELECT ", payment_columns!(), ", expires_at FROM payments ",
                "WHERE network = $1 AND verifying_contract = $2 AND authorizer = $3 AND auth_nonce = $4 ",
                "ORDER BY CASE WHEN status IN ('failed', 'refused') THEN 1 ELSE 0 END, created_at_ms DESC, id DESC ",
                "LIMIT 1"
            ),
            payment: concat!("SELECT ", payment_columns!(), " FROM payments WHERE id = $1"),
            // Rows that somebody is working on are left for the next round: two processes that expire at once must
            // not wait for each other.
            expire: concat!(
                "UPDATE payments SET status = 'refused', version = version + 1, reason = $2, message = $3, ",
                "updated_at_ms = ", $now, " WHERE status = 'reserved' AND id IN (SELECT id FROM payments ",
                "WHERE status = 'reserved' AND expires_at <= $1 ORDER BY expires_at LIMIT $4", $skip_locked, ")"
            ),
            raise_lane_floor: "INSERT INTO lanes (network, address, nonce_floor) VALUES ($1, $2, $3) \
                 ON CONFLICT (network, address) DO UPDATE SET nonce_floor = excluded.nonce_floor \
                 WHERE lanes.nonce_floor < excluded.nonce_floor",
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
            open_slots: "SELECT id, lane, lane_nonce, payment_id FROM slots \
                 WHERE network = $1 AND outcome IS NULL ORDER BY lane, lane_nonce",
            open_attempts: "SELECT a.slot_id, a.sequence, s.lane_nonce, a.kind, a.raw, a.hash, a.max_fee_per_gas, \
                 a.max_priority_fee_per_gas, a.gas_limit, a.created_at_ms \
                 FROM slots s JOIN attempts a ON a.slot_id = s.id \
                 WHERE s.network = $1 AND s.outcome IS NULL ORDER BY a.slot_id, a.sequence",
            payment_attempts: "SELECT a.slot_id, a.sequence, s.lane_nonce, a.kind, a.raw, a.hash, a.max_fee_per_gas, \
                 a.max_priority_fee_per_gas, a.gas_limit, a.created_at_ms \
                 FROM slots s JOIN attempts a ON a.slot_id = s.id \
                 WHERE s.payment_id = $1 ORDER BY a.slot_id, a.sequence",
            open_payments: concat!(
                "SELECT ", payment_columns!(), " FROM payments ",
                "WHERE network = $1 AND status IN ('signed', 'mined') UNION ",
                "SELECT ", payment_columns!(), " FROM payments ",
                "WHERE id IN (SELECT payment_id FROM slots WHERE network = $1 AND outcome IS NULL) ",
                "ORDER BY id"
            ),
            take_answer: concat!(
                "UPDATE payments SET answer_holder = $2, answer_until_ms = ", $now, " + $3 ",
                "WHERE id = $1 AND (last_answer IS NULL OR last_answer <> 'success') ",
                "AND (answer_holder IS NULL OR answer_holder = $2 OR answer_until_ms <= ", $now, ")"
            ),
            // A lease that lapsed but that nobody took over still gets its answer recorded: the caller was told.
            release_answer: concat!(
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL, ",
                "last_answer = COALESCE($3, last_answer), updated_at_ms = ", $now, " ",
                "WHERE id = $1 AND answer_holder = $2"
            ),
            bind_key: "INSERT INTO idempotency_keys (scope, key, fingerprint, bound_at) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (scope, key) DO NOTHING",
            read_key: "SELECT fingerprint, answer FROM idempotency_keys WHERE scope = $1 AND key = $2",
            answer_key: "UPDATE idempotency_keys SET answer = $3 WHERE scope = $1 AND key = $2 AND answer IS NULL",
            take_keeper: concat!(
                "INSERT INTO keepers (network, holder, epoch, until_ms) VALUES ($1, $2, 1, ", $now, " + $3) ",
                "ON CONFLICT (network) DO UPDATE SET holder = excluded.holder, until_ms = ", $now, " + $3, ",
                "epoch = keepers.epoch + CASE WHEN keepers.holder = excluded.holder THEN 0 ELSE 1 END ",
                "WHERE keepers.holder = excluded.holder OR keepers.until_ms <= ", $now, " RETURNING epoch"
            ),
            reset_answers:
                "UPDATE payments SET answer_holder = NULL, answer_until_ms = NULL WHERE answer_holder IS NOT NULL",
            reset_keepers: "UPDATE keepers SET until_ms = 0",
        }
    };
}

/// PostgreSQL 14 and later.
pub(crate) const POSTGRES: Statements = statements!(
    now: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    lock: " FOR UPDATE",
    skip_locked: " FOR UPDATE SKIP LOCKED"
);

/// The bundled SQLite. Its one writer is the lock.
pub(crate) const SQLITE: Statements =
    statements!(now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)", lock: "", skip_locked: "");

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
