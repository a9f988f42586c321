//! What a refusal means for a payment that may be promised.

use super::{Begun, Known, Patience, begun_by, known, looking};
use crate::{
    facilitator::Facilitator,
    fault::Fault,
    lane::outcome::{self, Chain, Verdict},
    metrics,
    network::NetworkService,
};
use quittance_protocol::{
    code::Code,
    payment::{fingerprint, replay_key, signature_digest},
    settlement::{Event, Evidence, Status},
    wire::{Refusal, Request},
};
use quittance_store::model::Payment;
use std::time::Duration;

/// How often it is looked again what has used a nonce. The log is searched for more rarely, if it is not there.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);

/// Refusals that come after the signature was proven and that speak of the chain: only then may the owner's reservation be
/// dropped. Anyone can send a wrong signature for a reserved nonce, and a payer can sign the same terms for a domain the
/// token does not have, to be free for a second promise. That the nonce is used says nothing of who was paid by it.
///
/// What came of running the call speaks of the signature in it, and a contract wallet can accept a second one that then
/// fails: it says nothing about the one that was promised. A token may even repeat the wallet's own words, so that a
/// lack of money, a pause and a deny list count as such as well. Told apart by their bytes: another spelling of the same
/// signature, or a promise of which no signature is known, keeps the promise, which costs a nonce until its window closes.
fn proves_nothing_executes(code: Code, same_signature: bool) -> bool {
    match code {
        Code::AssetNotDeployed | Code::Eip3009NotSupported => true,
        Code::InsufficientBalance
        | Code::TokenPaused
        | Code::AccountBlacklisted
        | Code::SimulationFailed
        | Code::TransferEventMismatch => same_signature,
        _ => false,
    }
}

/// Ends the reservation the refusal speaks of, if it does.
pub(super) async fn refuse(
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
    let says_that_it_ended = matches!(refusal.code, Code::NonceAlreadyUsed | Code::ValidBefore);
    if spent && says_that_it_ended && payment.terms.fingerprint == fingerprint {
        // How it ended says more, with the transaction, than that it ended. Not to a stranger: where it was the clock that said no,
        // no signature was asked for.
        return Ok(match begun_by(facilitator, request, &payment).await? {
            Begun::Refused(_) => Begun::Refused(refusal),
            begun => begun,
        });
    }
    if payment.terms.fingerprint != fingerprint || !payment.status.holds_key() {
        return Ok(Begun::Refused(refusal));
    }
    if payment.status != Status::Reserved {
        // A twin settled it while we were reading: "nonce used" would be about our own transaction.
        return Ok(begun_by(facilitator, request, &payment).await?.before_any_answer());
    }
    let same_signature =
        payment.terms.signature == Some(signature_digest(&request.payment, &request.requirement));
    let (event, evidence) = if proves_nothing_executes(refusal.code, same_signature) {
        let (reason, message) = (Some(refusal.code), Some(refusal.message.clone()));
        (Event::Refused, Evidence { reason, message, ..Evidence::default() })
    } else if matches!(refusal.code, Code::NonceAlreadyUsed | Code::ValidBefore)
        && let Some(found) = over_as_told(facilitator, service, &payment, refusal.code, patience).await?
    {
        found
    } else {
        return Ok(Begun::Refused(refusal));
    };
    let has_transaction = evidence.tx_hash.is_some();
    let ended = facilitator.store.transition(payment.id, payment.version, event, &evidence).await?;
    match ended {
        Some(payment) => {
            metrics::ended(service, payment.status);
            service.waiting.announce(payment.id);
            if !has_transaction {
                return Ok(Begun::Refused(refusal));
            }
            // The row says more than the refusal: which transaction it was, and that may be a success. No signature was asked for
            // where it was the clock that said no.
            Ok(begun_by(facilitator, request, &payment).await?.before_any_answer())
        }
        None => Ok(match known(facilitator, request, key, fingerprint, patience).await? {
            Known::Begun(begun) => begun.before_any_answer(),
            Known::Reserved(_) | Known::No => Begun::Refused(refusal),
        }),
    }
}

/// Where the transaction that has used a nonce may be told as a success, "used" alone decides nothing: it is looked for as long as
/// the caller waits.
async fn over_as_told(
    facilitator: &Facilitator,
    service: &NetworkService,
    payment: &Payment,
    code: Code,
    patience: Patience,
) -> Result<Option<(Event, Evidence)>, Fault> {
    let may_be_a_success = facilitator.accept_settled_elsewhere && code == Code::NonceAlreadyUsed;
    loop {
        let found = over(facilitator, service, payment, patience).await;
        if found.is_some() || !may_be_a_success {
            return Ok(found);
        }
        tokio::select! {
            biased;
            () = facilitator.stopping.cancelled() => return Err(Fault::Stopping),
            () = tokio::time::sleep_until(patience.wait) => return Err(Fault::Timeout),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// What became of a payment that was promised: somebody else has used its nonce, or nobody can any more, whoever asks. `None`: it
/// could not be read, or is not deep enough yet, and the promise stays.
async fn over(
    facilitator: &Facilitator,
    service: &NetworkService,
    payment: &Payment,
    patience: Patience,
) -> Option<(Event, Evidence)> {
    let look = async {
        let Some(chain) = Chain::read_proven(service).await? else { return Ok(None) };
        Ok(match outcome::of_reserved(service, &chain, payment).await? {
            Verdict::Final(event, evidence) => Some((event, evidence)),
            Verdict::StillAlive if chain.has_closed(&payment.terms) => {
                Some((Event::Refused, Evidence::outlived()))
            }
            Verdict::StillAlive | Verdict::Unknown => None,
        })
    };
    match looking(facilitator, patience, look).await {
        Ok(found) => found,
        Err(fault) => {
            tracing::warn!(settlement_id = %payment.id, %fault, "what became of a promise could not be read");
            None
        }
    }
}
