//! Between rows and domain types. What does not read back exactly as it was written is corrupt, never guessed.

use alloy_primitives::{Address, B256, Bytes, U256};
use quittance_protocol::{
    interop::InteropAddress,
    payee::{Identity, RegistryId},
    settlement::{Fingerprint, NewPayment, ReplayKey, ResourceDigest, SignatureDigest},
    units::{AuthNonce, LaneNonce, Network, TokenAmount, UnixSeconds, parse_decimal_u256},
};
use std::fmt::LowerHex;
use std::time::Duration;
use uuid::Uuid;

use crate::{
    StoreError,
    driver::Columns,
    model::{
        Attempt, AttemptKind, ClosedSlot, KeyBinding, KeyUse, LaneId, LastAnswer, NewAttempt, Payment,
        SettlementId, SlotId, SlotOutcome, Stuck,
    },
};

const PAYMENTS: Table = Table("payments");
const SLOTS: Table = Table("slots");
const ATTEMPTS: Table = Table("attempts");

// ---- to columns ----

/// Addresses and hashes: lower-case hex with prefix.
pub(crate) fn hex(value: impl LowerHex) -> String {
    format!("{value:#x}")
}

/// A quantity that identifies something: it fits or is refused.
pub(crate) fn int(value: u64, what: &'static str) -> Result<i64, StoreError> {
    i64::try_from(value).map_err(|_| StoreError::OutOfRange(what))
}

/// The canonical bytes of an account. There is no chain 0, so there always are some.
pub(crate) fn account(network: Network, address: Address) -> Vec<u8> {
    InteropAddress::evm(U256::from(network.chain_id()), address)
        .map(|account| account.encode())
        .unwrap_or_default()
}

/// A registry as CAIP-10 account, its address in lower case like every other.
pub(crate) fn registry(id: &RegistryId) -> String {
    id.to_string().to_ascii_lowercase()
}

/// Chain ids stop at 2^53 - 1.
pub(crate) fn chain_id(network: Network) -> Result<i64, StoreError> {
    int(network.chain_id(), "chain id")
}

/// A deadline beyond the column is no deadline: it is clamped to the largest second, which never comes.
pub(crate) fn deadline(at: UnixSeconds) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// Seconds to look back, at most to the beginning of time.
pub(crate) fn lookback(lately: Option<Duration>) -> i64 {
    lately.and_then(|lately| i64::try_from(lately.as_secs()).ok()).unwrap_or(i64::MAX)
}

/// Milliseconds of a lease or an age, at most a year so that adding them to the clock cannot overflow.
pub(crate) fn lease_ms(ttl: Duration) -> i64 {
    const YEAR_MS: i64 = 366 * 24 * 60 * 60 * 1000;
    i64::try_from(ttl.as_millis()).map_or(YEAR_MS, |ms| ms.min(YEAR_MS))
}

pub(crate) fn kind_name(kind: AttemptKind) -> &'static str {
    match kind {
        AttemptKind::Payment => "payment",
        AttemptKind::Filler => "filler",
    }
}

pub(crate) fn outcome_name(outcome: SlotOutcome) -> &'static str {
    match outcome {
        SlotOutcome::Ours => "ours",
        SlotOutcome::Foreign => "foreign",
    }
}

pub(crate) fn answer_name(answer: LastAnswer) -> &'static str {
    match answer {
        LastAnswer::Pending => "pending",
        LastAnswer::Success => "success",
    }
}

// ---- from columns ----

/// Reads columns of one table and names it when one cannot be read.
#[derive(Clone, Copy)]
pub(crate) struct Table(pub(crate) &'static str);

impl Table {
    fn corrupt(self, column: &'static str) -> StoreError {
        StoreError::Corrupt { table: self.0, column }
    }

    pub(crate) fn int(self, row: &impl Columns, column: &'static str) -> Result<i64, StoreError> {
        row.int(column).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn maybe_int(
        self,
        row: &impl Columns,
        column: &'static str,
    ) -> Result<Option<i64>, StoreError> {
        row.maybe_int(column).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn unsigned(self, row: &impl Columns, column: &'static str) -> Result<u64, StoreError> {
        u64::try_from(self.int(row, column)?).map_err(|_| self.corrupt(column))
    }

    pub(crate) fn maybe_unsigned(
        self,
        row: &impl Columns,
        column: &'static str,
    ) -> Result<Option<u64>, StoreError> {
        self.maybe_int(row, column)?
            .map(|value| u64::try_from(value).map_err(|_| self.corrupt(column)))
            .transpose()
    }

    pub(crate) fn maybe_text(
        self,
        row: &impl Columns,
        column: &'static str,
    ) -> Result<Option<String>, StoreError> {
        row.maybe_text(column).map_err(|_| self.corrupt(column))
    }

    /// Text that `parse` understands.
    pub(crate) fn parsed<T>(
        self,
        row: &impl Columns,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, StoreError> {
        let text = row.text(column).map_err(|_| self.corrupt(column))?;
        parse(&text).ok_or_else(|| self.corrupt(column))
    }

    /// Text that `parse` understands, or NULL.
    pub(crate) fn maybe_parsed<T>(
        self,
        row: &impl Columns,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        self.maybe_text(row, column)?.map(|text| parse(&text).ok_or_else(|| self.corrupt(column))).transpose()
    }

    /// Milliseconds, as the model's seconds.
    fn seconds(self, row: &impl Columns, column: &'static str) -> Result<i64, StoreError> {
        Ok(self.int(row, column)?.div_euclid(1000))
    }
}

/// Hex as [`hex`] writes it and no other spelling: a row compares equal in SQL or not at all.
fn parse_hex<T: LowerHex + std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|value| hex(value) == text)
}

fn parse_address(text: &str) -> Option<Address> {
    parse_hex(text)
}

fn parse_hash(text: &str) -> Option<B256> {
    parse_hex(text)
}

fn parse_u256(text: &str) -> Option<U256> {
    parse_decimal_u256(text)
}

fn parse_fee(text: &str) -> Option<u128> {
    text.parse::<u128>().ok().filter(|fee| fee.to_string() == text)
}

fn parse_id(text: &str) -> Option<SettlementId> {
    Uuid::try_parse(text).ok().filter(|id| id.to_string() == text).map(SettlementId)
}

fn parse_answer(text: &str) -> Option<LastAnswer> {
    [LastAnswer::Pending, LastAnswer::Success].into_iter().find(|answer| answer_name(*answer) == text)
}

/// What `last_answer` was before the one in flight; only SQL looks inside.
fn parse_answer_before(text: &str) -> Option<()> {
    matches!(text, "none" | "pending").then_some(())
}

fn parse_kind(text: &str) -> Option<AttemptKind> {
    [AttemptKind::Payment, AttemptKind::Filler].into_iter().find(|kind| kind_name(*kind) == text)
}

fn network(table: Table, row: &impl Columns) -> Result<Network, StoreError> {
    Network::from_chain_id(table.unsigned(row, "network")?).ok_or_else(|| table.corrupt("network"))
}

/// A row of `payments`.
pub(crate) fn payment(row: &impl Columns) -> Result<Payment, StoreError> {
    let t = PAYMENTS;
    let key = ReplayKey {
        network: network(t, row)?,
        verifying_contract: t.parsed(row, "verifying_contract", parse_address)?,
        authorizer: t.parsed(row, "authorizer", parse_address)?,
        auth_nonce: AuthNonce(t.parsed(row, "auth_nonce", parse_hash)?),
    };
    let terms = NewPayment {
        key,
        fingerprint: Fingerprint(t.parsed(row, "fingerprint", parse_hash)?),
        pay_to: t.parsed(row, "pay_to", parse_address)?,
        amount: TokenAmount(t.parsed(row, "amount", parse_u256)?),
        valid_after: t.parsed(row, "valid_after", parse_u256)?,
        valid_before: t.parsed(row, "valid_before", parse_u256)?,
        signature: t.maybe_parsed(row, "signature_digest", parse_hash)?.map(SignatureDigest),
    };
    Ok(Payment {
        id: t.parsed(row, "id", parse_id)?,
        version: t.int(row, "version")?,
        terms,
        status: t.parsed(row, "status", |text| text.parse().ok())?,
        reason: t.maybe_parsed(row, "reason", |text| text.parse().ok())?,
        message: t.maybe_text(row, "message")?,
        tx_hash: t.maybe_parsed(row, "tx_hash", parse_hash)?,
        block_number: t.maybe_unsigned(row, "block_number")?,
        judged_in_block: t.maybe_unsigned(row, "judged_in_block")?,
        last_answer: t.maybe_parsed(row, "last_answer", parse_answer)?,
        answers: t.int(row, "answers")?,
        answer_in_flight: t.maybe_parsed(row, "answer_before", parse_answer_before)?.is_some(),
        payee: t.maybe_text(row, "payee")?,
        created_at: t.seconds(row, "created_at_ms")?,
        updated_at: t.seconds(row, "updated_at_ms")?,
    })
}

/// A promise, as far as its payer's balance has to cover it.
pub(crate) fn promised_amount(row: &impl Columns) -> Result<(SettlementId, TokenAmount), StoreError> {
    let t = PAYMENTS;
    Ok((t.parsed(row, "id", parse_id)?, TokenAmount(t.parsed(row, "amount", parse_u256)?)))
}

/// A row of `slots` without its attempts and payment.
pub(crate) struct SlotRow {
    pub(crate) id: SlotId,
    pub(crate) lane: LaneId,
    pub(crate) lane_nonce: LaneNonce,
    pub(crate) payment: Option<SettlementId>,
}

/// A row of `slots`; the query knows the network.
pub(crate) fn slot(row: &impl Columns, network: Network) -> Result<SlotRow, StoreError> {
    let t = SLOTS;
    Ok(SlotRow {
        id: SlotId(t.int(row, "id")?),
        lane: LaneId { network, address: t.parsed(row, "lane", parse_address)? },
        lane_nonce: LaneNonce(t.unsigned(row, "lane_nonce")?),
        payment: t.maybe_parsed(row, "payment_id", parse_id)?,
    })
}

/// A row of `slots` with its age since it was closed. A clock that was set back makes it just closed.
pub(crate) fn closed_slot(row: &impl Columns, network: Network) -> Result<ClosedSlot, StoreError> {
    let t = SLOTS;
    Ok(ClosedSlot {
        lane: LaneId { network, address: t.parsed(row, "lane", parse_address)? },
        lane_nonce: LaneNonce(t.unsigned(row, "lane_nonce")?),
        closed_ago: Duration::from_millis(u64::try_from(t.int(row, "closed_ago_ms")?).unwrap_or_default()),
    })
}

/// A row of `payments` with the age of its first attempt.
pub(crate) fn stuck(row: &impl Columns) -> Result<Stuck, StoreError> {
    Ok(Stuck { payment: payment(row)?, signed_ago: signed_ago(PAYMENTS, row)? })
}

/// A row of `attempts` with its age.
pub(crate) fn aged_attempt(row: &impl Columns) -> Result<(Attempt, Duration), StoreError> {
    Ok((attempt(row)?, signed_ago(ATTEMPTS, row)?))
}

/// A clock that was set back makes it just signed.
fn signed_ago(table: Table, row: &impl Columns) -> Result<Duration, StoreError> {
    Ok(Duration::from_millis(u64::try_from(table.int(row, "signed_ago_ms")?).unwrap_or_default()))
}

/// A row of `attempts` joined to its slot's `lane_nonce`.
pub(crate) fn attempt(row: &impl Columns) -> Result<Attempt, StoreError> {
    let t = ATTEMPTS;
    Ok(Attempt {
        slot: SlotId(t.int(row, "slot_id")?),
        sequence: u32::try_from(t.int(row, "sequence")?).map_err(|_| t.corrupt("sequence"))?,
        lane_nonce: LaneNonce(SLOTS.unsigned(row, "lane_nonce")?),
        signed: NewAttempt {
            kind: t.parsed(row, "kind", parse_kind)?,
            raw: row.bytes("raw").map(Bytes::from).map_err(|_| t.corrupt("raw"))?,
            hash: t.parsed(row, "hash", parse_hash)?,
            max_fee_per_gas: t.parsed(row, "max_fee_per_gas", parse_fee)?,
            max_priority_fee_per_gas: t.parsed(row, "max_priority_fee_per_gas", parse_fee)?,
            gas_limit: t.unsigned(row, "gas_limit")?,
        },
        created_at: t.seconds(row, "created_at_ms")?,
    })
}

/// When the database stored an attempt.
pub(crate) fn attempt_created_at(row: &impl Columns) -> Result<i64, StoreError> {
    ATTEMPTS.seconds(row, "created_at_ms")
}

/// What a locked slot says: its nonce and its payment.
pub(crate) fn locked_slot(row: &impl Columns) -> Result<(LaneNonce, Option<SettlementId>), StoreError> {
    Ok((LaneNonce(SLOTS.unsigned(row, "lane_nonce")?), SLOTS.maybe_parsed(row, "payment_id", parse_id)?))
}

/// Whether a row of `idempotency_keys` is bound to what a request means by the key.
pub(crate) fn key_binding(row: &impl Columns, wanted: &KeyUse) -> Result<KeyBinding, StoreError> {
    let t = Table("idempotency_keys");
    let payment = Fingerprint(t.parsed(row, "fingerprint", parse_hash)?);
    let resource = t.maybe_parsed(row, "resource", parse_hash)?.map(ResourceDigest);
    let signature = t.maybe_parsed(row, "signature_digest", parse_hash)?.map(SignatureDigest);
    let answer = t.maybe_text(row, "answer")?;
    // Bound without a resource or a signature, it stands for the payment alone.
    let same = payment == wanted.payment
        && (resource.is_none() || resource == wanted.resource)
        && (signature.is_none() || signature == wanted.signature);
    Ok(if same { KeyBinding::Same(answer) } else { KeyBinding::Other })
}

/// The identity in a row of `payee_origins`.
pub(crate) fn identity(row: &impl Columns) -> Result<Identity, StoreError> {
    let t = Table("payee_origins");
    Ok(Identity {
        registry: t.parsed(row, "registry", parse_registry)?,
        agent_id: t.parsed(row, "agent_id", parse_u256)?,
    })
}

fn parse_registry(text: &str) -> Option<RegistryId> {
    text.parse().ok().filter(|id| registry(id) == text)
}
