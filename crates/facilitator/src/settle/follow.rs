//! Who is told what becomes of a payment, and when.

use super::{Found, Patience};
use crate::{
    answer::AnswerLease, facilitator::Facilitator, fault::Fault, lane::outcome, network::NetworkService,
};
use alloy_primitives::B256;
use quittance_evm::watch::{self, ReceiptRead};
use quittance_protocol::{code::Code, settlement::Status, wire::Refusal};
use quittance_store::model::{LastAnswer, Payment};
use std::{sync::Arc, time::Duration};

/// How often a waiting caller looks at the row even if this process moved nothing: another one may have.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);

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
        let mut is_undone = false;
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
            Status::Failed => return Ok(Outcome::Failed { payment, is_old: found.is_final }),
            Status::SettledElsewhere if !is_success(facilitator, &payment) => {
                return Ok(Outcome::Failed { payment, is_old: found.is_final });
            }
            Status::Settled | Status::SettledElsewhere
                if payment.last_answer == Some(LastAnswer::Success) =>
            {
                if !payment.answer_in_flight {
                    return Ok(Outcome::Duplicate(payment));
                }
                // On its way to another caller: if that one is gone, this one is next.
                facilitator.store.lapse_answer(id).await?;
            }
            Status::Settled | Status::SettledElsewhere => {
                if found.is_final {
                    is_undone = was_undone(service, &payment).await;
                    let row = facilitator.store.payment(id).await?.ok_or(Fault::Internal)?;
                    if row.tx_hash != payment.tx_hash {
                        // Signed again meanwhile: it is about that transaction.
                        continue;
                    }
                }
                if !is_undone && let Some(lease) = AnswerLease::take(facilitator, id, answers_seen).await? {
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
            return out_of_time(facilitator, found, is_undone).await;
        }
    }
}

/// Whether who asks first is told a success: the payee was paid, by us, or by somebody else where the operator accepts that. What
/// was told as one stays one when the operator accepts it no longer.
fn is_success(facilitator: &Facilitator, payment: &Payment) -> bool {
    let was_told = payment.last_answer == Some(LastAnswer::Success);
    match payment.status {
        Status::Settled => true,
        Status::SettledElsewhere => facilitator.accept_settled_elsewhere || was_told,
        Status::Reserved | Status::Signed | Status::Mined | Status::Failed | Status::Refused => false,
    }
}

/// Whether the chain has taken back an outcome that ended a payment a while ago and that nobody was told yet: its transaction is not
/// there, or has not paid, and the authorization is unused. What cannot be read stands, and so does what was paid in another way.
async fn was_undone(service: &NetworkService, payment: &Payment) -> bool {
    let hashes: Vec<B256> = payment.tx_hash.into_iter().collect();
    match watch::receipts(&service.pool, &hashes).await.as_deref() {
        Ok([ReceiptRead::Found(receipt)]) if outcome::pays(&payment.terms, receipt) => {
            outcome::is_deep(service, receipt).await.is_ok_and(|is_deep| !is_deep)
        }
        Ok([ReceiptRead::Found(_) | ReceiptRead::Absent]) => {
            is_unused(service, payment).await.unwrap_or(false)
        }
        _ => false,
    }
}

async fn is_unused(service: &NetworkService, payment: &Payment) -> Result<bool, Fault> {
    let key = &payment.terms.key;
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    let head = service.read_head().await?;
    Ok(!watch::authorization_state(&service.pool, token, authorizer, nonce, &head).await?)
}

/// The wait is over: one caller may be told what stands; to the others it is somebody else's payment.
async fn out_of_time(
    facilitator: &Arc<Facilitator>,
    found: Found,
    is_undone: bool,
) -> Result<Outcome, Fault> {
    let payment = Box::new(facilitator.store.payment(found.id).await?.ok_or(Fault::Internal)?);
    match payment.status {
        Status::Reserved => return Err(Fault::Timeout),
        Status::Refused | Status::Failed => {
            return Ok(Outcome::Failed { payment, is_old: found.is_final });
        }
        Status::SettledElsewhere if !is_success(facilitator, &payment) => {
            return Ok(Outcome::Failed { payment, is_old: found.is_final });
        }
        Status::Signed | Status::Mined | Status::Settled | Status::SettledElsewhere => {}
    }
    let Some(lease) = AnswerLease::take(facilitator, found.id, found.answers).await? else {
        return Ok(Outcome::Duplicate(payment));
    };
    Ok(match payment.status {
        // It became final this very moment.
        Status::Settled | Status::SettledElsewhere if !is_undone => Outcome::Success(payment, lease),
        _ => Outcome::Pending(payment, lease),
    })
}
