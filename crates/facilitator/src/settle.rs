//! `/settle`: verify again → reserve → slot and signed bytes stored → send, wait → outcome.
//!
//! [`begin`] runs in a task of its own, so a caller that hangs up changes nothing. [`follow`] waits for the outcome and
//! decides who may be told (interface.md, "One payment, one grant").

mod follow;
mod refuse;

pub(crate) use follow::{Outcome, follow};

use crate::{
    answer::give_up,
    clock,
    cover::{self, uncovered},
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    lane::{self, Lane, room, sent::send_attempt, tally::Coming},
    network::NetworkService,
    payee::PaymentCheck,
    verify::{
        GasMoney, Promised, already_pending, judge, price, report, reserved_until, service_of,
        signed_by_payer,
    },
};
use alloy_primitives::B256;
use quittance_evm::fees::Fees;
use quittance_protocol::{
    payment::{fingerprint, replay_key, signature_digest},
    rules::VerifiedPayment,
    settlement::{Fingerprint, ReplayKey, Status},
    wire::{Refusal, Request},
};
use quittance_store::{
    StoreError,
    model::{KeyBinding, KeyUse, Payment, Reservation, Reserve, SettlementId},
};
use refuse::refuse;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a reservation lost to a twin is tried again before giving up.
const RESERVE_TRIES: usize = 4;
/// The most that is kept of `server.request_timeout_ms` for saying what stands.
const ANSWERING: Duration = Duration::from_secs(1);
/// What a process that is to stop still waits for the chain.
const STOPPING: Duration = Duration::from_secs(3);
/// Why a reservation that a settlement began with is given up.
const NOT_SIGNED: &str = "it could not be signed while the caller of /settle waited";

/// Facts older than this are read again before anything is signed: the store has made it wait. Long enough for a store that is only
/// busy, and a block of Ethereum.
const FACTS_AGE_MAX: Duration = Duration::from_secs(12);

/// Why the store's transaction is given up in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NotNow {
    /// Its caller is being told that nothing was decided.
    #[error("too late to be signed")]
    TooLate,
    #[error("judged too long ago")]
    Outdated,
}

/// How long one request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For room in a lane, and for the outcome.
    wait: Instant,
    /// For signing: whoever is told that nothing was decided must not be paid for a moment later.
    sign: Instant,
}

impl Patience {
    /// Both end early enough to say so within `request_timeout`.
    pub(crate) fn new(started: Instant, settle_wait: Duration, request_timeout: Duration) -> Self {
        let sign = request_timeout.saturating_sub((request_timeout / 8).min(ANSWERING));
        Self { wait: started + settle_wait.min(sign), sign: started + sign }
    }
}

/// How far [`begin`] got.
#[derive(Debug)]
pub(crate) enum Begun {
    /// The rules say no.
    Refused(Refusal),
    /// The payment's identifier belongs to another payment, or to the same one for another resource.
    IdentifierTaken,
    /// There is a row to follow.
    Payment(Found),
}

/// A payment's row as a request found it when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    id: SettlementId,
    /// How many answers had been said.
    answers: i64,
    is_final: bool,
}

impl Begun {
    /// The request found the row like this.
    fn found(payment: &Payment) -> Self {
        let is_final = payment.status.is_terminal();
        Self::Payment(Found { id: payment.id, answers: payment.answers, is_final })
    }

    /// The request came before the row was signed: whatever was said since was said to its twins.
    fn before_any_answer(self) -> Self {
        match self {
            Self::Payment(found) => Self::Payment(Found { answers: 0, is_final: false, ..found }),
            other => other,
        }
    }
}

/// Verifies, reserves, signs, stores, sends. Everything is written down before it is acted on. `identifier`: to be bound with
/// the reservation.
pub(crate) async fn begin(
    facilitator: &Arc<Facilitator>,
    request: &Request,
    payee: Option<&PaymentCheck>,
    identifier: Option<&KeyUse>,
    patience: Patience,
) -> Result<Begun, Fault> {
    let mut ours = None;
    let begun = begin_with(facilitator, request, payee, identifier, patience, &mut ours).await;
    if let (Some(ours), Err(_) | Ok(Begun::Refused(_))) = (ours, &begun) {
        // Nobody was promised anything, and nobody was told of it. What is signed all the same has another version.
        give_up(facilitator, ours, Payment::FIRST_VERSION, NOT_SIGNED);
    }
    begun
}

/// `ours`: the reservation that it made, if it made one.
async fn begin_with(
    facilitator: &Arc<Facilitator>,
    request: &Request,
    payee: Option<&PaymentCheck>,
    identifier: Option<&KeyUse>,
    patience: Patience,
    ours: &mut Option<SettlementId>,
) -> Result<Begun, Fault> {
    let key = replay_key(&request.payment, &request.requirement);
    let fingerprint = fingerprint(&request.payment, &request.requirement);
    let mut promised = match known(facilitator, request, &key, fingerprint, patience).await? {
        Known::Begun(begun) => return Ok(begun),
        Known::Reserved(promise) => Some(promise),
        Known::No => None,
    };
    let service = service_of(facilitator, request)?;
    // Before the facts are read: after a wait they would be old.
    let place = room::enter(service, key.authorizer, patience.wait, &facilitator.stopping).await?;
    service.freshen_prices();
    let mut may_have_moved = place.has_waited;
    let mut tries = 0;
    while tries < RESERVE_TRIES {
        if may_have_moved {
            match known(facilitator, request, &key, fingerprint, patience).await? {
                Known::Begun(begun) => return Ok(begun.before_any_answer()),
                // What this call has reserved itself was promised to nobody.
                Known::Reserved(promise) => promised = Some(promise).filter(|_| ours.is_none()),
                Known::No => {}
            }
        }
        if facilitator.stopping.is_cancelled() {
            return Err(Fault::Stopping);
        }
        let (now, judged_at) = (clock::now(), clock::instant());
        // The payee was checked before it was promised.
        let payee = payee.filter(|_| promised.is_none());
        let judged = judge(facilitator, request, payee, promised.as_ref(), now);
        let (verified, gas_money) = match looking(facilitator, patience, judged).await? {
            Ok(verified) => verified,
            Err(refusal) => {
                reached(Point::RefusalDue);
                let begun = refuse(facilitator, service, request, refusal, patience).await?;
                reached(Point::RefusalWritten);
                return Ok(begun);
            }
        };
        let offered = offer(facilitator, service, &verified, &gas_money);
        let offer = match looking(facilitator, patience, offered).await {
            Err(Fault::Busy) => {
                room::pause(patience.wait, &facilitator.stopping).await?;
                may_have_moved = true;
                continue;
            }
            offered => offered?,
        };
        let terms = verified.terms();
        reached(Point::SettleJudged);
        let report = report(payee);
        let reservation = Reservation {
            payee: report.as_deref(),
            judged_in_block: Some(verified.block_number()),
            key: identifier,
            ..Reservation::new(terms, reserved_until(terms))
        };
        let reserved = cover::reserve(facilitator, service, &verified, reservation).await;
        match &reserved {
            Ok(Reserve::Fresh(payment)) => *ours = Some(payment.id),
            // It may be made all the same.
            Err(Fault::Store(_)) => {
                give_up(facilitator, reservation.id, Payment::FIRST_VERSION, NOT_SIGNED);
            }
            Ok(_) | Err(_) => {}
        }
        let payment = match reserved? {
            Reserve::Fresh(payment) => {
                reached(Point::SettleReserved);
                payment
            }
            Reserve::Same(payment) if payment.status == Status::Reserved => {
                if let Some(identifier) = identifier {
                    if facilitator.store.bind_idempotency_key(identifier).await? == KeyBinding::Other {
                        return Ok(Begun::IdentifierTaken);
                    }
                    reached(Point::IdentifierBound);
                }
                payment
            }
            Reserve::Same(payment) => return Ok(Begun::found(&payment).before_any_answer()),
            Reserve::Other(_) => return Ok(Begun::Refused(already_pending())),
            Reserve::Uncovered => return Ok(Begun::Refused(uncovered())),
            Reserve::KeyTaken => return Ok(Begun::IdentifierTaken),
        };
        if sign_and_send(facilitator, service, &payment, &verified, offer, judged_at, patience).await? {
            place.stored();
            return Ok(Begun::found(&payment).before_any_answer());
        }
        // A twin was faster, or the facts have grown old.
        may_have_moved = true;
        tries += 1;
    }
    Err(Fault::Busy)
}

/// What only looks may be given up at any moment.
async fn looking<T>(
    facilitator: &Facilitator,
    patience: Patience,
    look: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::select! {
        seen = look => seen,
        () = tokio::time::sleep_until(patience.sign) => Err(Fault::Timeout),
        () = facilitator.stopping_for(STOPPING) => Err(Fault::Stopping),
    }
}

/// What the store says about a payment before it is judged.
enum Known {
    /// Nobody holds its key.
    No,
    /// Verify has promised to settle it, or a twin is about to.
    Reserved(Promised),
    /// Beyond `reserved`, it needs no second verification: its record binds every term. Or another payment holds the key.
    Begun(Begun),
}

async fn known(
    facilitator: &Facilitator,
    request: &Request,
    key: &ReplayKey,
    fingerprint: Fingerprint,
    patience: Patience,
) -> Result<Known, Fault> {
    Ok(match facilitator.store.lookup(key).await? {
        Some(payment) if !payment.status.holds_key() => Known::No,
        Some(payment) if payment.terms.fingerprint == fingerprint => match payment.status {
            Status::Reserved => Known::Reserved(Promised::of(&payment)),
            _ => Known::Begun(begun_by(facilitator, request, &payment).await?),
        },
        // A reservation may have lapsed: `reserve` decides that, after the rules.
        Some(payment) if payment.status == Status::Reserved => Known::No,
        // Of all that is wrong with it, the first is said.
        Some(_) => {
            let judged =
                looking(facilitator, patience, judge(facilitator, request, None, None, clock::now()));
            Known::Begun(Begun::Refused(judged.await?.err().unwrap_or_else(already_pending)))
        }
        None => Known::No,
    })
}

/// The terms of a payment are no secret, so that they alone earn no answer about it: the request must bring the signature
/// that was believed, or prove another one.
async fn begun_by(facilitator: &Facilitator, request: &Request, payment: &Payment) -> Result<Begun, Fault> {
    if payment.terms.signature != Some(signature_digest(&request.payment, &request.requirement))
        && let Err(refusal) = signed_by_payer(facilitator, request).await?
    {
        return Ok(Begun::Refused(refusal));
    }
    Ok(Begun::found(payment))
}

/// A place in a lane, and what the transaction there offers.
#[derive(Debug)]
struct Offer<'a> {
    lane: &'a Lane,
    slot: Coming<'a>,
    fees: Fees,
}

/// Everything that can fail for want of money or room, before anything is reserved.
async fn offer<'a>(
    facilitator: &Facilitator,
    service: &'a NetworkService,
    verified: &VerifiedPayment,
    gas_money: &GasMoney,
) -> Result<Offer<'a>, Fault> {
    let base_fee = service.base_fee(gas_money.base_fee).await?;
    let (fees, cost_max) = price(facilitator, service, verified, gas_money, base_fee).await?;
    let (lane, slot) =
        lane::choose(&service.lanes, &service.open_by_lane, &gas_money.lane_balances, cost_max)?;
    lane.introduce(&service.pool, facilitator.store.as_ref()).await?;
    Ok(Offer { lane, slot, fees })
}

/// Slot, first attempt and `signed` in one transaction; then the bytes go out, which nobody waits for: they are in the world
/// as soon as they are stored. `false`: the payment had moved on, or has to be judged anew.
async fn sign_and_send(
    facilitator: &Arc<Facilitator>,
    service: &Arc<NetworkService>,
    payment: &Payment,
    verified: &VerifiedPayment,
    Offer { lane, slot, fees }: Offer<'_>,
    judged_at: Instant,
    patience: Patience,
) -> Result<bool, Fault> {
    let gas_limit = verified.gas_limit();
    let (to, data) = verified.call();
    let signed = facilitator
        .store
        .sign_slot(payment.id, payment.version, &lane.id(), &|nonce| {
            // The lane, or the store, may have been in other hands for long.
            let now = clock::instant();
            if now >= patience.sign {
                return Err(NotNow::TooLate.into());
            }
            if now - judged_at > FACTS_AGE_MAX {
                return Err(NotNow::Outdated.into());
            }
            let attempt = lane.sign_payment(nonce, fees, gas_limit, to, data)?;
            // Before the row is visible to the keeper, so that the bytes do not go out twice.
            service.sent.mark(attempt.hash);
            reached(Point::SettleSigning);
            Ok(attempt)
        })
        .await;
    let signed = match signed {
        Err(StoreError::Sign(cause)) => match cause.downcast_ref::<NotNow>() {
            Some(NotNow::Outdated) => return Ok(false),
            Some(NotNow::TooLate) => return Err(Fault::Timeout),
            None => return Err(StoreError::Sign(cause).into()),
        },
        signed => signed?,
    };
    let Some(signed) = signed else { return Ok(false) };
    slot.stored();
    tracing::info!(
        settlement_id = %payment.id, network = %service.network(), nonce = signed.attempt.lane_nonce.0,
        hash = %signed.attempt.signed.hash, "signed",
    );
    reached(Point::SettleSigned);
    let sending = (facilitator.clone(), service.clone(), signed.attempt);
    facilitator.tasks.spawn(async move {
        let (facilitator, service, attempt) = sending;
        tokio::select! {
            _ = send_attempt(&service, &attempt) => service.wake.notify_one(),
            // The next start sends it.
            () = facilitator.stopping_for(STOPPING) => {}
        }
    });
    service.waiting.announce(payment.id);
    Ok(true)
}

/// The hash to show for a payment, or the empty string when nothing was signed.
pub(crate) fn shown_hash(payment: &Payment) -> String {
    payment.tx_hash.map(|hash: B256| hash.to_string()).unwrap_or_default()
}
