//! What goes into the placeholders of statements.

use quittance_protocol::{settlement::ReplayKey, units::LaneNonce};
use std::time::Duration;

use crate::{
    StoreError,
    driver::{Bind, Dialect, binds},
    model::{HolderId, KeyUse, LaneId, LastAnswer, Reservation, SettlementId},
    rows::{self, hex},
    sql::Statements,
};

pub(crate) fn key_binds(key: &ReplayKey) -> Result<Vec<Bind>, StoreError> {
    Ok(binds![
        rows::chain_id(key.network)?,
        hex(key.verifying_contract),
        hex(key.authorizer),
        hex(key.auth_nonce.0),
    ])
}

pub(crate) fn lane_nonce_binds(lane: &LaneId, nonce: LaneNonce) -> Result<Vec<Bind>, StoreError> {
    Ok(binds![rows::chain_id(lane.network)?, hex(lane.address), rows::int(nonce.0, "lane nonce")?])
}

pub(crate) fn reservation_binds<D: Dialect>(reservation: &Reservation<'_>) -> Result<Vec<Bind>, StoreError> {
    let Reservation { id, terms, expires_at, payee, judged_in_block, key: _, funds } = *reservation;
    let mut insert = binds![id.to_string()];
    insert.extend(key_binds(&terms.key)?);
    insert.extend(binds![
        hex(terms.fingerprint.0),
        hex(terms.pay_to),
        terms.amount.to_string(),
        terms.valid_after.to_string(),
        terms.valid_before.to_string(),
        rows::deadline(expires_at),
        Bind::Bytes(rows::account(terms.key.network, terms.pay_to)),
        // EIP-3009: the contract that keeps the nonce is the asset.
        Bind::Bytes(rows::account(terms.key.network, terms.key.verifying_contract)),
        terms.signature.map(|signature| hex(signature.0)),
        payee.map(str::to_owned),
        judged_in_block.map(|number| rows::int(number, "block number")).transpose()?,
    ]);
    if let (Some(funds), Some(_)) = (funds, D::SQL.reserve_covered) {
        let over: Vec<_> = funds.over.iter().map(ToString::to_string).collect();
        insert.extend(binds![
            funds.balance.to_string(),
            rows::int(funds.block_number, "block number")?,
            over.join(" "),
        ]);
    }
    Ok(insert)
}

/// The one statement that reserves if the funds cover it; with the values of [`reservation_binds`].
pub(crate) fn covered_in_one(sql: Statements, reservation: &Reservation<'_>) -> Option<&'static str> {
    match reservation.funds {
        Some(_) => sql.reserve_covered,
        None => Some(sql.reserve),
    }
}

/// A payer and a token, by the replay key of any payment, and the block after which payments count.
pub(crate) fn promises_binds(key: &ReplayKey, block_number: u64) -> Result<Vec<Bind>, StoreError> {
    Ok(binds![
        rows::chain_id(key.network)?,
        hex(key.verifying_contract),
        hex(key.authorizer),
        rows::int(block_number, "block number")?,
    ])
}

pub(crate) fn begin_answer_binds(
    id: SettlementId,
    holder: HolderId,
    says: LastAnswer,
    ttl: Duration,
) -> Vec<Bind> {
    binds![id.to_string(), holder.0.to_string(), rows::answer_name(says), rows::lease_ms(ttl)]
}

pub(crate) fn key_name_binds(key: &KeyUse) -> Vec<Bind> {
    binds![key.key.scope.as_str(), key.key.key.as_str()]
}

pub(crate) fn key_use_binds(key: &KeyUse) -> Vec<Bind> {
    let mut binds = key_name_binds(key);
    binds.extend(binds![
        hex(key.payment.0),
        key.resource.map(|resource| hex(resource.0)),
        key.signature.map(|signature| hex(signature.0)),
    ]);
    binds
}

pub(crate) fn key_answer_binds(key: &KeyUse, answer: &str) -> Vec<Bind> {
    let mut binds = key_use_binds(key);
    binds.extend(binds![answer]);
    binds
}
