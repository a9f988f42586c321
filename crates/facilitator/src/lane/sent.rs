//! Sending, and what this process remembers of it.

use crate::{
    clock,
    fault_point::{Point, reached},
    network::NetworkService,
};
use alloy_primitives::B256;
use quittance_evm::send::{SendOutcome, send, send_again};
use quittance_store::model::Attempt;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// A mark of something that is not open is kept this long: it may be about to be stored.
const KEPT: Duration = Duration::from_secs(6);

/// What this process knows about sent attempts. Only memory: losing it means sending the same bytes once more.
#[derive(Debug, Default)]
pub(crate) struct Sent(Mutex<HashMap<B256, SentMark>>);

#[derive(Clone, Copy, Debug)]
pub(super) struct SentMark {
    pub(super) at: Instant,
    pub(super) underpriced: bool,
    /// See [`super::plan::AttemptView::unheard`].
    pub(super) unheard: bool,
    /// See [`super::plan::AttemptView::absent_from`].
    pub(super) absent_from: Option<u64>,
}

impl Sent {
    /// To be called before the bytes go out.
    pub(crate) fn mark(&self, hash: B256) {
        let mark = SentMark { at: clock::instant(), underpriced: false, unheard: false, absent_from: None };
        self.lock().insert(hash, mark);
    }

    fn mark_unheard(&self, hash: B256) {
        self.lock().entry(hash).and_modify(|mark| mark.unheard = true);
    }

    fn mark_underpriced(&self, hash: B256) {
        self.lock().entry(hash).and_modify(|mark| mark.underpriced = true);
    }

    /// Not mined up to this block. The first that is known stays until the bytes are sent again.
    pub(super) fn mark_absent(&self, hash: B256, block: u64) {
        self.lock().entry(hash).and_modify(|mark| mark.absent_from = mark.absent_from.or(Some(block)));
    }

    pub(super) fn get(&self, hash: &B256) -> Option<SentMark> {
        self.lock().get(hash).copied()
    }

    pub(super) fn keep_only(&self, open: &HashSet<B256>) {
        self.lock().retain(|hash, mark| open.contains(hash) || mark.at.elapsed() < KEPT);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<B256, SentMark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first send of an attempt.
pub(crate) async fn send_attempt(service: &NetworkService, attempt: &Attempt) -> SendOutcome {
    service.sent.mark(attempt.signed.hash);
    note_sent(service, attempt, send(&service.pool, &attempt.signed.raw).await)
}

/// The same bytes once more, to every endpoint.
pub(crate) async fn send_attempt_again(service: &NetworkService, attempt: &Attempt) -> SendOutcome {
    service.sent.mark(attempt.signed.hash);
    note_sent(service, attempt, send_again(&service.pool, &attempt.signed.raw).await)
}

/// Notes what the nodes think. Whatever they think, the bytes may be in the world.
fn note_sent(service: &NetworkService, attempt: &Attempt, outcome: SendOutcome) -> SendOutcome {
    let hash = attempt.signed.hash;
    reached(Point::Sent);
    tracing::debug!(%hash, nonce = attempt.lane_nonce.0, ?outcome, "sent");
    match outcome {
        SendOutcome::Underpriced => service.sent.mark_underpriced(hash),
        SendOutcome::InsufficientFunds => {
            tracing::warn!(network = %service.network(), "a signer cannot pay for gas; its transactions wait for funds");
        }
        SendOutcome::FeeAboveCap => {
            tracing::warn!(network = %service.network(), "no node takes fees this high; raise the cap of one (geth: --rpc.txfeecap)");
        }
        SendOutcome::GasLimit => {
            tracing::warn!(network = %service.network(), "no node takes a transaction of this gas limit");
        }
        SendOutcome::NonceConsumed | SendOutcome::NonceTooHigh => {
            service.doubt.store(true, Ordering::Release);
        }
        SendOutcome::Unknown => service.sent.mark_unheard(hash),
        SendOutcome::Accepted | SendOutcome::AlreadyKnown | SendOutcome::PoolFull => {}
    }
    outcome
}
