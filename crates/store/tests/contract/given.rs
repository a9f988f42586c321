//! Payments, lanes and signatures that no other test and no other call of the same test uses.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use quittance_protocol::{
    payee::{Identity, Origin, RegistryId},
    settlement::{Event, Evidence, Fingerprint, NewPayment, ReplayKey, SignatureDigest, Status},
    units::{AuthNonce, LaneNonce, Network, TokenAmount, UnixSeconds},
};
use quittance_store::{
    Store,
    model::{
        AttemptKind, HolderId, IdempotencyKey, KeyUse, LaneId, NewAttempt, OpenWork, Payment, Reservation,
        Reserve, SignedSlot, SlotOutcome,
    },
};
use std::{
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
};
use uuid::Uuid;

/// A second that has gone by, whenever tests run.
pub(crate) const PAST: UnixSeconds = UnixSeconds(1_700_000_000);
/// A reservation that is not over, whenever tests run.
pub(crate) const LATER: UnixSeconds = UnixSeconds(4_000_000_000);

static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn unique() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn unique_hash() -> B256 {
    keccak256(unique().to_be_bytes())
}

pub(crate) fn network(chain_id: u64) -> Network {
    Network::from_chain_id(chain_id).unwrap()
}

pub(crate) fn holder() -> HolderId {
    HolderId(Uuid::now_v7())
}

/// A payment on chain 8453 that nothing else has the key of.
pub(crate) fn payment() -> NewPayment {
    NewPayment {
        key: ReplayKey {
            network: network(8453),
            verifying_contract: Address::repeat_byte(0xc0),
            authorizer: Address::from_word(unique_hash()),
            auth_nonce: AuthNonce(unique_hash()),
        },
        fingerprint: Fingerprint(unique_hash()),
        pay_to: Address::repeat_byte(0xEE),
        amount: TokenAmount(U256::from(10_000)),
        valid_after: U256::from(PAST.0),
        valid_before: U256::from(LATER.0),
        signature: Some(SignatureDigest(unique_hash())),
    }
}

/// Another payment under the same key.
pub(crate) fn rival(of: &NewPayment) -> NewPayment {
    NewPayment { fingerprint: Fingerprint(unique_hash()), pay_to: Address::repeat_byte(0xBA), ..of.clone() }
}

/// A server nobody else has.
pub(crate) fn origin() -> Origin {
    Origin::parse_bare(&format!("https://seller-{}.example", unique())).unwrap()
}

/// An agent nobody else is.
pub(crate) fn identity() -> Identity {
    Identity {
        registry: RegistryId::new(U256::from(8453), Address::repeat_byte(0x80)).unwrap(),
        agent_id: U256::from(unique()),
    }
}

pub(crate) fn lane() -> LaneId {
    LaneId { network: network(8453), address: Address::from_word(unique_hash()) }
}

type Signing = Result<NewAttempt, Box<dyn Error + Send + Sync>>;

/// Signs with bytes and hash that are never the same twice.
pub(crate) fn sign(kind: AttemptKind) -> impl Fn(LaneNonce) -> Signing + Send + Sync {
    move |nonce| {
        let raw: Bytes = [nonce.0.to_be_bytes(), unique().to_be_bytes()].concat().into();
        Ok(NewAttempt {
            kind,
            hash: keccak256(&raw),
            raw,
            max_fee_per_gas: 30_000_000_000,
            max_priority_fee_per_gas: 1_000_000,
            gas_limit: 120_000,
        })
    }
}

pub(crate) fn pay(nonce: LaneNonce) -> Signing {
    sign(AttemptKind::Payment)(nonce)
}

pub(crate) fn fill(nonce: LaneNonce) -> Signing {
    sign(AttemptKind::Filler)(nonce)
}

/// For calls that must not reach the signer.
pub(crate) fn never(nonce: LaneNonce) -> Signing {
    panic!("asked to sign nonce {nonce} for nothing")
}

/// A key of a payment, which nothing else has.
pub(crate) fn key_of(payment: &NewPayment) -> KeyUse {
    let key = IdempotencyKey { scope: "s".to_owned(), key: unique().to_string() };
    KeyUse { key, payment: payment.fingerprint, resource: None, signature: payment.signature }
}

pub(crate) async fn reserved(store: &dyn Store) -> Payment {
    reserved_as(store, &payment()).await
}

pub(crate) async fn reserved_as(store: &dyn Store, terms: &NewPayment) -> Payment {
    match store.reserve(&Reservation::new(terms, LATER)).await.unwrap() {
        Reserve::Fresh(payment) => payment,
        other => panic!("the key was not free: {other:?}"),
    }
}

pub(crate) async fn known_lane(store: &dyn Store) -> LaneId {
    let lane = lane();
    store.raise_lane_floor(&lane, LaneNonce(0)).await.unwrap();
    lane
}

/// A reserved payment, signed on `lane`.
pub(crate) async fn signed(store: &dyn Store, lane: &LaneId) -> SignedSlot {
    let payment = reserved(store).await;
    store.sign_slot(payment.id, payment.version, lane, &pay).await.unwrap().unwrap()
}

pub(crate) async fn moved(store: &dyn Store, payment: &Payment, event: Event) -> Payment {
    store.transition(payment.id, payment.version, event, &Evidence::default()).await.unwrap().unwrap()
}

/// A payment in `status`, by the shortest way that leads there; its slot, if it had one, is closed.
pub(crate) async fn in_status(store: &dyn Store, status: Status, terms: &NewPayment) -> Payment {
    let payment = reserved_as(store, terms).await;
    match status {
        Status::Reserved => return payment,
        Status::Refused => return moved(store, &payment, Event::Refused).await,
        _ => {}
    }
    let lane = known_lane(store).await;
    let slot = store.sign_slot(payment.id, payment.version, &lane, &pay).await.unwrap().unwrap();
    store.close_slot(slot.attempt.slot, SlotOutcome::Foreign).await.unwrap();
    match status {
        Status::Signed => slot.payment,
        Status::Mined => moved(store, &slot.payment, Event::Mined).await,
        Status::Settled => moved(store, &slot.payment, Event::SettledAtDepth).await,
        Status::SettledElsewhere => moved(store, &slot.payment, Event::FoundElsewhere).await,
        Status::Failed => moved(store, &slot.payment, Event::ProvenFailed).await,
        Status::Reserved | Status::Refused => unreachable!(),
    }
}

/// What is open, whenever it is read.
pub(crate) async fn open_but_for_ages(store: &dyn Store, network: Network) -> OpenWork {
    let mut work = store.open_work(network).await.unwrap();
    for slot in &mut work.slots {
        slot.signed_ago.clear();
    }
    work
}
