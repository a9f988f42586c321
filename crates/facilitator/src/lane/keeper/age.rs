//! How long payments have been on their way, as `quittance payments stuck` counts: from the first signature, whatever was signed
//! since, in database time. A promise of `/verify` that nobody has asked to settle is not on its way.

use crate::{clock, fault::Fault};
use quittance_protocol::settlement::Status;
use quittance_store::{
    Store,
    model::{OpenWork, Payment, SettlementId},
};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// How old payments were, and when that was read, whose open slot does not tell: they were signed again, or have none.
#[derive(Debug, Default)]
pub(super) struct FirstSigned(HashMap<SettlementId, (Duration, Instant)>);

impl FirstSigned {
    /// The age of the oldest payment that is not final; zero if there is none.
    pub(super) async fn oldest(&mut self, store: &dyn Store, work: &OpenWork) -> Result<Duration, Fault> {
        let in_slots =
            work.slots.iter().filter_map(|slot| Some((slot.payment.as_ref()?, slot.signed_ago.first())));
        let without_slot = work.orphans.iter().map(|payment| (payment, None));
        let mut oldest = Duration::ZERO;
        let mut untold = Vec::new();
        for (payment, signed_ago) in in_slots.chain(without_slot) {
            match signed_ago {
                _ if payment.status.is_terminal() => {}
                Some(signed_ago) if was_signed_once(payment) => oldest = oldest.max(*signed_ago),
                _ => untold.push(payment.id),
            }
        }
        self.0.retain(|id, _| untold.contains(id));
        if untold.iter().any(|id| !self.0.contains_key(id)) {
            self.read(store, &untold).await?;
        }
        Ok(self.0.values().map(|(age, read_at)| *age + read_at.elapsed()).fold(oldest, Duration::max))
    }

    async fn read(&mut self, store: &dyn Store, untold: &[SettlementId]) -> Result<(), Fault> {
        let read_at = clock::instant();
        let unfinished = store.stuck(Duration::ZERO, u32::MAX).await?;
        let ages = unfinished.into_iter().map(|stuck| (stuck.payment.id, (stuck.signed_ago, read_at)));
        self.0 = ages.filter(|(id, _)| untold.contains(id)).collect();
        Ok(())
    }
}

/// Whether its first slot is the one it has: every transition counts, and no more have been than lead to where it stands.
fn was_signed_once(payment: &Payment) -> bool {
    let transitions = if payment.status == Status::Signed { 1 } else { 2 };
    payment.version <= Payment::FIRST_VERSION + transitions
}
