//! Handing out an outcome once: the lease one caller holds on a payment's answer, how it ends, and what else depends on
//! whether an answer arrived.
//!
//! What is said is recorded before it is written, and taken back when the caller was gone, so that the next call gets it.
//! If the process dies in between, or the store stays away, it counts as said, and the lease lapses in database time.

use crate::{
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    metrics,
};
use quittance_protocol::settlement::{Event, Evidence};
use quittance_store::model::{HolderId, KeyUse, KeyedAnswer, LastAnswer, Payment, SettlementId};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use uuid::Uuid;

/// Time from taking the lease to recording the answer; after a crash in between, the next caller waits this long.
const DECIDING: Duration = Duration::from_secs(2);
/// Time an answer may take from its record to the socket.
const ANSWERING: Duration = Duration::from_secs(9);

/// When what nobody was told of is taken back: at once, and again until the store has finished or dropped what it was writing (a
/// statement ends within 5 s) and is back from a short outage. Close together: once a lease has lapsed, whoever asks between the
/// store's return and the next try makes what was recorded final.
const TAKE_BACK_AFTER_MS: [u64; 17] = {
    let mut pauses = [2_000; 17];
    (pauses[0], pauses[1], pauses[2]) = (0, 500, 1_000);
    pauses
};

/// Why a promise is given up.
pub(crate) const UNTOLD: &str = "the caller of /verify was not told";

/// One request's claim on the answer of one payment. Dropping it gives the claim back with nothing said.
pub(crate) struct AnswerLease {
    facilitator: Arc<Facilitator>,
    id: SettlementId,
    holder: HolderId,
    held: bool,
}

impl fmt::Debug for AnswerLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerLease").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AnswerLease {
    /// Takes the claim, once there is something to say. `None`: another caller holds it, or was told more than `answers_seen`
    /// answers, so that this one is its twin.
    pub(crate) async fn take(
        facilitator: &Arc<Facilitator>,
        id: SettlementId,
        answers_seen: i64,
    ) -> Result<Option<Self>, Fault> {
        // Before the question: if this caller goes away while it is asked, the claim is given back all the same.
        let mut lease =
            Self { facilitator: facilitator.clone(), id, holder: HolderId(Uuid::new_v4()), held: true };
        lease.held = facilitator.store.take_answer(id, lease.holder, answers_seen, DECIDING).await?;
        if lease.held {
            reached(Point::AnswerLeased);
        }
        Ok(lease.held.then_some(lease))
    }

    /// Records what is about to be said, before a byte of it leaves, and keeps it under its idempotency keys if it has any.
    ///
    /// In a task of its own: a caller that hangs up must not leave the record half made and half taken back.
    pub(crate) async fn begin(
        self,
        says: LastAnswer,
        kept: Option<(Vec<KeyUse>, String)>,
    ) -> Result<Recorded, Fault> {
        let tasks = self.facilitator.tasks.clone();
        let recording = tasks.spawn(async move {
            let mut delivery = Delivery { lease: self, says, can_be_fetched: kept.is_some() };
            let lease = &delivery.lease;
            let (store, id, holder) = (&lease.facilitator.store, lease.id, lease.holder);
            // On an error it may be recorded or not. Dropping the delivery is right for both: under a key it stays as it
            // is, without one it is taken back.
            let recorded = match &kept {
                Some((keys, answer)) => {
                    store.begin_keyed_answer(id, holder, says, ANSWERING, keys, answer).await?
                }
                None if store.begin_answer(id, holder, says, ANSWERING).await? => KeyedAnswer::Begun,
                None => KeyedAnswer::NotHeld,
            };
            Ok(match recorded {
                KeyedAnswer::Begun => {
                    reached(Point::AnswerBegun);
                    Recorded::OnItsWay(delivery)
                }
                KeyedAnswer::NotHeld => {
                    delivery.lease.held = false;
                    Recorded::TakenOver
                }
                KeyedAnswer::KeyTaken => {
                    // Nothing was said: whoever asks next may have it.
                    delivery.can_be_fetched = false;
                    Recorded::KeyTaken
                }
            })
        });
        recording.await.map_err(|_| Fault::Internal)?
    }

    fn end(&mut self, delivered: bool) {
        if !std::mem::take(&mut self.held) {
            return;
        }
        let (facilitator, id, holder) = (self.facilitator.clone(), self.id, self.holder);
        self.facilitator.tasks.spawn(async move {
            reached(if delivered { Point::AnswerWritten } else { Point::AnswerLost });
            for pause in TAKE_BACK_AFTER_MS {
                let is_last = stops_within(&facilitator, pause).await;
                // By holder: nothing happens to the lease of somebody who has taken over. If no try succeeds it lapses by itself,
                // and what was begun counts as said.
                match facilitator.store.release_answer(id, holder, delivered).await {
                    Ok(_) => break,
                    Err(fault) => {
                        tracing::warn!(settlement_id = %id, %fault, "an answer lease is not released yet");
                    }
                }
                if is_last {
                    break;
                }
            }
            reached(if delivered { Point::AnswerReleased } else { Point::AnswerTakenBack });
            for service in facilitator.networks.values() {
                service.waiting.announce(id);
            }
        });
    }
}

impl Drop for AnswerLease {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// What became of an answer that was to be said.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// It may be written.
    OnItsWay(Delivery),
    /// Another caller has taken over, and this one must not answer.
    TakenOver,
    /// One of its keys belongs to another payment by now.
    KeyTaken,
}

/// An answer on its way to the socket. Dropped before it arrived, it is taken back.
#[derive(Debug)]
pub(crate) struct Delivery {
    lease: AnswerLease,
    says: LastAnswer,
    /// Stored under an idempotency key: its owner can fetch it any time, so it is said whatever becomes of this connection.
    can_be_fetched: bool,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.lease.end(self.can_be_fetched);
    }
}

impl Arrival for Delivery {
    fn arrived(mut self: Box<Self>) {
        metrics::delivered(match self.says {
            LastAnswer::Success => "success",
            LastAnswer::Pending => "pending",
        });
        self.lease.end(true);
    }

    fn lost(self: Box<Self>) {
        metrics::delivered("lost");
    }
}

/// A reservation whose caller is about to be told `isValid: true`. Dropped before that arrived, it is given up: a caller that
/// lost its connection must be able to ask again.
pub(crate) struct Promise {
    facilitator: Arc<Facilitator>,
    payment: Payment,
    told: bool,
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").field("id", &self.payment.id).finish_non_exhaustive()
    }
}

impl Promise {
    pub(crate) fn new(facilitator: &Arc<Facilitator>, payment: Payment) -> Self {
        Self { facilitator: facilitator.clone(), payment, told: false }
    }

    pub(crate) fn payment(&self) -> &Payment {
        &self.payment
    }
}

impl Arrival for Promise {
    fn arrived(mut self: Box<Self>) {
        self.told = true;
    }

    fn lost(self: Box<Self>) {
        metrics::delivered("lost");
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        reached(Point::PromiseLost);
        give_up(&self.facilitator, self.payment.id, self.payment.version, UNTOLD);
    }
}

/// Gives up, in the background, a reservation that nobody was told of: its caller must be able to ask again. There may be none
/// (yet): a store that did not answer may still be writing it.
pub(crate) fn give_up(facilitator: &Arc<Facilitator>, id: SettlementId, version: i64, why: &'static str) {
    let facilitator = facilitator.clone();
    facilitator.tasks.clone().spawn(async move {
        let evidence = Evidence { message: Some(why.into()), ..Evidence::default() };
        for pause in TAKE_BACK_AFTER_MS {
            let is_last = stops_within(&facilitator, pause).await;
            // By version: a settle that came in between keeps what it has taken.
            let ended = match facilitator.store.transition(id, version, Event::Refused, &evidence).await {
                Ok(Some(ended)) => {
                    if let Some(service) = facilitator.service(ended.terms.key.network) {
                        metrics::ended(service, ended.status);
                    }
                    break;
                }
                Ok(None) => facilitator.store.payment(id).await.map(|payment| payment.is_some()),
                Err(fault) => Err(fault),
            };
            match ended {
                Ok(true) => break,
                Ok(false) => {}
                Err(fault) => {
                    tracing::warn!(settlement_id = %id, %fault, "a reservation nobody was told of is not given up yet");
                }
            }
            if is_last {
                break;
            }
        }
        reached(Point::PromiseTakenBack);
    });
}

/// A pause, which a process that is to stop has no time for: it tries once more, and no more.
async fn stops_within(facilitator: &Facilitator, milliseconds: u64) -> bool {
    tokio::select! {
        biased;
        () = facilitator.stopping.cancelled() => true,
        () = tokio::time::sleep(Duration::from_millis(milliseconds)) => false,
    }
}

/// Something that depends on whether an answer reached its caller. Dropped undecided, it counts as lost.
pub(crate) trait Arrival: fmt::Debug + Send {
    /// The bytes reached the socket of a caller that is still there.
    fn arrived(self: Box<Self>);
    /// The caller was gone.
    fn lost(self: Box<Self>);
}

/// Answers handed to one connection and not yet flushed to its socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Mutex<Vec<Box<dyn Arrival>>>>);

impl Outbox {
    /// The connection took the answer's bytes into its buffer.
    pub(crate) fn push(&self, arrival: Box<dyn Arrival>) {
        self.lock().push(arrival);
    }

    /// Everything buffered was written.
    pub(crate) fn flushed(&self) {
        self.take().into_iter().for_each(Arrival::arrived);
    }

    /// The connection ended, or the caller had closed it: whatever was not flushed was not said.
    pub(crate) fn lost(&self) {
        self.take().into_iter().for_each(Arrival::lost);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn take(&self) -> Vec<Box<dyn Arrival>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn Arrival>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
