//! `/verify`: parsed request → facts in one round trip → rules → pending set → answer.

use crate::{
    answer::{Promise, UNTOLD, give_up},
    clock,
    cover::{self, uncovered},
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    lane, metrics,
    network::NetworkService,
    payee::PaymentCheck,
};
use alloy_primitives::U256;
use quittance_evm::{fees::Fees, lens};
use quittance_protocol::{
    code::Code,
    facts::ChainFacts,
    rules::{self, Policy, VerifiedPayment},
    settlement::NewPayment,
    units::UnixSeconds,
    wire::{Refusal, Request},
};
use quittance_store::model::{KeyBinding, KeyUse, Payment, Reservation, Reserve};
use std::sync::Arc;

/// A reservation is kept this long after `validBefore`: until the last block in which the authorization could execute is
/// final, even on a chain whose clock lags. In lock-step with rule 3, this is what makes rule 5 safe: a reservation must
/// outlive the window in which its signature can execute.
const FINALITY_SECONDS: u64 = 300;

/// Answer of `/verify`.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Good, and reserved.
    Promised(Box<Promise>),
    /// Good as far as can be seen: nothing was promised.
    Good,
    /// The rules say no.
    Refused(Refusal),
    /// The payment's identifier belongs to another payment, or to the same one for another resource.
    IdentifierTaken,
}

/// An error is our outage, and no verdict. `place` is kept until nothing is done for the caller any more.
pub(crate) async fn verify(
    facilitator: &Arc<Facilitator>,
    request: &Request,
    payee: Option<&PaymentCheck>,
    identifier: Option<KeyUse>,
    place: impl Send + 'static,
) -> Result<Verdict, Fault> {
    let now = clock::now();
    if let Some(identifier) = &identifier
        && facilitator.store.idempotency_key(identifier).await? == Some(KeyBinding::Other)
    {
        return Ok(Verdict::IdentifierTaken);
    }
    let service = service_of(facilitator, request)?;
    if facilitator.reserve_on_verify {
        service.freshen_prices();
    }
    let (verified, gas_money) = match judge(facilitator, request, payee, None, now).await? {
        Ok(verified) => verified,
        Err(refusal) => return Ok(Verdict::Refused(refusal)),
    };
    let terms = verified.terms();
    if !facilitator.reserve_on_verify {
        let held = facilitator.store.lookup(&terms.key).await?.is_some_and(|payment| holds(&payment, now));
        return Ok(if held { Verdict::Refused(already_pending()) } else { Verdict::Good });
    }
    // What could not be settled at this moment is not promised.
    let base_fee = service.known_base_fee(gas_money.base_fee);
    let (_, cost_max) = price(facilitator, service, &verified, &gas_money, base_fee).await?;
    lane::can_pay(&service.lanes, &service.open_by_lane, &gas_money.lane_balances, cost_max)?;
    // In a task of its own, so that a caller that hangs up leaves no reservation half made. One that hangs up earlier leaves
    // nothing at all: not even for the moment in which it asks again.
    let reserving = {
        let (facilitator, service, verified) = (facilitator.clone(), service.clone(), verified.clone());
        let report = report(payee);
        facilitator.tasks.clone().spawn(async move {
            let _place = place;
            let terms = verified.terms();
            let reservation = Reservation {
                payee: report.as_deref(),
                judged_in_block: Some(verified.block_number()),
                key: identifier.as_ref(),
                ..Reservation::new(terms, reserved_until(terms))
            };
            let reserved = cover::reserve(&facilitator, &service, &verified, reservation).await;
            if matches!(reserved, Err(Fault::Store(_))) {
                // It may be made all the same, and its caller hears nothing of it.
                give_up(&facilitator, reservation.id, Payment::FIRST_VERSION, UNTOLD);
            }
            Ok(match reserved? {
                Reserve::Fresh(payment) => {
                    reached(Point::VerifyReserved);
                    Verdict::Promised(Box::new(Promise::new(&facilitator, payment)))
                }
                Reserve::Same(_) | Reserve::Other(_) => Verdict::Refused(already_pending()),
                Reserve::Uncovered => Verdict::Refused(uncovered()),
                Reserve::KeyTaken => Verdict::IdentifierTaken,
            })
        })
    };
    let verdict: Result<Verdict, Fault> = reserving.await.map_err(|_| Fault::Internal)?;
    // The clock is read again: a slow store must not let a window close unnoticed.
    match rules::check_offline(request, &service.policy, clock::now()) {
        Err(refusal) if matches!(verdict, Ok(Verdict::Promised(_))) => Ok(Verdict::Refused(refusal)),
        _ => verdict,
    }
}

/// The payee check's answer, as it is stored with the payment.
pub(crate) fn report(payee: Option<&PaymentCheck>) -> Option<String> {
    payee.and_then(PaymentCheck::report).map(|report| report.to_string())
}

/// What a lane offered to pay for gas at the block of the facts.
pub(crate) struct GasMoney {
    pub(crate) base_fee: u128,
    pub(crate) lane_balances: Vec<U256>,
}

/// What a settlement offers first, and the most it can cost: a fault when the operator does not allow that much.
pub(crate) async fn price(
    facilitator: &Facilitator,
    service: &NetworkService,
    verified: &VerifiedPayment,
    gas_money: &GasMoney,
    base_fee: u128,
) -> Result<(Fees, U256), Fault> {
    let (_, data) = verified.call();
    let (fees, cost_max) = service.prices().await?.first_offer(base_fee, verified.gas_limit(), data.len());
    facilitator.check_fee_cap(cost_max)?;
    service.note_funds(&gas_money.lane_balances, cost_max);
    Ok((fees, cost_max))
}

/// A promise to settle, made by verify or by a twin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promised {
    /// What ends it must be no older; 0: whatever was read lately is.
    block_number: u64,
}

impl Promised {
    pub(crate) fn of(payment: &Payment) -> Self {
        Self { block_number: payment.judged_in_block.unwrap_or_default() }
    }
}

/// The rules on fresh facts; nothing is written. `/settle` asks the same question again. What verify has promised is settled until
/// its last second: the margin has done its work. Nor is it refused on the word of a node that is late.
pub(crate) async fn judge(
    facilitator: &Facilitator,
    request: &Request,
    payee: Option<&PaymentCheck>,
    promise: Option<&Promised>,
    now: UnixSeconds,
) -> Result<Result<(VerifiedPayment, GasMoney), Refusal>, Fault> {
    let service = service_of(facilitator, request)?;
    let validity_margin_seconds = if promise.is_some() { 0 } else { service.policy.validity_margin_seconds };
    let policy = Policy { validity_margin_seconds, ..service.policy.clone() };
    if let Err(refusal) = rules::check_offline(request, &policy, now) {
        return Ok(Err(refusal));
    }
    let lanes = service.lane_addresses();
    if !lens::fits(request, &policy, &lanes) {
        return Ok(Err(too_long()));
    }
    let reading = lens::read(&service.pool, request, &policy, &lanes, now);
    let mut reading = PaymentCheck::beside(payee, &facilitator.payee, reading).await?;
    // The clock is read again: a slow node must not let a window close unnoticed.
    let check = |facts: &ChainFacts| rules::check(request, facts, &policy, now.max(clock::now()));
    let mut verified = check(&reading.facts);
    let youngest = promise.map_or(0, |promise| promise.block_number.max(service.pool.youngest()));
    if reading.facts.block.number < youngest && verified.as_ref().is_err_and(can_be_outdated) {
        reading = lens::read_since(&service.pool, request, &policy, &lanes, now, youngest).await?;
        verified = check(&reading.facts);
    }
    for (lane, balance) in reading.lane_balances.iter().enumerate() {
        metrics::lane_balance(service, lane, *balance);
    }
    let gas_money = GasMoney { base_fee: reading.facts.block.base_fee, lane_balances: reading.lane_balances };
    Ok(match (verified, payee.and_then(PaymentCheck::refusal)) {
        (Ok(_), Some(refusal)) => Err(refusal),
        (verified, _) => verified.map(|verified| (verified, gas_money)),
    })
}

/// A nonce that was used in an old block is used in a younger one. All else can have come right since.
fn can_be_outdated(refusal: &Refusal) -> bool {
    refusal.code != Code::NonceAlreadyUsed
}

/// Whether the payer signed this, for a payment that is beyond judging: who only knows its terms is told nothing of it.
pub(crate) async fn signed_by_payer(
    facilitator: &Facilitator,
    request: &Request,
) -> Result<Result<(), Refusal>, Fault> {
    let service = service_of(facilitator, request)?;
    let lanes = service.lane_addresses();
    if !lens::fits(request, &service.policy, &lanes) {
        return Ok(Err(too_long()));
    }
    let reading = lens::read(&service.pool, request, &service.policy, &lanes, clock::now()).await?;
    Ok(rules::signed_by_payer(request, &reading.facts, &service.policy))
}

fn too_long() -> Refusal {
    let message = "paymentPayload.payload.signature is too long to be checked in one call";
    Refusal::new(Code::InvalidPayload, message)
}

pub(crate) fn service_of<'a>(
    facilitator: &'a Facilitator,
    request: &Request,
) -> Result<&'a Arc<NetworkService>, Fault> {
    // Parsing only lets served networks through.
    facilitator.service(request.requirement.network).ok_or(Fault::Internal)
}

/// When a reservation may be dropped because its authorization is dead.
pub(crate) fn reserved_until(terms: &NewPayment) -> UnixSeconds {
    let valid_before = u64::try_from(terms.valid_before).unwrap_or(u64::MAX);
    UnixSeconds(valid_before).saturating_add(FINALITY_SECONDS)
}

fn holds(payment: &Payment, now: UnixSeconds) -> bool {
    use quittance_protocol::settlement::Status;
    let lapsed = payment.status == Status::Reserved && reserved_until(&payment.terms) <= now;
    payment.status.holds_key() && !lapsed
}

/// Rule 5, our half: the key is in the pending set.
pub(crate) fn already_pending() -> Refusal {
    Refusal::new(
        Code::NonceAlreadyUsed,
        "an authorization with this payer and nonce is already pending or settled here (rule 5)",
    )
}
