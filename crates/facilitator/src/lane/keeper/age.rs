//! How long payments have been on their way, as `quittance payments stuck` counts: from the first signature, whatever was signed
//! since. A promise of `/verify` that nobody has asked to settle is not on its way.

use crate::{clock, fault::Fault};
use quittance_protocol::settlement::Status;
use quittance_store::{
    Store,
    model::{OpenWork, Payment, SettlementId},
};
use std::{collections::HashMap, time::Duration};

/// When payments were first signed whose open slot does not tell: they were signed again, or have none.
#[derive(Debug, Default)]
pub(super) struct FirstSigned(HashMap<SettlementId, i64>);

impl FirstSigned {
    /// The age of the oldest payment that is not final; zero if there is none.
    pub(super) async fn oldest(&mut self, store: &dyn Store, work: &OpenWork) -> Result<Duration, Fault> {
        let in_slots =
            work.slots.iter().filter_map(|slot| Some((slot.payment.as_ref()?, slot.attempts.first())));
        let without_slot = work.orphans.iter().map(|payment| (payment, None));
        let mut known = HashMap::new();
        let mut oldest = Duration::ZERO;
        for (payment, attempt) in in_slots.chain(without_slot) {
            if payment.status.is_terminal() {
                continue;
            }
            let first = if let (Some(attempt), true) = (attempt, was_signed_once(payment)) {
                attempt.created_at
            } else {
                let first = match self.0.get(&payment.id) {
                    Some(first) => *first,
                    None => first_signed(store, payment).await?,
                };
                known.insert(payment.id, first);
                first
            };
            oldest = oldest.max(clock::since(first));
        }
        self.0 = known;
        Ok(oldest)
    }
}

/// Whether its first slot is the one it has: every transition counts, and no more have been than lead to where it stands.
fn was_signed_once(payment: &Payment) -> bool {
    let transitions = if payment.status == Status::Signed { 1 } else { 2 };
    payment.version <= Payment::FIRST_VERSION + transitions
}

async fn first_signed(store: &dyn Store, payment: &Payment) -> Result<i64, Fault> {
    let attempts = store.attempts(payment.id).await?;
    let first = attempts.iter().map(|attempt| attempt.created_at).min();
    Ok(first.unwrap_or(payment.created_at))
}
