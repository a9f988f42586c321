//! `/verify`: parsed request → facts in one round trip → rules → pending set → answer.

use crate::{
    answer::Promise,
    clock,
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    metrics,
    network::NetworkService,
    payee::PaymentCheck,
};
use quittance_evm::lens;
use quittance_protocol::{
    code::Code,
    rules::{self, Policy, VerifiedPayment},
    settlement::NewPayment,
    units::UnixSeconds,
    wire::{Refusal, Request},
};
use quittance_store::model::{Payment, Reserve};
use serde_json::Value;
use std::sync::Arc;

/// A reservation is kept this long after `validBefore`: until the last block in which the authorization could execute is
/// final, even on a chain whose clock lags. In lock-step with rule 3, this is what makes rule 5 safe: a reservation must
/// outlive the window in which its signature can execute.
const FINALITY_SECONDS: u64 = 300;

/// Answer of `/verify`: the inner result is the verdict, the outer one our outage.
pub(crate) async fn verify(
    facilitator: &Arc<Facilitator>,
    request: &Request,
    payee: Option<&PaymentCheck>,
) -> Result<Result<Option<Promise>, Refusal>, Fault> {
    let now = clock::now();
    let margin = service_of(facilitator, request)?.policy.validity_margin_seconds;
    let (verified, _) = match judge(facilitator, request, payee, margin, now).await? {
        Ok(verified) => verified,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let terms = verified.terms();
    if !facilitator.reserve_on_verify {
        let held = facilitator.store.lookup(&terms.key).await?.is_some_and(|payment| holds(&payment, now));
        return Ok(if held { Err(already_pending()) } else { Ok(None) });
    }
    // In a task of its own, so that a caller that hangs up leaves no reservation half made. One that hangs up earlier leaves
    // nothing at all: not even for the moment in which it asks again.
    let reserving = {
        let (facilitator, terms) = (facilitator.clone(), terms.clone());
        let report = payee.and_then(PaymentCheck::report);
        facilitator.tasks.clone().spawn(async move {
            let reserved = facilitator.store.reserve(&terms, reserved_until(&terms), now).await?;
            Ok::<_, Fault>(match reserved {
                Reserve::Fresh(mut payment) => {
                    reached(Point::VerifyReserved);
                    note_payee(&facilitator, &mut payment, report).await;
                    Ok(Some(Promise::new(&facilitator, payment)))
                }
                Reserve::Same(_) | Reserve::Other(_) => Err(already_pending()),
            })
        })
    };
    reserving.await.map_err(|_| Fault::Internal)?
}

/// Stores the payee check's answer with the payment. What was decided on it is decided already, so a store that fails now
/// costs the record and not the promise.
pub(crate) async fn note_payee(facilitator: &Facilitator, payment: &mut Payment, report: Option<Value>) {
    let (None, Some(report)) = (&payment.payee, report) else { return };
    let report = report.to_string();
    if let Err(fault) = facilitator.store.note_payee(payment.id, &report).await {
        tracing::warn!(settlement_id = %payment.id, %fault, "the payee check's outcome was not stored");
    }
    reached(Point::PayeeNoted);
    payment.payee = Some(report);
}

/// What a lane offered to pay for gas at the block of the facts.
pub(crate) struct GasMoney {
    pub(crate) base_fee: u128,
    pub(crate) lane_balances: Vec<alloy_primitives::U256>,
}

/// The rules on fresh facts; nothing is written. `/settle` asks the same question again, of a payment that verify has
/// promised without a margin before the end of its window.
pub(crate) async fn judge(
    facilitator: &Facilitator,
    request: &Request,
    payee: Option<&PaymentCheck>,
    validity_margin_seconds: u64,
    now: UnixSeconds,
) -> Result<Result<(VerifiedPayment, GasMoney), Refusal>, Fault> {
    let service = service_of(facilitator, request)?;
    let policy = Policy { validity_margin_seconds, ..service.policy.clone() };
    if let Err(refusal) = rules::check_offline(request, &policy, now) {
        return Ok(Err(refusal));
    }
    let lanes = service.lane_addresses();
    if !lens::fits(request, &policy, &lanes) {
        let message = "paymentPayload.payload.signature is too long to be checked in one call";
        return Ok(Err(Refusal::new(Code::InvalidPayload, message)));
    }
    let reading = lens::read(&service.pool, request, &policy, &lanes, now);
    let reading = PaymentCheck::beside(payee, &facilitator.payee, reading).await?;
    for (lane, balance) in reading.lane_balances.iter().enumerate() {
        metrics::lane_balance(service, lane, *balance);
    }
    let gas_money = GasMoney { base_fee: reading.facts.block.base_fee, lane_balances: reading.lane_balances };
    // The clock is read again: a slow node must not let a window close unnoticed.
    let verified = rules::check(request, &reading.facts, &policy, now.max(clock::now()));
    Ok(match (verified, payee.and_then(PaymentCheck::refusal)) {
        (Ok(_), Some(refusal)) => Err(refusal),
        (verified, _) => verified.map(|verified| (verified, gas_money)),
    })
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
