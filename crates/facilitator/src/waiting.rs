//! Callers that wait for payments of this process, woken one payment at a time: a crowd that waits for its own payments must
//! not look at all of them whenever one moves.

use quittance_store::model::SettlementId;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Who waits for which payment.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<HashMap<SettlementId, watch::Sender<()>>>);

/// One caller's place. Dropped, it is forgotten.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    waiting: &'a Waiting,
    id: SettlementId,
    moved: watch::Receiver<()>,
}

impl Waiting {
    /// From now on, every announcement of this payment wakes the caller.
    pub(crate) fn wait_for(&self, id: SettlementId) -> Place<'_> {
        let moved = self.lock().entry(id).or_insert_with(|| watch::Sender::new(())).subscribe();
        Place { waiting: self, id, moved }
    }

    /// The payment's row changed.
    pub(crate) fn announce(&self, id: SettlementId) {
        if let Some(sender) = self.lock().get(&id) {
            sender.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SettlementId, watch::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// The payment moved since the last time this was asked.
    pub(crate) async fn moved(&mut self) {
        // The sender lives as long as this place does.
        let _ = self.moved.changed().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        // This place still counts as one receiver.
        if waiting.get(&self.id).is_some_and(|sender| sender.receiver_count() <= 1) {
            waiting.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use uuid::Uuid;

    #[test]
    fn a_payment_wakes_its_own_callers_and_is_forgotten_with_the_last() {
        let waiting = Waiting::default();
        let (one, other) = (SettlementId(Uuid::from_u128(1)), SettlementId(Uuid::from_u128(2)));
        let (mut first, mut second, mut stranger) =
            (waiting.wait_for(one), waiting.wait_for(one), waiting.wait_for(other));
        waiting.announce(one);
        assert!(first.moved().now_or_never().is_some());
        assert!(second.moved().now_or_never().is_some());
        assert!(second.moved().now_or_never().is_none(), "once for each announcement");
        assert!(stranger.moved().now_or_never().is_none());
        drop(first);
        waiting.announce(one);
        assert!(second.moved().now_or_never().is_some());
        drop((second, stranger));
        assert!(waiting.lock().is_empty());
    }
}
