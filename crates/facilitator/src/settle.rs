//! `/settle`: verify again → reserve → slot and signed bytes stored → send, wait → outcome.
//!
//! [`begin`] runs in a task of its own, so a caller that hangs up changes nothing. [`follow`] waits for the outcome and
//! decides who may be told (interface.md, "One payment, one grant").

use crate::{
    answer::AnswerLease,
    clock,
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    lane::{
        self, Lane,
        keeper::send_attempt,
        outcome::{self, Chain, Verdict},
        room,
        tally::Coming,
    },
    network::NetworkService,
    payee::PaymentCheck,
    verify::{GasMoney, already_pending, judge, price, report, reserved_until, service_of, signed_by_payer},
};
use alloy_primitives::B256;
use quittance_evm::fees::Fees;
use quittance_protocol::{
    code::Code,
    payment::{fingerprint, replay_key, signature_digest},
    rules::VerifiedPayment,
    settlement::{Event, Evidence, Fingerprint, ReplayKey, Status},
    wire::{Refusal, Request},
};
use quittance_store::model::{KeyBinding, KeyUse, LastAnswer, Payment, Reservation, Reserve, SettlementId};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How often a waiting caller looks at the row even if this process moved nothing: another one may have.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);
/// How often a reservation lost to a twin is tried again before giving up.
const RESERVE_TRIES: usize = 4;
/// The most that is kept of `server.request_timeout_ms` for saying what stands.
const ANSWERING: Duration = Duration::from_secs(1);
/// What a process that is to stop still waits for the chain.
const STOPPING: Duration = Duration::from_secs(3);

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

/// What a caller of `/settle` is told.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The rules, or the state of the payment, say no.
    Refused(Refusal, Option<Box<Payment>>),
    /// Executed; this caller alone may be told.
    Success(Box<Payment>, AnswerLease),
    /// Signed, not final within the wait; this caller alone may be told, and may ask again.
    Pending(Box<Payment>, AnswerLease),
    /// Somebody else was told, or is being told.
    Duplicate(Box<Payment>),
    /// Final, and not a success.
    Failed {
        payment: Box<Payment>,
        /// It was so before this caller came.
        is_old: bool,
    },
    /// The payment's identifier belongs to another payment, or to the same one for another resource.
    IdentifierTaken,
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
    let key = replay_key(&request.payment, &request.requirement);
    let fingerprint = fingerprint(&request.payment, &request.requirement);
    let mut promised = match known(facilitator, request, &key, fingerprint).await? {
        Known::Begun(begun) => return Ok(begun),
        Known::Reserved => true,
        Known::No => false,
    };
    let service = service_of(facilitator, request)?;
    // Before the facts are read: after a wait they would be old.
    let place = room::enter(service, key.authorizer, patience.wait, &facilitator.stopping).await?;
    service.freshen_prices();
    let mut may_have_moved = place.has_waited;
    let mut tries = 0;
    while tries < RESERVE_TRIES {
        if may_have_moved {
            match known(facilitator, request, &key, fingerprint).await? {
                Known::Begun(begun) => return Ok(begun.before_any_answer()),
                Known::Reserved => promised = true,
                Known::No => {}
            }
        }
        if facilitator.stopping.is_cancelled() {
            return Err(Fault::Stopping);
        }
        let now = clock::now();
        // What verify accepted is settled until its last second: the margin has done its work.
        let margin = if promised { 0 } else { service.policy.validity_margin_seconds };
        // The same goes for its payee: it was checked before it was promised.
        let payee = payee.filter(|_| !promised);
        let judged = judge(facilitator, request, payee, margin, now);
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
            key: identifier,
            ..Reservation::new(terms, reserved_until(terms))
        };
        let payment = match facilitator.store.reserve(&reservation, now).await? {
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
            Reserve::KeyTaken => return Ok(Begun::IdentifierTaken),
        };
        if sign_and_send(facilitator, service, &payment, &verified, offer).await? {
            place.stored();
            return Ok(Begun::found(&payment).before_any_answer());
        }
        // A twin was faster.
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
    Reserved,
    /// Beyond `reserved`, it needs no second verification: its record binds every term. Or another payment holds the key.
    Begun(Begun),
}

async fn known(
    facilitator: &Facilitator,
    request: &Request,
    key: &ReplayKey,
    fingerprint: Fingerprint,
) -> Result<Known, Fault> {
    Ok(match facilitator.store.lookup(key).await? {
        Some(payment) if !payment.status.holds_key() => Known::No,
        Some(payment) if payment.terms.fingerprint == fingerprint => match payment.status {
            Status::Reserved => Known::Reserved,
            _ => Known::Begun(begun_by(facilitator, request, &payment).await?),
        },
        // A reservation may have lapsed: `reserve` decides that, after the rules.
        Some(payment) if payment.status == Status::Reserved => Known::No,
        Some(_) => Known::Begun(Begun::Refused(already_pending())),
        None => Known::No,
    })
}

/// The terms of a payment are no secret, so that they alone earn no answer about it: the request must bring the signature
/// that was believed, or prove another one.
async fn begun_by(facilitator: &Facilitator, request: &Request, payment: &Payment) -> Result<Begun, Fault> {
    if payment.terms.signature != Some(signature_digest(&request.payment))
        && let Err(refusal) = signed_by_payer(facilitator, request).await?
    {
        return Ok(Begun::Refused(refusal));
    }
    Ok(Begun::found(payment))
}

/// Refusals that come after the signature was proven and that speak of the chain: only then may the owner's reservation be
/// dropped. Anyone can send a wrong signature for a reserved nonce, and a payer can sign the same terms for a domain the
/// token does not have, to be free for a second promise. That the nonce is used says nothing of who was paid by it.
///
/// What came of running the call speaks of the signature in it, and a contract wallet can accept a second one that then
/// fails: it says nothing about the one that was promised. A token may even repeat the wallet's own words, so that a
/// lack of money counts as such as well. Told apart by their bytes: another spelling of the same signature, or a
/// promise of which no signature is known, keeps the promise, which costs a nonce until its window closes.
fn proves_nothing_executes(code: Code, same_signature: bool) -> bool {
    match code {
        Code::AssetNotDeployed | Code::Eip3009NotSupported => true,
        Code::InsufficientBalance | Code::SimulationFailed | Code::TransferEventMismatch => same_signature,
        _ => false,
    }
}

async fn refuse(
    facilitator: &Facilitator,
    service: &NetworkService,
    request: &Request,
    refusal: Refusal,
    patience: Patience,
) -> Result<Begun, Fault> {
    let key = &replay_key(&request.payment, &request.requirement);
    let fingerprint = fingerprint(&request.payment, &request.requirement);
    let Some(payment) = facilitator.store.lookup(key).await? else { return Ok(Begun::Refused(refusal)) };
    let spent = payment.status == Status::Failed && payment.tx_hash.is_some();
    if spent && refusal.code == Code::NonceAlreadyUsed && payment.terms.fingerprint == fingerprint {
        // How it ended says more, with the transaction, than that it ended.
        return Ok(Begun::found(&payment));
    }
    if payment.terms.fingerprint != fingerprint || !payment.status.holds_key() {
        return Ok(Begun::Refused(refusal));
    }
    if payment.status != Status::Reserved {
        // A twin settled it while we were reading: "nonce used" would be about our own transaction.
        return Ok(begun_by(facilitator, request, &payment).await?.before_any_answer());
    }
    let same_signature = payment.terms.signature == Some(signature_digest(&request.payment));
    let (event, evidence) = if proves_nothing_executes(refusal.code, same_signature) {
        let (reason, message) = (Some(refusal.code), Some(refusal.message.clone()));
        (Event::Refused, Evidence { reason, message, ..Evidence::default() })
    } else if refusal.code == Code::NonceAlreadyUsed
        && let Some(found) = done_by_others(facilitator, service, &payment, patience).await
    {
        found
    } else {
        return Ok(Begun::Refused(refusal));
    };
    let has_transaction = evidence.tx_hash.is_some();
    let ended = facilitator.store.transition(payment.id, payment.version, event, &evidence).await?;
    match ended {
        Some(payment) => {
            service.waiting.announce(payment.id);
            // The row says more than the refusal: which transaction it was.
            let begun = Begun::found(&payment).before_any_answer();
            Ok(if has_transaction { begun } else { Begun::Refused(refusal) })
        }
        None => Ok(match known(facilitator, request, key, fingerprint).await? {
            Known::Begun(begun) => begun.before_any_answer(),
            Known::Reserved | Known::No => Begun::Refused(refusal),
        }),
    }
}

/// Somebody else has used the nonce of a payment that was promised: what came of that. `None`: it could not be read, or is not
/// deep enough yet, and the promise stays.
async fn done_by_others(
    facilitator: &Facilitator,
    service: &NetworkService,
    payment: &Payment,
    patience: Patience,
) -> Option<(Event, Evidence)> {
    let look = async {
        match Chain::read(service).await? {
            Some(chain) => outcome::of_reserved(service, &chain, &payment.terms).await,
            None => Ok(Verdict::Unknown),
        }
    };
    match looking(facilitator, patience, look).await {
        Ok(Verdict::Final(event, evidence)) => Some((event, evidence)),
        Ok(Verdict::StillAlive | Verdict::Unknown) => None,
        Err(fault) => {
            tracing::warn!(settlement_id = %payment.id, %fault, "what used a promised nonce could not be read");
            None
        }
    }
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
/// as soon as they are stored. `false`: the payment had moved on.
async fn sign_and_send(
    facilitator: &Arc<Facilitator>,
    service: &Arc<NetworkService>,
    payment: &Payment,
    verified: &VerifiedPayment,
    Offer { lane, slot, fees }: Offer<'_>,
) -> Result<bool, Fault> {
    let gas_limit = verified.gas_limit();
    let (to, data) = verified.call();
    let signed = facilitator
        .store
        .sign_slot(payment.id, payment.version, &lane.id(), &|nonce| {
            let attempt = lane.sign_payment(nonce, fees, gas_limit, to, data)?;
            // Before the row is visible to the keeper, so that the bytes do not go out twice.
            service.sent.mark(attempt.hash);
            reached(Point::SettleSigning);
            Ok(attempt)
        })
        .await?;
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

/// Waits for the outcome of a payment as long as `patience` lasts, and decides whether this caller may be told.
///
/// Of all callers of one payment, the one that takes the answer lease is told success or `settlement_pending`. The others
/// wait for its fate: if its answer is said they are duplicates, if it is gone one of them takes its place. What a caller
/// `found` when it came tells twins from repeats.
pub(crate) async fn follow(
    facilitator: &Arc<Facilitator>,
    service: &NetworkService,
    found: Found,
    patience: Patience,
) -> Result<Outcome, Fault> {
    let (id, answers_seen) = (found.id, found.answers);
    let mut place = service.waiting.wait_for(id);
    loop {
        let payment = Box::new(facilitator.store.payment(id).await?.ok_or(Fault::Internal)?);
        if payment.answers > answers_seen && !payment.answer_in_flight {
            // Another caller was told while this one waited: that one comes back for the rest.
            return Ok(Outcome::Duplicate(payment));
        }
        match payment.status {
            Status::Refused => {
                let code = payment.reason.unwrap_or(Code::SimulationFailed);
                let message = payment.message.clone().unwrap_or_default();
                return Ok(Outcome::Refused(Refusal::new(code, message), Some(payment)));
            }
            Status::Failed | Status::SettledElsewhere => {
                return Ok(Outcome::Failed { payment, is_old: found.is_final });
            }
            Status::Settled if payment.last_answer == Some(LastAnswer::Success) => {
                if !payment.answer_in_flight {
                    return Ok(Outcome::Duplicate(payment));
                }
                // On its way to another caller: if that one is gone, this one is next.
                facilitator.store.lapse_answer(id).await?;
            }
            Status::Settled => {
                if let Some(lease) = AnswerLease::take(facilitator, id, answers_seen).await? {
                    return Ok(Outcome::Success(payment, lease));
                }
            }
            Status::Reserved | Status::Signed | Status::Mined => {}
        }
        let over = tokio::time::timeout_at(patience.wait, async {
            tokio::select! {
                () = place.moved() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = facilitator.stopping.cancelled() => {}
            }
        })
        .await
        .is_err();
        if over || facilitator.stopping.is_cancelled() {
            return out_of_time(facilitator, found).await;
        }
    }
}

/// The wait is over: one caller may be told what stands; to the others it is somebody else's payment.
async fn out_of_time(facilitator: &Arc<Facilitator>, found: Found) -> Result<Outcome, Fault> {
    let payment = Box::new(facilitator.store.payment(found.id).await?.ok_or(Fault::Internal)?);
    match payment.status {
        Status::Reserved => return Err(Fault::Timeout),
        Status::Refused | Status::Failed | Status::SettledElsewhere => {
            return Ok(Outcome::Failed { payment, is_old: found.is_final });
        }
        Status::Signed | Status::Mined | Status::Settled => {}
    }
    let Some(lease) = AnswerLease::take(facilitator, found.id, found.answers).await? else {
        return Ok(Outcome::Duplicate(payment));
    };
    Ok(match payment.status {
        // It became final this very moment.
        Status::Settled => Outcome::Success(payment, lease),
        _ => Outcome::Pending(payment, lease),
    })
}

/// The hash to show for a payment, or the empty string when nothing was signed.
pub(crate) fn shown_hash(payment: &Payment) -> String {
    payment.tx_hash.map(|hash: B256| hash.to_string()).unwrap_or_default()
}
