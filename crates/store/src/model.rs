//! What the rows mean, in domain types.

use alloy_primitives::{Address, B256, Bytes, U256};
use quittance_protocol::{
    code::Code,
    settlement::{Fingerprint, NewPayment, ResourceDigest, SignatureDigest, Status},
    units::{AuthNonce, LaneNonce, Network, UnixSeconds},
};
use std::{fmt, time::Duration};
use uuid::Uuid;

/// Identity of one payment's row; UUIDv7, shown as `extra.settlementId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SettlementId(pub Uuid);

impl fmt::Display for SettlementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of one slot's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub i64);

/// One request, or one process, that holds a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HolderId(pub Uuid);

/// A signer on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    /// Chain.
    pub network: Network,
    /// The signer's address.
    pub address: Address,
}

/// One payment as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Row identity.
    pub id: SettlementId,
    /// Grows by one at every transition.
    pub version: i64,
    /// What was reserved.
    pub terms: NewPayment,
    /// Where it stands.
    pub status: Status,
    /// Reason of a refusal or failure.
    pub reason: Option<Code>,
    /// A sentence on the reason.
    pub message: Option<String>,
    /// The deciding transaction; while `signed`, the newest attempt that executes the payment (a cancellation does not).
    pub tx_hash: Option<B256>,
    /// Block of the deciding transaction.
    pub block_number: Option<u64>,
    /// The block whose facts it was reserved on; `None` where an earlier version wrote nothing down. `lookup` tells it for 30 s, by the
    /// database's clock: as long as nodes may be late. Development chains go back, and stand still then.
    pub judged_in_block: Option<u64>,
    /// What the last caller of `/settle` was told, if anything.
    pub last_answer: Option<LastAnswer>,
    /// `last_answer` is on its way to its caller, and is taken back if the caller is gone.
    pub answer_in_flight: bool,
    /// How many answers were said, one in flight included.
    pub answers: i64,
    /// The payee check's answer, as JSON, if there was a check.
    pub payee: Option<String>,
    /// Unix seconds, database time.
    pub created_at: i64,
    /// Unix seconds, database time.
    pub updated_at: i64,
}

impl Payment {
    /// The version every payment begins with.
    pub const FIRST_VERSION: i64 = 1;
}

/// What was last written to a caller of `/settle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastAnswer {
    /// `settlement_pending`: the next call may still get the success.
    Pending,
    /// `success: true`: handed out, once.
    Success,
}

/// What is to be reserved.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    /// The payment's id if this makes one: known before, so that what an unanswered reservation left can be found.
    pub id: SettlementId,
    /// The payment.
    pub terms: &'a NewPayment,
    /// The second from which its authorization can no longer execute.
    pub expires_at: UnixSeconds,
    /// The payee check's answer, as JSON, if there was a check.
    pub payee: Option<&'a str>,
    /// The block whose facts say that it is good.
    pub judged_in_block: Option<u64>,
    /// A key to be bound with it, or nothing is reserved.
    pub key: Option<&'a KeyUse>,
    /// What must cover it, and everything else its payer has promised in the same token. `None`: nothing must.
    pub funds: Option<Funds<'a>>,
}

/// What a payer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Funds<'a> {
    /// Its balance, in atomic units.
    pub balance: U256,
    /// The block it was read at: what was paid later is not yet taken from it.
    pub block_number: u64,
    /// Payments that it owes nothing, whatever their rows say or will say: the chain was asked.
    pub over: &'a [SettlementId],
}

/// Most promises of one payer in one token at a time. What comes beyond is not covered: each is counted for each that follows.
pub const PROMISES_MAX: usize = 4096;

impl<'a> Reservation<'a> {
    /// Of a payment alone.
    pub fn new(terms: &'a NewPayment, expires_at: UnixSeconds) -> Self {
        Self {
            id: SettlementId(Uuid::now_v7()),
            terms,
            expires_at,
            payee: None,
            judged_in_block: None,
            key: None,
            funds: None,
        }
    }
}

/// Outcome of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Nobody held the key; now this payment does.
    Fresh(Payment),
    /// The same payment (equal fingerprint) holds the key already.
    Same(Payment),
    /// Another payment holds the key.
    Other(Payment),
    /// Nobody held the replay key, and nobody does now: the idempotency key is bound to something else.
    KeyTaken,
    /// Nobody held the replay key, and nobody does now: the funds do not cover it beside what else was promised.
    Uncovered,
}

/// Filters of `GET /settlements`; all given ones must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Chain.
    pub network: Option<Network>,
    /// Token.
    pub asset: Option<Address>,
    /// Authorizer.
    pub payer: Option<Address>,
    /// Nonce of the authorization.
    pub auth_nonce: Option<AuthNonce>,
    /// Status.
    pub status: Option<Status>,
}

/// Why a transaction was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptKind {
    /// Executes the payment.
    Payment,
    /// A self-transfer of nothing: fills a hole or cancels an expired payment's slot.
    Filler,
}

/// A freshly signed transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct NewAttempt {
    /// Why.
    pub kind: AttemptKind,
    /// EIP-2718 bytes, ready for `eth_sendRawTransaction`. A bearer capability: never logged.
    pub raw: Bytes,
    /// Their hash.
    pub hash: B256,
    /// Wei per gas; the gas price of a legacy transaction.
    pub max_fee_per_gas: u128,
    /// Wei per gas.
    pub max_priority_fee_per_gas: u128,
    /// Gas limit.
    pub gas_limit: u64,
}

impl fmt::Debug for NewAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAttempt")
            .field("kind", &self.kind)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// A stored attempt. Append-only: nothing edits signed data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its slot.
    pub slot: SlotId,
    /// Position in the slot, from 0.
    pub sequence: u32,
    /// The nonce it is signed with.
    pub lane_nonce: LaneNonce,
    /// The signed transaction.
    pub signed: NewAttempt,
    /// Unix seconds, database time.
    pub created_at: i64,
}

/// A slot and its first attempt, with the payment as it now stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedSlot {
    /// The payment, `signed`.
    pub payment: Payment,
    /// The attempt to send.
    pub attempt: Attempt,
}

/// How a slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotOutcome {
    /// One of our attempts was mined at depth.
    Ours,
    /// A transaction we do not know consumed the nonce.
    Foreign,
}

/// An open slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSlot {
    /// Row identity.
    pub id: SlotId,
    /// Signer.
    pub lane: LaneId,
    /// Nonce.
    pub lane_nonce: LaneNonce,
    /// The payment it executes; `None` for a filler.
    pub payment: Option<Payment>,
    /// Oldest first; never empty.
    pub attempts: Vec<Attempt>,
    /// Since each of them was signed, in database time: replicas need not agree on theirs.
    pub signed_ago: Vec<Duration>,
}

/// The newest slot of a lane, when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSlot {
    /// Signer.
    pub lane: LaneId,
    /// Nonce.
    pub lane_nonce: LaneNonce,
    /// Since it was closed, in database time.
    pub closed_ago: Duration,
}

/// Everything not final on a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenWork {
    /// By lane, then nonce.
    pub slots: Vec<OpenSlot>,
    /// `signed` or `mined` payments without an open slot: their slot was taken by a foreign transaction.
    pub orphans: Vec<Payment>,
}

/// A payment that was signed and is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The payment, `signed` or `mined`.
    pub payment: Payment,
    /// Since its first attempt was signed, in database time.
    pub signed_ago: Duration,
}

/// An idempotency key within the scope of one API key (empty when there are none).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Digest of the API key, so that tenants cannot meet in one key space.
    pub scope: String,
    /// 1 to 255 printable ASCII characters.
    pub key: String,
}

/// An idempotency key, and what a request means by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key.
    pub key: IdempotencyKey,
    /// The payment.
    pub payment: Fingerprint,
    /// What is paid for, where the key stands for that as well.
    pub resource: Option<ResourceDigest>,
    /// By which signature.
    pub signature: Option<SignatureDigest>,
}

/// What an idempotency key is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyBinding {
    /// Nothing, until now.
    First,
    /// The same; the final answer if there is one yet.
    Same(Option<String>),
    /// Another payment, or the same one for something else.
    Other,
}

/// Whether an answer that is kept under idempotency keys may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedAnswer {
    /// It is recorded, and kept under every key.
    Begun,
    /// The holder no longer holds the lease.
    NotHeld,
    /// A key is bound to something else. Nothing was recorded.
    KeyTaken,
}
