//! Room in the lanes: how many unmined transactions there may be, in all and for one payer.
//!
//! A burst of one payer must not fill every lane: it may take half of the room, and the rest of the burst waits its turn
//! while others pass. It must not keep nodes and store busy for everybody else either: only a few of one payer's payments are
//! looked at at the same time. Who finds no room until the end of its wait is told to try again; nothing was reserved for it.
//! How many may wait is bounded with everything else that a payer has in flight (`http/places.rs`).

use super::tally::{Coming, Tally};
use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::Address;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Most unmined slots of one lane: nodes keep only so many transactions of one sender, and all of them should fit into
/// one block.
pub(crate) const OPEN_SLOTS_PER_LANE_MAX: usize = 256;

/// Payments of one payer on their way to a signature: what another payer's payment finds before it.
const AT_ONCE_PER_PAYER_MAX: usize = 32;

/// How often room is looked for if nothing says that some was made.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// One queue for each payer that has any payment under way, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<HashMap<Address, Weak<Semaphore>>>);

impl Queues {
    pub(crate) fn of(&self, payer: Address, at_once: usize) -> Arc<Semaphore> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&payer).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Semaphore::new(at_once));
        queues.insert(payer, Arc::downgrade(&queue));
        queue
    }
}

/// A place in the room, to be given back unless something is stored there.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    /// Others were before it.
    pub(crate) has_waited: bool,
    coming: Coming<'a>,
    _turn: OwnedSemaphorePermit,
}

impl Entered<'_> {
    /// The payment is signed and stored.
    pub(crate) fn stored(self) {
        self.coming.stored();
    }
}

/// Waits for room, at most until `deadline`. Whoever is told to stop answers its caller instead.
pub(crate) async fn enter<'a>(
    service: &'a NetworkService,
    payer: Address,
    deadline: Instant,
    stopping: &CancellationToken,
) -> Result<Entered<'a>, Fault> {
    tokio::select! {
        biased;
        entered = wait(service, payer) => entered,
        () = stopping.cancelled() => Err(Fault::Stopping),
        () = tokio::time::sleep_until(deadline) => Err(Fault::Busy),
    }
}

/// Every lane is full by our count, which is never too low: waits until it may have been taken anew.
pub(crate) async fn pause(deadline: Instant, stopping: &CancellationToken) -> Result<(), Fault> {
    tokio::select! {
        biased;
        () = stopping.cancelled() => Err(Fault::Stopping),
        () = tokio::time::sleep_until(deadline) => Err(Fault::Busy),
        () = tokio::time::sleep(LOOK_EVERY) => Ok(()),
    }
}

async fn wait(service: &NetworkService, payer: Address) -> Result<Entered<'_>, Fault> {
    let queue = service.queues.of(payer, AT_ONCE_PER_PAYER_MAX);
    let (turn, mut has_waited) = match queue.clone().try_acquire_owned() {
        Ok(turn) => (turn, false),
        Err(_) => (queue.acquire_owned().await.map_err(|_| Fault::Internal)?, true),
    };
    let mut passes = service.passes.subscribe();
    loop {
        if let Some(coming) = try_enter(&service.open_by_payer, payer, service.lanes.len()) {
            return Ok(Entered { has_waited, coming, _turn: turn });
        }
        has_waited = true;
        tokio::select! {
            _ = passes.changed() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn try_enter(open: &Tally, payer: Address, lanes: usize) -> Option<Coming<'_>> {
    let total_max = lanes.saturating_mul(OPEN_SLOTS_PER_LANE_MAX);
    open.one_more(payer, |own, total| total < total_max && own < total_max / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_payer_takes_half_and_others_still_pass() {
        let open = Tally::default();
        let (greedy, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let half = OPEN_SLOTS_PER_LANE_MAX / 2;
        let held: Vec<_> = (0..half).map(|_| try_enter(&open, greedy, 1).unwrap()).collect();
        assert!(try_enter(&open, greedy, 1).is_none());
        assert!(try_enter(&open, other, 1).is_some());
        drop(held);
        assert!(try_enter(&open, greedy, 1).is_some());
    }

    #[test]
    fn all_together_take_no_more_than_there_is() {
        let open = Tally::default();
        let payers: Vec<_> = (0..4).map(Address::repeat_byte).collect();
        let held: Vec<_> = payers
            .iter()
            .cycle()
            .take(2 * OPEN_SLOTS_PER_LANE_MAX)
            .map(|payer| try_enter(&open, *payer, 2).unwrap())
            .collect();
        assert!(try_enter(&open, Address::repeat_byte(9), 2).is_none());
        drop(held);
    }

    #[test]
    fn what_is_stored_counts_until_the_store_says_it_is_final() {
        let open = Tally::default();
        let payer = Address::repeat_byte(1);
        (0..OPEN_SLOTS_PER_LANE_MAX / 2).for_each(|_| try_enter(&open, payer, 1).unwrap().stored());
        assert!(try_enter(&open, payer, 1).is_none());
        open.asking();
        open.answered([].into());
        assert!(try_enter(&open, payer, 1).is_some());
    }

    #[test]
    fn a_queue_lasts_as_long_as_anybody_is_in_it() {
        let queues = Queues::default();
        let (greedy, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let take = |payer| queues.of(payer, AT_ONCE_PER_PAYER_MAX).try_acquire_owned().ok();
        let mut turns: Vec<_> = std::iter::from_fn(|| take(greedy)).collect();
        assert_eq!(turns.len(), AT_ONCE_PER_PAYER_MAX);
        assert!(take(other).is_some());
        turns.pop();
        turns.extend(take(greedy));
        assert_eq!(turns.len(), AT_ONCE_PER_PAYER_MAX);
        drop(turns);
        assert!(take(other).is_some());
        assert_eq!(queues.0.lock().unwrap().len(), 1, "nobody is left in the first queue");
    }
}
