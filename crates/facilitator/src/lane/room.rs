//! Room in the lanes: how many unmined transactions there may be, in all and for one payer.
//!
//! A burst of one payer must not fill every lane: it may take half of the room, and the rest of the burst waits its turn
//! while others pass. Who finds no room until the end of its wait is told to try again; nothing was reserved for it.

use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::Address;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Most unmined slots of one lane: nodes keep only so many transactions of one sender, and all of them should fit into
/// one block.
pub(crate) const OPEN_SLOTS_PER_LANE_MAX: usize = 256;

/// How often room is looked for if nothing says that some was made.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Counts by payer.
#[derive(Debug, Default)]
pub(crate) struct Room(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Signed and not final, as the store last said, plus what was signed since.
    open: HashMap<Address, usize>,
    /// On their way to a signature.
    entering: HashMap<Address, usize>,
}

/// A place among those on their way to a signature; given back when dropped.
#[derive(Debug)]
pub(crate) struct Entering<'a> {
    room: &'a Room,
    payer: Address,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        let mut counts = self.room.lock();
        if let Some(count) = counts.entering.get_mut(&self.payer) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.entering.remove(&self.payer);
            }
        }
    }
}

impl Room {
    /// What the store says is open.
    pub(crate) fn set_open(&self, open: HashMap<Address, usize>) {
        self.lock().open = open;
    }

    /// One more was signed.
    pub(crate) fn signed(&self, payer: Address) {
        *self.lock().open.entry(payer).or_default() += 1;
    }

    fn try_enter(&self, payer: Address, lanes: usize) -> Option<Entering<'_>> {
        let total_max = lanes.saturating_mul(OPEN_SLOTS_PER_LANE_MAX);
        let mut counts = self.lock();
        let total: usize = counts.open.values().chain(counts.entering.values()).sum();
        let of = |map: &HashMap<Address, usize>| map.get(&payer).copied().unwrap_or_default();
        let own = of(&counts.open) + of(&counts.entering);
        if total >= total_max || own >= total_max / 2 {
            return None;
        }
        *counts.entering.entry(payer).or_default() += 1;
        Some(Entering { room: self, payer })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for room, at most until `deadline`.
pub(crate) async fn enter(
    service: &NetworkService,
    payer: Address,
    deadline: Instant,
) -> Result<Entering<'_>, Fault> {
    let mut passes = service.passes.subscribe();
    loop {
        if let Some(entering) = service.room.try_enter(payer, service.lanes.len()) {
            return Ok(entering);
        }
        let looked = tokio::time::timeout_at(deadline, async {
            tokio::select! {
                _ = passes.changed() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        });
        if looked.await.is_err() {
            return Err(Fault::Busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_payer_takes_half_and_others_still_pass() {
        let room = Room::default();
        let (greedy, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let half = OPEN_SLOTS_PER_LANE_MAX / 2;
        let held: Vec<_> = (0..half).map(|_| room.try_enter(greedy, 1).unwrap()).collect();
        assert!(room.try_enter(greedy, 1).is_none());
        assert!(room.try_enter(other, 1).is_some());
        drop(held);
        assert!(room.try_enter(greedy, 1).is_some());
    }

    #[test]
    fn what_is_signed_counts_until_the_store_says_it_is_final() {
        let room = Room::default();
        let payer = Address::repeat_byte(1);
        (0..OPEN_SLOTS_PER_LANE_MAX / 2).for_each(|_| room.signed(payer));
        assert!(room.try_enter(payer, 1).is_none());
        room.set_open(HashMap::new());
        assert!(room.try_enter(payer, 1).is_some());
    }
}
