//! One transaction, and the steps that the store's methods put together in it.

use quittance_protocol::{
    settlement::{Event, Evidence},
    units::LaneNonce,
};
use sqlx::{SqlSafeStr, SqlStr, Transaction};
use std::{future::Future, time::Duration};

use crate::{
    SignWith, StoreError,
    bindings::{key_name_binds, key_use_binds, promises_binds},
    connections::Taken,
    driver::{Bind, Dialect, assembled, binds},
    error::DatabaseFault,
    model::{
        Attempt, KeyBinding, KeyUse, LaneId, NewAttempt, PROMISES_MAX, Payment, Reservation, SettlementId,
        SlotId,
    },
    rows::{self, Table, hex},
};

/// How long a statement may take by our own clock; longer than the database itself allows it.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(7);

/// The driver itself waits for ever for a server that has vanished from the network.
pub(crate) async fn bounded<T>(
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(StoreError::Unavailable(DatabaseFault::silence())),
    }
}

/// A transaction. Dropped without `commit`, it leaves nothing behind.
pub(crate) struct Tx<D: Dialect>(pub(crate) Taken<Transaction<'static, D>>);

impl<D: Dialect> Tx<D> {
    pub(crate) async fn execute(&mut self, sql: &'static str, binds: Vec<Bind>) -> Result<u64, StoreError> {
        bounded(D::execute(&mut self.0, sql.into_sql_str(), binds)).await
    }

    pub(crate) async fn rows(
        &mut self,
        sql: &'static str,
        binds: Vec<Bind>,
    ) -> Result<Vec<D::Row>, StoreError> {
        bounded(D::rows(&mut self.0, sql.into_sql_str(), binds)).await
    }

    /// `None`: somebody holds the replay key.
    pub(crate) async fn reserve(
        &mut self,
        sql: &'static str,
        insert: Vec<Bind>,
    ) -> Result<Option<Payment>, StoreError> {
        self.rows(sql, insert).await?.first().map(rows::payment).transpose()
    }

    /// Whether the funds cover a reservation beside everything else its payer has promised.
    pub(crate) async fn covers(&mut self, reservation: &Reservation<'_>) -> Result<bool, StoreError> {
        let Some(funds) = reservation.funds else { return Ok(true) };
        let binds = promises_binds(&reservation.terms.key, funds.block_number)?;
        let promised = self.rows(D::SQL.promised_amounts, binds).await?;
        if promised.len() >= PROMISES_MAX {
            return Ok(false);
        }
        let mut needed = Some(reservation.terms.amount.0);
        for row in &promised {
            let (id, amount) = rows::promised_amount(row)?;
            if !funds.over.contains(&id) {
                needed = needed.and_then(|sum| sum.checked_add(amount.0));
            }
        }
        Ok(needed.is_some_and(|needed| needed <= funds.balance))
    }

    /// Binds an idempotency key, or says what it is bound to.
    pub(crate) async fn bind(&mut self, key: &KeyUse) -> Result<KeyBinding, StoreError> {
        if self.execute(D::SQL.bind_key, key_use_binds(key)).await? == 1 {
            return Ok(KeyBinding::First);
        }
        // A statement of its own, because it must see what whoever was faster committed.
        let rows = self.rows(D::SQL.read_key, key_name_binds(key)).await?;
        rows::key_binding(rows.first().ok_or(sqlx::Error::RowNotFound)?, key)
    }

    pub(crate) async fn transition(
        &mut self,
        id: SettlementId,
        version: i64,
        event: Event,
        evidence: &Evidence,
    ) -> Result<Option<Payment>, StoreError> {
        let (sql, binds) = transition::<D>(id, version, event, evidence)?;
        let rows = bounded(D::rows(&mut self.0, sql, binds)).await?;
        rows.first().map(rows::payment).transpose()
    }

    /// Keeps everybody else from giving away a nonce of this lane until the transaction ends.
    pub(crate) async fn lock_lane(&mut self, lane: &LaneId) -> Result<LaneNonce, StoreError> {
        let rows =
            self.rows(D::SQL.lock_lane, binds![rows::chain_id(lane.network)?, hex(lane.address)]).await?;
        let row = rows.first().ok_or(StoreError::UnknownLane)?;
        Ok(LaneNonce(Table("lanes").unsigned(row, "nonce_floor")?))
    }

    /// `None`: the nonce is given away already.
    pub(crate) async fn insert_slot(
        &mut self,
        lane: &LaneId,
        nonce: LaneNonce,
        payment: Option<SettlementId>,
    ) -> Result<Option<SlotId>, StoreError> {
        let binds = binds![
            rows::chain_id(lane.network)?,
            hex(lane.address),
            rows::int(nonce.0, "lane nonce")?,
            payment.map(|id| id.to_string()),
        ];
        let rows = self.rows(D::SQL.insert_slot, binds).await?;
        rows.first().map(|row| Table("slots").int(row, "id").map(SlotId)).transpose()
    }

    pub(crate) async fn insert_attempt(
        &mut self,
        slot: SlotId,
        sequence: u32,
        lane_nonce: LaneNonce,
        signed: NewAttempt,
    ) -> Result<Attempt, StoreError> {
        let binds = binds![
            slot.0,
            i64::from(sequence),
            rows::kind_name(signed.kind),
            Bind::Bytes(signed.raw.to_vec()),
            hex(signed.hash),
            signed.max_fee_per_gas.to_string(),
            signed.max_priority_fee_per_gas.to_string(),
            rows::int(signed.gas_limit, "gas limit")?,
        ];
        let rows = self.rows(D::SQL.insert_attempt, binds).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let created_at = rows::attempt_created_at(row)?;
        Ok(Attempt { slot, sequence, lane_nonce, signed, created_at })
    }

    /// Signs one more attempt in a locked slot that still has exactly `attempts_seen`.
    pub(crate) async fn append_attempt(
        &mut self,
        slot: SlotId,
        attempts_seen: u32,
        lane_nonce: LaneNonce,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError> {
        // A statement of its own, because it must see what the last holder of the lock committed.
        let rows = self.rows(D::SQL.count_attempts, binds![slot.0]).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        if Table("attempts").int(row, "attempts")? != i64::from(attempts_seen) {
            return Ok(None);
        }
        let signed = sign(lane_nonce).map_err(StoreError::Sign)?;
        self.insert_attempt(slot, attempts_seen, lane_nonce, signed).await.map(Some)
    }

    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.0.commit().await
    }
}

pub(crate) fn transition<D: Dialect>(
    id: SettlementId,
    version: i64,
    event: Event,
    evidence: &Evidence,
) -> Result<(SqlStr, Vec<Bind>), StoreError> {
    let block_number = evidence.block_number.map(|number| rows::int(number, "block number")).transpose()?;
    let binds = binds![
        id.to_string(),
        version,
        evidence.reason.map(|code| code.as_str().to_owned()),
        evidence.message.clone(),
        evidence.tx_hash.map(hex),
        block_number,
    ];
    Ok((assembled(D::SQL.transition(event)), binds))
}
