//! The only crate that speaks SQL: PostgreSQL and SQLite behind one trait, one method per transition.
//!
//! Uniqueness constraints, not memory, guard the two nonces: one live payment per replay key, one slot per
//! (network, lane, lane nonce). Every status change goes through [`quittance_protocol::settlement::Status::on`]
//! and is a compare-and-set on `(id, version)`.

mod bindings;
mod connections;
mod driver;
mod error;
pub mod model;
mod pg;
mod rows;
mod schema;
mod sql;
mod sqlite;
mod store;
mod transaction;

pub use error::{DatabaseFault, MigrationFault, StoreError};
pub use pg::PgStore;
pub use sqlite::SqliteStore;
pub use store::SqlStore;

use model::*;
use quittance_protocol::{
    payee::{Identity, Origin},
    settlement::{Event, Evidence, ReplayKey},
    units::{LaneNonce, Network, UnixSeconds},
};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Opens the store that `store.url` names: `sqlite://PATH` or `postgres://USER@HOST/DATABASE`.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split(':').next() {
        Some("postgres" | "postgresql") => Ok(Arc::new(PgStore::connect(url).await?)),
        Some("sqlite") => Ok(Arc::new(SqliteStore::open(url).await?)),
        _ => Err(UNKNOWN_SCHEME),
    }
}

/// Opens it to look, beside a server and without changing anything, the schema included. A method that writes is refused
/// by the database.
pub async fn open_to_read(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split(':').next() {
        Some("postgres" | "postgresql") => Ok(Arc::new(PgStore::connect_to_read(url).await?)),
        Some("sqlite") => Ok(Arc::new(SqliteStore::open_to_read(url).await?)),
        _ => Err(UNKNOWN_SCHEME),
    }
}

const UNKNOWN_SCHEME: StoreError = StoreError::Url("the scheme is neither sqlite:// nor postgres://");

/// Signs the transaction for the lane nonce the store allots, inside the transaction that stores it.
pub type SignWith<'a> =
    &'a (dyn Fn(LaneNonce) -> Result<NewAttempt, Box<dyn std::error::Error + Send + Sync>> + Send + Sync);

/// Everything the facilitator writes down. One method per transition; no method does half of something.
#[async_trait::async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Answers when the database does.
    async fn ping(&self) -> Result<(), StoreError>;

    // ---- the pending set (rule 5) ----

    /// Puts a payment into the pending set, or says who is there. On the way it refuses a `reserved` row of the
    /// same key whose authorization can no longer execute (`expires_at` has come, in database time: processes need not
    /// agree on the time, and none with a wrong clock ends another's promise).
    ///
    /// With `funds`, only if they cover it beside everything else the payer has promised in this token; any number of processes
    /// may ask at once.
    ///
    /// The happy path is one statement (SQLite, with funds: one transaction). With an idempotency key it is one transaction:
    /// both are there, or neither.
    async fn reserve(&self, reservation: &Reservation<'_>) -> Result<Reserve, StoreError>;

    /// What counts against its payer's balance at a block, in the token of this key: payments that are promised and not paid, and
    /// those paid in a later block. Oldest first.
    async fn promises(&self, key: &ReplayKey, block_number: u64) -> Result<Vec<Payment>, StoreError>;

    /// The payment that holds this key, else the newest one that did.
    async fn lookup(&self, key: &ReplayKey) -> Result<Option<Payment>, StoreError>;

    /// One payment by its settlement id.
    async fn payment(&self, id: SettlementId) -> Result<Option<Payment>, StoreError>;

    /// Payments by any of the filters, newest first, at most `limit`.
    async fn find(&self, filter: &PaymentFilter, limit: u32) -> Result<Vec<Payment>, StoreError>;

    /// Applies an event by `Status::on` as a compare-and-set on `(id, version)`. `None`: the row had moved on, or the
    /// event does not apply; nothing changed. Evidence that is not given stays as it was; a reorganisation takes the
    /// block number away.
    ///
    /// [`Event::Signed`] never applies here: only [`Store::sign_slot`] may say that bytes are stored, because only it
    /// stores them.
    async fn transition(
        &self,
        id: SettlementId,
        version: i64,
        event: Event,
        evidence: &Evidence,
    ) -> Result<Option<Payment>, StoreError>;

    /// `reserved` rows of a network whose authorization can no longer execute, each with the second since when: all, or
    /// those whose second came `lately`, in database time. Oldest first, those after a second and row, at most `limit`.
    async fn outlived(
        &self,
        network: Network,
        lately: Option<Duration>,
        after: (UnixSeconds, SettlementId),
        limit: u32,
    ) -> Result<Vec<(UnixSeconds, Payment)>, StoreError>;

    // ---- lanes, slots, attempts ----

    /// Makes sure the lane's row exists and that its next nonce is at least `floor` (the chain's transaction count).
    async fn raise_lane_floor(&self, lane: &LaneId, floor: LaneNonce) -> Result<(), StoreError>;

    /// The same for a count that is proven: a higher one that is known was wrong, and is forgotten. No nonce that a slot holds is
    /// given away again, whatever the count.
    async fn set_lane_floor(&self, lane: &LaneId, floor: LaneNonce) -> Result<(), StoreError>;

    /// In one database transaction, under a lock on the lane's row: next nonce = max(floor, highest slot + 1), sign, store
    /// slot and first attempt, and move the payment to `signed` (compare-and-set on `version`). Any number of
    /// processes may do this at once.
    ///
    /// A payment that is `signed` already is signed again only when it has no open slot: a foreign transaction took the
    /// last one.
    ///
    /// `None`: the payment had moved on, has an open slot, or is on another network; `sign` was not called, nothing was
    /// written and no nonce is consumed. The lane must have been introduced by `set_lane_floor` or `raise_lane_floor`.
    async fn sign_slot(
        &self,
        id: SettlementId,
        version: i64,
        lane: &LaneId,
        sign: SignWith<'_>,
    ) -> Result<Option<SignedSlot>, StoreError>;

    /// The same of a payment that is `settled` and has no open slot: a reorganisation has undone what settled it. It stays
    /// `settled`, by the new transaction.
    async fn sign_settled_again(
        &self,
        id: SettlementId,
        version: i64,
        lane: &LaneId,
        sign: SignWith<'_>,
    ) -> Result<Option<SignedSlot>, StoreError>;

    /// A slot without a payment at exactly `nonce` (fills a hole). `None`: the slot is already known.
    async fn sign_filler(
        &self,
        lane: &LaneId,
        nonce: LaneNonce,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError>;

    /// Appends an attempt (replacement or cancellation) to an open slot if it still has exactly `attempts_seen` attempts.
    /// Never edits earlier ones. `None`: somebody was faster, or the slot is closed.
    async fn add_attempt(
        &self,
        slot: SlotId,
        attempts_seen: u32,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError>;

    /// Closes a slot: the chain has consumed its nonce at depth. The first outcome stays; closing again changes nothing.
    async fn close_slot(&self, slot: SlotId, outcome: SlotOutcome) -> Result<(), StoreError>;

    /// Applies a final event and closes the slot that proved it, in one transaction. `None`: the payment had moved on;
    /// nothing changed.
    async fn conclude(
        &self,
        slot: SlotId,
        id: SettlementId,
        version: i64,
        event: Event,
        evidence: &Evidence,
    ) -> Result<Option<Payment>, StoreError>;

    /// Opens a closed slot again: the chain has lost the transaction that closed it. Returns whether there was one.
    async fn reopen_slot(&self, lane: &LaneId, nonce: LaneNonce) -> Result<bool, StoreError>;

    /// Appends a filler to a closed slot that cannot be opened again: the chain has lost what consumed its nonce, and its payment
    /// has gone on in another slot. It stays closed. `attempts_seen` as in [`Self::add_attempt`]; what is signed is a filler.
    async fn fill_closed_slot(
        &self,
        lane: &LaneId,
        nonce: LaneNonce,
        attempts_seen: u32,
        sign: SignWith<'_>,
    ) -> Result<Option<Attempt>, StoreError>;

    /// Attempts of a closed slot that cannot be opened again, oldest first; none if there is no such slot.
    async fn given_up(&self, lane: &LaneId, nonce: LaneNonce) -> Result<Vec<Attempt>, StoreError>;

    /// The newest slot of every lane of a network, where it is closed.
    async fn newest_closed(&self, network: Network) -> Result<Vec<ClosedSlot>, StoreError>;

    /// Payments that are `settled` or `failed` whose slot in a lane was closed at most so long ago, in database time. Only the
    /// newest `slots_max` slots of the lane are looked at.
    async fn closed_lately(
        &self,
        lane: &LaneId,
        within: Duration,
        slots_max: u32,
    ) -> Result<Vec<Payment>, StoreError>;

    /// Everything not final on a network: open slots in (lane, nonce) order with their attempts and payments, and signed or
    /// mined payments whose slots are all closed.
    async fn open_work(&self, network: Network) -> Result<OpenWork, StoreError>;

    /// Every attempt ever signed for a payment, in all its slots, oldest first.
    async fn attempts(&self, id: SettlementId) -> Result<Vec<Attempt>, StoreError>;

    /// Payments that are signed and not final, of all networks, whose first attempt was signed this long ago in database
    /// time: oldest first, at most `limit`. One that a reorganisation has thrown back is as old as it ever was.
    async fn stuck(&self, age: Duration, limit: u32) -> Result<Vec<Stuck>, StoreError>;

    // ---- handing out the outcome once (interface.md, "One payment, one grant") ----

    /// Tries to become the one request that may answer for this payment; holds for `ttl` in database time. Re-taking by the
    /// same holder renews. `false`: another live holder, nothing left to hand out (`Payment::last_answer` = success), or more
    /// than `answers_seen` answers were said, so that another caller was told while this one waited.
    async fn take_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        answers_seen: i64,
        ttl: Duration,
    ) -> Result<bool, StoreError>;

    /// Records what the holder is about to tell its caller, before a byte of it is written, and holds for `ttl` more.
    /// `false`: `holder` no longer holds the lease, and must not answer.
    ///
    /// If the process dies after this, the answer counts as given: better one success that the seller has to look up by its
    /// hash than two.
    async fn begin_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        says: LastAnswer,
        ttl: Duration,
    ) -> Result<bool, StoreError>;

    /// The same of an answer that is kept: in one transaction, its text is stored under all these keys, which are bound if
    /// they were not. The first answer of a key stays.
    async fn begin_keyed_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        says: LastAnswer,
        ttl: Duration,
        keys: &[KeyUse],
        answer: &str,
    ) -> Result<KeyedAnswer, StoreError>;

    /// Gives the answer lease back. `delivered`: what was begun reached the caller. Otherwise it is taken back as if it had
    /// never been said. Does nothing if `holder` no longer holds it; returns whether it did.
    async fn release_answer(
        &self,
        id: SettlementId,
        holder: HolderId,
        delivered: bool,
    ) -> Result<bool, StoreError>;

    /// Ends a lease that has lapsed in database time: its process is gone. What it had begun to say counts as said.
    async fn lapse_answer(&self, id: SettlementId) -> Result<(), StoreError>;

    // ---- idempotency keys ----

    /// Binds an idempotency key, or says what it is bound to. Two parallel first uses: one wins.
    async fn bind_idempotency_key(&self, key: &KeyUse) -> Result<KeyBinding, StoreError>;

    /// What an idempotency key is bound to, if anything. Binds nothing.
    async fn idempotency_key(&self, key: &KeyUse) -> Result<Option<KeyBinding>, StoreError>;

    /// Stores the final answer (JSON text) under a key that is bound to just this, once: a later call changes nothing.
    async fn store_idempotent_answer(&self, key: &KeyUse, answer: &str) -> Result<(), StoreError>;

    /// Forgets keys that were bound this long ago, in database time, but none of a payment that is open or whose
    /// authorization can still execute; returns how many.
    async fn forget_idempotency_keys(&self, age: Duration) -> Result<u64, StoreError>;

    // ---- payees ----

    /// The identity under which an origin was first verified, if that is remembered.
    async fn first_identity(&self, origin: &Origin) -> Result<Option<Identity>, StoreError>;

    /// Remembers the identity of an origin, unless it has one already or about `origins_max` origins are remembered. The
    /// first one stays. Returns what is remembered now; `None`: there was no room.
    async fn remember_identity(
        &self,
        origin: &Origin,
        identity: &Identity,
        origins_max: u32,
    ) -> Result<Option<Identity>, StoreError>;

    // ---- one keeper per network ----

    /// Tries to hold the network's keeper lease (rebroadcast, replacement, hole filling) for `ttl` in database time; renews
    /// for the same holder. It spares two processes the same work and fences nothing (docs/adr/0006).
    async fn take_keeper(
        &self,
        network: Network,
        holder: HolderId,
        ttl: Duration,
    ) -> Result<bool, StoreError>;
}
