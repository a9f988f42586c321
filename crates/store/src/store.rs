//! The trait, implemented once over both dialects.

use quittance_protocol::{
    payee::{Identity, Origin},
    settlement::{Event, Evidence, ReplayKey, Status},
    units::{LaneNonce, Network, UnixSeconds},
};
use sqlx::{SqlSafeStr, SqlStr};
use std::{collections::HashMap, fmt, fs::File, sync::Arc, time::Duration};

use crate::{
    SignWith, Store, StoreError,
    bindings::{
        begin_answer_binds, covered_in_one, key_answer_binds, key_binds, key_name_binds, key_use_binds,
        lane_nonce_binds, promises_binds, reservation_binds,
    },
    connections::Connections,
    driver::{Bind, Columns as _, Dialect, assembled, binds},
    model::{
        Attempt, AttemptKind, ClosedSlot, HolderId, KeyBinding, KeyUse, KeyedAnswer, LaneId, LastAnswer,
        OpenSlot, OpenWork, Payment, PaymentFilter, Reservation, Reserve, SettlementId, SignedSlot, SlotId,
        SlotOutcome, Stuck,
    },
    rows::{self, Table, hex},
    sql::Statements,
    transaction::{Tx, bounded, transition},
};

/// How often a reservation looks again because the holder of its key was just leaving.
const RESERVE_ROUNDS: usize = 4;

/// How many idempotency keys one statement forgets; bounds the time it holds their rows.
const FORGET_BATCH: u32 = 500;

/// A store on one database. Use it as [`crate::PgStore`] or [`crate::SqliteStore`].
pub struct SqlStore<D: Dialect> {
    pub(crate) writers: Arc<Connections<D>>,
    pub(crate) readers: Arc<Connections<D>>,
    /// Held while the store lives; see `sqlite`.
    pub(crate) _only_process: Option<File>,
}

impl<D: Dialect> fmt::Debug for SqlStore<D> {
    /// Without the pools: their options know the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("database", &D::LABEL).finish_non_exhaustive()
    }
}

impl<D: Dialect> SqlStore<D> {
    /// One reading statement.
    async fn read(&self, sql: SqlStr, binds: Vec<Bind>) -> Result<Vec<D::Row>, StoreError> {
        let mut connection = self.readers.take().await?;
        bounded(D::rows(&mut connection, sql, binds)).await
    }

    /// Whether a statement that counts finds anything.
    pub(crate) async fn exists(&self, sql: &'static str) -> Result<bool, StoreError> {
        let rows = self.read(sql.into_sql_str(), binds![]).await?;
        Ok(rows.first().ok_or(sqlx::Error::RowNotFound)?.int("found")? > 0)
    }

    /// One writing statement that returns rows; its own transaction.
    async fn write(&self, sql: SqlStr, binds: Vec<Bind>) -> Result<Vec<D::Row>, StoreError> {
        let mut connection = self.writers.take().await?;
        bounded(D::rows(&mut connection, sql, binds)).await
    }

    /// One writing statement; its own transaction.
    pub(crate) async fn execute(&self, sql: &'static str, binds: Vec<Bind>) -> Result<u64, StoreError> {
        let mut connection = self.writers.take().await?;
        bounded(D::execute(&mut connection, sql.into_sql_str(), binds)).await
    }

    /// Next nonce of the lane, slot, first attempt and payment in one transaction, where the payment stands so that it may be
    /// signed.
    async fn sign_in_new_slot(
        &self,
        id: SettlementId,
        version: i64,
        lane: &LaneId,
        sign: SignWith<'_>,
        may_be_signed: impl Fn(Status) -> bool + Send,
    ) -> Result<Option<SignedSlot>, StoreError> {
        let mut tx = self.begin().await?;
        let floor = tx.lock_lane(lane).await?;
        let binds = binds![id.to_string(), version, rows::chain_id(lane.network)?, hex(lane.address)];
        let rows = tx.rows(D::SQL.signable, binds).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let status = Table("payments").parsed(row, "status", |text| text.parse::<Status>().ok())?;
        let open_slots = Table("slots").int(row, "open_slots")?;
        // A payment with an open slot is already on its way: a second slot would be a second transaction.
        if !may_be_signed(status) || open_slots > 0 {
            return Ok(None);
        }
        let lane_nonce = match Table("slots").maybe_unsigned(row, "highest")? {
            Some(highest) => floor.max(LaneNonce(highest.saturating_add(1))),
            None => floor,
        };
        // Checked before anything is signed that could not be stored.
        rows::int(lane_nonce.0, "lane nonce")?;
        let signed = sign(lane_nonce).map_err(StoreError::Sign)?;
        let hash = signed.hash;
        let slot = tx.insert_slot(lane, lane_nonce, Some(id)).await?.ok_or(sqlx::Error::RowNotFound)?;
        let attempt = tx.insert_attempt(slot, 0, lane_nonce, signed).await?;
        let payment = if status == Status::Settled {
            let rows = tx.rows(D::SQL.sign_settled, binds![id.to_string(), version, hex(hash)]).await?;
            rows.first().map(rows::payment).transpose()?
        } else {
            let evidence = Evidence { tx_hash: Some(hash), ..Evidence::default() };
            tx.transition(id, version, Event::Signed, &evidence).await?
        };
        let Some(payment) = payment else { return Ok(None) };
        tx.commit().await?;
        Ok(Some(SignedSlot { payment, attempt }))
    }

    /// A transaction that writes.
    async fn begin(&self) -> Result<Tx<D>, StoreError> {
        Ok(Tx(self.writers.begin(D::BEGIN_WRITE).await?))
    }

    /// A transaction whose reads all see one state.
    async fn snapshot(&self) -> Result<Tx<D>, StoreError> {
        Ok(Tx(self.readers.begin(D::BEGIN_SNAPSHOT).await?))
    }
}

#[async_trait::async_trait]
impl<D: Dialect> Store for SqlStore<D> {
    async fn ping(&self) -> Result<(), StoreError> {
        let mut connection = self.readers.take_at_once().await?;
        bounded(D::rows(&mut connection, D::SQL.ping.into_sql_str(), binds![])).await.map(drop)
    }

    async fn reserve(&self, reservation: &Reservation<'_>) -> Result<Reserve, StoreError> {
        let terms = reservation.terms;
        let insert = reservation_binds::<D>(reservation)?;
        for _ in 0..RESERVE_ROUNDS {
            let fresh = match (reservation.key, covered_in_one(D::SQL, reservation)) {
                (None, Some(sql)) => {
                    let inserted = self.write(sql.into_sql_str(), insert.clone()).await?;
                    inserted.first().map(rows::payment).transpose()?
                }
                (key, one) => {
                    // Always the payment first, so that two never wait for each other.
                    let mut tx = self.begin().await?;
                    let fresh = match one {
                        Some(sql) => tx.reserve(sql, insert.clone()).await?,
                        None if tx.covers(reservation).await? => {
                            tx.reserve(D::SQL.reserve, insert.clone()).await?
                        }
                        None => None,
                    };
                    if fresh.is_some() {
                        if let Some(key) = key
                            && tx.bind(key).await? == KeyBinding::Other
                        {
                            return Ok(Reserve::KeyTaken);
                        }
                        tx.commit().await?;
                    }
                    fresh
                }
            };
            if let Some(payment) = fresh {
                return Ok(Reserve::Fresh(payment));
            }
            let found = self.read(D::SQL.lookup.into_sql_str(), key_binds(&terms.key)?).await?;
            let holder = found.first().map(rows::payment).transpose()?;
            let Some((row, holder)) = found.first().zip(holder.filter(|holder| holder.status.holds_key()))
            else {
                // Whoever held it is just leaving, or nobody did and there is too little to cover it. Who cannot tell says
                // the latter, which is looked into.
                if reservation.funds.is_some() {
                    return Ok(Reserve::Uncovered);
                }
                continue;
            };
            if Table("payments").int(row, "outlived")? == 1 {
                // Lost to somebody else or not, the next round sees what became of it.
                self.transition(holder.id, holder.version, Event::Refused, &Evidence::outlived()).await?;
            } else if holder.terms.fingerprint == terms.fingerprint {
                return Ok(Reserve::Same(holder));
            } else {
                return Ok(Reserve::Other(holder));
            }
        }
        Err(StoreError::Contended)
    }

    async fn promises(&self, key: &ReplayKey, block_number: u64) -> Result<Vec<Payment>, StoreError> {
        let rows = self.read(D::SQL.promises.into_sql_str(), promises_binds(key, block_number)?).await?;
        rows.iter().map(rows::payment).collect()
    }

    async fn lookup(&self, key: &ReplayKey) -> Result<Option<Payment>, StoreError> {
        let rows = self.read(D::SQL.lookup.into_sql_str(), key_binds(key)?).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut payment = rows::payment(row)?;
        if Table("payments").int(row, "is_young")? == 0 {
            payment.judged_in_block = None;
        }
        Ok(Some(payment))
    }

    async fn payment(&self, id: SettlementId) -> Result<Option<Payment>, StoreError> {
        let rows = self.read(D::SQL.payment.into_sql_str(), binds![id.to_string()]).await?;
        rows.first().map(rows::payment).transpose()
    }

    async fn find(&self, filter: &PaymentFilter, limit: u32) -> Result<Vec<Payment>, StoreError> {
        let mut binds: Vec<Bind> = Vec::new();
        binds.extend(filter.network.map(rows::chain_id).transpose()?.map(Bind::from));
        binds.extend(filter.asset.map(|asset| Bind::from(hex(asset))));
        binds.extend(filter.payer.map(|payer| Bind::from(hex(payer))));
        binds.extend(filter.auth_nonce.map(|nonce| Bind::from(hex(nonce.0))));
        binds.extend(filter.status.map(|status| Bind::from(status.as_str())));
        binds.push(Bind::from(i64::from(limit)));
        let rows = self.read(assembled(Statements::find(filter)), binds).await?;
        rows.iter().map(rows::payment).collect()
    }

    async fn transition(
        &self,
        id: SettlementId,
        version: i64,
        event: Event,
        evidence: &Evidence,
    ) -> Result<Option<Payment>, StoreError> {
        if event == Event::Signed {
            return Ok(None);
        }
        let (sql, binds) = transition::<D>(id, version, event, evidence)?;
        let rows = self.write(sql, binds).await?;
        rows.first().map(rows::payment).transpose()
    }

    async fn outlived(
        &self,
        network: Network,
        lately: Option<Duration>,
        (second, id): (UnixSeconds, SettlementId),
        limit: u32,
    ) -> Result<Vec<(UnixSeconds, Payment)>, StoreError> {
        let binds = binds![
            rows::chain_id(network)?,
            rows::deadline(second),
            id.to_string(),
            rows::lookback(lately),
            i64::from(limit),
        ];
        let rows = self.read(D::SQL.outlived.into_sql_str(), binds).await?;
        let read = |row| {
            let expired_at = Table("payments").unsigned(row, "expires_at")?;
            Ok((UnixSeconds(expired_at), rows::payment(row)?))
        };
        rows.iter().map(read).collect()
    }

    async fn raise_lane_floor(&self, lane: &LaneId, floor: LaneNonce) -> Result<(), StoreError> {
        self.execute(D::SQL.raise_lane_floor, lane_nonce_binds(lane, floor)?).await.map(drop)
    }

    async fn set_lane_floor(&self, lane: &LaneId, floor: LaneNonce) -> Result<(), StoreError> {
        self.execute(D::SQL.set_lane_floor, lane_nonce_binds(lane, floor)?).await.map(drop)
    }

    async fn sign_slot(
        &self,
        id: SettlementId,
        version: i64,
        lane: &LaneId,
        sign: SignWith<'_>,
    ) -> Result<Option<SignedSlot>, StoreError> {
        self.sign_in_new_slot(id, version, lane, sign, |status| status.on(Event::Signed).is_some()).await
    }

    async fn sign_settled_again(
        &self,
        id: SettlementId,
        version: i64,
        lane: &LaneId,
        sign: SignWith<'_>,
    ) -> Result<Option<SignedSlot>, StoreError> {
        self.sign_in_new_slot(id, version, lane, sign, |status| status == Status::Settled).await
    }

    async fn sign_filler(
        &self,
        lane: &LaneId,
        nonce: LaneNonce,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError> {
        let mut tx = self.begin().await?;
        tx.lock_lane(lane).await?;
        let Some(slot) = tx.insert_slot(lane, nonce, None).await? else { return Ok(None) };
        let signed = sign(nonce).map_err(StoreError::Sign)?;
        let attempt = tx.insert_attempt(slot, 0, nonce, signed).await?;
        tx.commit().await?;
        Ok(Some(attempt))
    }

    async fn add_attempt(
        &self,
        slot: SlotId,
        attempts_seen: u32,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.rows(D::SQL.lock_slot, binds![slot.0]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (lane_nonce, payment) = rows::locked_slot(row)?;
        let Some(attempt) = tx.append_attempt(slot, attempts_seen, lane_nonce, sign).await? else {
            return Ok(None);
        };
        if let (Some(id), AttemptKind::Payment) = (payment, attempt.signed.kind) {
            tx.rows(D::SQL.newest_hash, binds![id.to_string(), hex(attempt.signed.hash)]).await?;
        }
        tx.commit().await?;
        Ok(Some(attempt))
    }

    async fn close_slot(&self, slot: SlotId, outcome: SlotOutcome) -> Result<(), StoreError> {
        self.execute(D::SQL.close_slot, binds![slot.0, rows::outcome_name(outcome)]).await.map(drop)
    }

    async fn conclude(
        &self,
        slot: SlotId,
        id: SettlementId,
        version: i64,
        event: Event,
        evidence: &Evidence,
    ) -> Result<Option<Payment>, StoreError> {
        let mut tx = self.begin().await?;
        let Some(payment) = tx.transition(id, version, event, evidence).await? else { return Ok(None) };
        tx.execute(D::SQL.close_slot, binds![slot.0, rows::outcome_name(SlotOutcome::Ours)]).await?;
        tx.commit().await?;
        Ok(Some(payment))
    }

    async fn reopen_slot(&self, lane: &LaneId, nonce: LaneNonce) -> Result<bool, StoreError> {
        Ok(self.execute(D::SQL.reopen_slot, lane_nonce_binds(lane, nonce)?).await? == 1)
    }

    async fn fill_closed_slot(
        &self,
        lane: &LaneId,
        nonce: LaneNonce,
        attempts_seen: u32,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.rows(D::SQL.lock_given_up, lane_nonce_binds(lane, nonce)?).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let slot = SlotId(Table("slots").int(row, "id")?);
        let Some(attempt) = tx.append_attempt(slot, attempts_seen, nonce, sign).await? else {
            return Ok(None);
        };
        tx.commit().await?;
        Ok(Some(attempt))
    }

    async fn given_up(&self, lane: &LaneId, nonce: LaneNonce) -> Result<Vec<Attempt>, StoreError> {
        let rows = self.read(D::SQL.given_up.into_sql_str(), lane_nonce_binds(lane, nonce)?).await?;
        rows.iter().map(rows::attempt).collect()
    }

    async fn newest_closed(&self, network: Network) -> Result<Vec<ClosedSlot>, StoreError> {
        let rows = self.read(D::SQL.newest_closed.into_sql_str(), binds![rows::chain_id(network)?]).await?;
        rows.iter().map(|row| rows::closed_slot(row, network)).collect()
    }

    async fn closed_lately(
        &self,
        lane: &LaneId,
        within: Duration,
        slots_max: u32,
    ) -> Result<Vec<Payment>, StoreError> {
        let binds = binds![
            rows::chain_id(lane.network)?,
            hex(lane.address),
            rows::lease_ms(within),
            i64::from(slots_max)
        ];
        let rows = self.read(D::SQL.closed_lately.into_sql_str(), binds).await?;
        rows.iter().map(rows::payment).collect()
    }

    async fn open_work(&self, network: Network) -> Result<OpenWork, StoreError> {
        let chain_id = rows::chain_id(network)?;
        // One snapshot for all three, so that no slot closes between the reading of it and of its attempts.
        let mut tx = self.snapshot().await?;
        let slot_rows = tx.rows(D::SQL.open_slots, binds![chain_id]).await?;
        let attempt_rows = tx.rows(D::SQL.open_attempts, binds![chain_id]).await?;
        let payment_rows = tx.rows(D::SQL.open_payments, binds![chain_id]).await?;
        tx.commit().await?;

        let mut attempts: HashMap<SlotId, (Vec<Attempt>, Vec<Duration>)> = HashMap::new();
        for row in &attempt_rows {
            let (attempt, ago) = rows::aged_attempt(row)?;
            let (attempts, signed_ago) = attempts.entry(attempt.slot).or_default();
            attempts.push(attempt);
            signed_ago.push(ago);
        }
        let mut payments = Vec::with_capacity(payment_rows.len());
        for row in &payment_rows {
            payments.push(rows::payment(row)?);
        }
        let mut by_id: HashMap<_, _> = payments.iter().map(|payment| (payment.id, payment.clone())).collect();
        let mut slots = Vec::with_capacity(slot_rows.len());
        for row in &slot_rows {
            let slot = rows::slot(row, network)?;
            let payment = match slot.payment {
                Some(id) => Some(
                    by_id.remove(&id).ok_or(StoreError::Corrupt { table: "slots", column: "payment_id" })?,
                ),
                None => None,
            };
            let (attempts, signed_ago) = attempts
                .remove(&slot.id)
                .ok_or(StoreError::Corrupt { table: "attempts", column: "slot_id" })?;
            slots.push(OpenSlot {
                id: slot.id,
                lane: slot.lane,
                lane_nonce: slot.lane_nonce,
                payment,
                attempts,
                signed_ago,
            });
        }
        let orphans = payments.into_iter().filter(|payment| by_id.contains_key(&payment.id)).collect();
        Ok(OpenWork { slots, orphans })
    }

    async fn attempts(&self, id: SettlementId) -> Result<Vec<Attempt>, StoreError> {
        let rows = self.read(D::SQL.payment_attempts.into_sql_str(), binds![id.to_string()]).await?;
        rows.iter().map(rows::attempt).collect()
    }

    async fn stuck(&self, age: Duration, limit: u32) -> Result<Vec<Stuck>, StoreError> {
        let binds = binds![rows::lease_ms(age), i64::from(limit)];
        let rows = self.read(D::SQL.stuck.into_sql_str(), binds).await?;
        rows.iter().map(rows::stuck).collect()
    }

    async fn take_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        answers_seen: i64,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let binds = binds![id.to_string(), holder.0.to_string(), rows::lease_ms(ttl), answers_seen];
        Ok(self.execute(D::SQL.take_answer, binds).await? == 1)
    }

    async fn begin_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        says: LastAnswer,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        Ok(self.execute(D::SQL.begin_answer, begin_answer_binds(id, holder, says, ttl)).await? == 1)
    }

    async fn begin_keyed_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        says: LastAnswer,
        ttl: Duration,
        keys: &[KeyUse],
        answer: &str,
    ) -> Result<KeyedAnswer, StoreError> {
        let mut tx = self.begin().await?;
        if tx.execute(D::SQL.begin_answer, begin_answer_binds(id, holder, says, ttl)).await? != 1 {
            return Ok(KeyedAnswer::NotHeld);
        }
        for key in keys {
            if tx.execute(D::SQL.bind_and_answer_key, key_answer_binds(key, answer)).await? != 1 {
                return Ok(KeyedAnswer::KeyTaken);
            }
        }
        tx.commit().await?;
        Ok(KeyedAnswer::Begun)
    }

    async fn release_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        delivered: bool,
    ) -> Result<bool, StoreError> {
        let statement = if delivered { D::SQL.end_answer } else { D::SQL.take_back_answer };
        Ok(self.execute(statement, binds![id.to_string(), holder.0.to_string()]).await? == 1)
    }

    async fn lapse_answer(&self, id: SettlementId) -> Result<(), StoreError> {
        self.execute(D::SQL.lapse_answer, binds![id.to_string()]).await.map(drop)
    }

    async fn bind_idempotency_key(&self, key: &KeyUse) -> Result<KeyBinding, StoreError> {
        if self.execute(D::SQL.bind_key, key_use_binds(key)).await? == 1 {
            return Ok(KeyBinding::First);
        }
        Ok(self.idempotency_key(key).await?.ok_or(sqlx::Error::RowNotFound)?)
    }

    async fn idempotency_key(&self, key: &KeyUse) -> Result<Option<KeyBinding>, StoreError> {
        let rows = self.read(D::SQL.read_key.into_sql_str(), key_name_binds(key)).await?;
        rows.first().map(|row| rows::key_binding(row, key)).transpose()
    }

    async fn store_idempotent_answer(&self, key: &KeyUse, answer: &str) -> Result<(), StoreError> {
        self.execute(D::SQL.answer_key, key_answer_binds(key, answer)).await.map(drop)
    }

    async fn forget_idempotency_keys(&self, age: Duration) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        loop {
            let batch = self
                .execute(D::SQL.forget_keys, binds![rows::lease_ms(age), i64::from(FORGET_BATCH)])
                .await?;
            forgotten += batch;
            if batch < u64::from(FORGET_BATCH) {
                return Ok(forgotten);
            }
        }
    }

    async fn first_identity(&self, origin: &Origin) -> Result<Option<Identity>, StoreError> {
        let rows = self.read(D::SQL.first_identity.into_sql_str(), binds![origin.to_string()]).await?;
        rows.first().map(rows::identity).transpose()
    }

    async fn remember_identity(
        &self,
        origin: &Origin,
        identity: &Identity,
        origins_max: u32,
    ) -> Result<Option<Identity>, StoreError> {
        let binds = binds![
            origin.to_string(),
            rows::registry(&identity.registry),
            identity.agent_id.to_string(),
            i64::from(origins_max),
        ];
        if self.execute(D::SQL.remember_identity, binds).await? == 1 {
            return Ok(Some(*identity));
        }
        self.first_identity(origin).await
    }

    async fn take_keeper(
        &self,
        network: Network,
        holder: HolderId,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let binds = binds![rows::chain_id(network)?, holder.0.to_string(), rows::lease_ms(ttl)];
        let rows = self.write(D::SQL.take_keeper.into_sql_str(), binds).await?;
        Ok(!rows.is_empty())
    }
}
