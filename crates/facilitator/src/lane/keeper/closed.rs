//! Closed slots, watched for a while: whatever the depth at which outcomes are believed, a deeper reorganisation can undo them.
//!
//! The nonce of a lane's newest slot is looked at: a chain that has lost any of them waits for it, or for a lower one. If it has
//! not, what the slots claim is looked at as well. The looks come ever more rarely and then end, so that a quiet server soon
//! asks nothing.

mod undone;

use super::Keeper;
use crate::{
    clock,
    fault::Fault,
    fault_point::{Point, reached},
    lane::{plan::Action, room::OPEN_SLOTS_PER_LANE_MAX},
    metrics::{self, Happened},
};
use alloy_primitives::Address;
use quittance_evm::watch;
use quittance_protocol::{settlement::Status, units::LaneNonce};
use quittance_store::model::{AttemptKind, ClosedSlot, LaneId, OpenSlot, OpenWork, SettlementId};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};
use tokio::time::Instant;

/// The first look comes so long after a slot was closed, each later one after twice the time of the one before.
const FIRST_LOOK: Duration = Duration::from_secs(4);

/// A lane with open slots is asked about all the time, and shows by those what it has lost; what closed ones claim is looked at so
/// often.
const BUSY_LOOK: Duration = Duration::from_secs(8);

/// When each lane is to be looked at. Only memory: a process that starts looks once.
#[derive(Debug, Default)]
pub(crate) struct ClosedSlots {
    watches: HashMap<Address, Watch>,
    /// Since when lanes have open slots, or when they were looked at last.
    busy: HashMap<Address, Instant>,
    /// Payments that were found undone, for good or for now.
    undone: HashSet<SettlementId>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    nonce: LaneNonce,
    /// Of the slot, at the last look at the store.
    age: Duration,
    next_look: Duration,
    seems_lost: bool,
}

impl ClosedSlots {
    /// Whether to ask the chain about a lane's newest slot now. `watched_for`: no look comes later than that.
    pub(crate) fn is_due(&mut self, slot: &ClosedSlot, watched_for: Duration) -> bool {
        let age = slot.closed_ago;
        let new = Watch { nonce: slot.lane_nonce, age, next_look: FIRST_LOOK, seems_lost: false };
        let watch = self.watches.entry(slot.lane.address).or_insert(new);
        if watch.nonce != slot.lane_nonce || age < watch.age {
            *watch = new;
        }
        watch.age = age;
        watch.next_look <= watched_for && watch.next_look <= age
    }

    /// Which of the lanes that have open slots are to be looked at now.
    fn busy_and_due(&mut self, open: &OpenWork) -> Vec<LaneId> {
        let now = clock::instant();
        let lanes: BTreeSet<LaneId> = open.slots.iter().map(|slot| slot.lane).collect();
        self.busy.retain(|address, _| lanes.iter().any(|lane| lane.address == *address));
        let is_due = |lane: &LaneId| {
            let since = self.busy.entry(lane.address).or_insert(now);
            let is_due = now.duration_since(*since) >= BUSY_LOOK;
            if is_due {
                *since = now;
            }
            is_due
        };
        lanes.into_iter().filter(is_due).collect()
    }

    /// Notes a look. Returns whether the slot is lost: seen twice, since one look can be a node's that is a little behind.
    pub(crate) fn looked(&mut self, lane: Address, seems_lost: bool) -> bool {
        let Some(watch) = self.watches.get_mut(&lane) else { return false };
        let is_lost = seems_lost && watch.seems_lost;
        watch.seems_lost = seems_lost && !is_lost;
        while !watch.seems_lost && watch.next_look <= watch.age {
            watch.next_look = watch.next_look.saturating_mul(2);
        }
        is_lost
    }
}

/// What a look at a lane has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The nonce that the chain waits for.
    next: LaneNonce,
    signed_again: bool,
}

impl Keeper<'_> {
    /// Looks whether the chain has lost what was closed, in lanes without open slots: in the others the open ones show it, but for
    /// what closed ones claim. Opens
    /// again what is lost, signs again what is undone, and returns whether there was anything.
    pub(super) async fn watch_closed(&mut self, work: &OpenWork) -> Result<bool, Fault> {
        let (store, service) = (&self.facilitator.store, self.service);
        let mut opened = self.watch_busy(work).await?;
        for slot in store.newest_closed(service.network()).await? {
            let is_open = work.slots.iter().any(|open| open.lane == slot.lane);
            if is_open || !self.closed.is_due(&slot, self.facilitator.reorg_watch) {
                continue;
            }
            if !self.hold_lease().await? {
                self.closed.looked(slot.lane.address, false);
                continue;
            }
            let seen = match self.look_at(&slot).await {
                Ok(seen) => seen,
                // The next pass looks again.
                Err(Fault::Rpc(fault)) => {
                    tracing::debug!(network = %service.network(), %fault, "closed slots could not be looked at");
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            opened |= seen.signed_again;
            let next = seen.next;
            if !self.closed.looked(slot.lane.address, next <= slot.lane_nonce) {
                continue;
            }
            for nonce in (next.0..=slot.lane_nonce.0).take(OPEN_SLOTS_PER_LANE_MAX) {
                opened |= self.reopen(&slot.lane, LaneNonce(nonce)).await?;
            }
        }
        Ok(opened)
    }

    async fn watch_busy(&mut self, work: &OpenWork) -> Result<bool, Fault> {
        let watched_for = self.facilitator.reorg_watch;
        let mut signed_again = false;
        for lane in self.closed.busy_and_due(work) {
            if watched_for.is_zero() || !self.hold_lease().await? {
                continue;
            }
            match self.look_at_claims(&lane, watched_for).await {
                Ok(signed) => signed_again |= signed,
                Err(Fault::Rpc(fault)) => {
                    tracing::debug!(network = %lane.network, %fault, "closed slots could not be looked at");
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(signed_again)
    }

    async fn look_at(&mut self, newest: &ClosedSlot) -> Result<Seen, Fault> {
        let next = watch::mined_nonce_anywhere(&self.service.pool, newest.lane.address).await?;
        // What is lost is opened again first; it is closed anew, and then looked at anew.
        let within = newest.closed_ago.saturating_add(self.facilitator.reorg_watch);
        let signed_again = next > newest.lane_nonce && self.look_at_claims(&newest.lane, within).await?;
        Ok(Seen { next, signed_again })
    }

    /// A slot of ours that a reorg has undone: its bytes bring the money back as well as the nonce.
    pub(super) async fn reopen(&self, lane: &LaneId, nonce: LaneNonce) -> Result<bool, Fault> {
        let opened = self.facilitator.store.reopen_slot(lane, nonce).await?;
        if opened {
            reached(Point::SlotReopened);
            tracing::warn!(network = %self.service.network(), nonce = nonce.0, "the chain has lost a transaction that was final; sending it again");
            metrics::happened(self.service, Happened::Reorg);
        }
        Ok(opened)
    }
}

/// What is sent in a slot that was opened again, in place of its newest bytes: those that settled its payment, or nothing at all
/// where the payment ended otherwise. What was told to have failed must not move money afterwards.
pub(crate) fn instead_of(slot: &OpenSlot, action: Action) -> Action {
    let (Action::Send(index), Some(payment)) = (&action, &slot.payment) else { return action };
    if !payment.status.is_terminal() {
        return action;
    }
    let settled_here = slot.attempts.iter().position(|attempt| Some(attempt.signed.hash) == payment.tx_hash);
    match settled_here {
        Some(index) if payment.status == Status::Settled => Action::Send(index),
        _ if slot.attempts.get(*index).is_some_and(|attempt| attempt.signed.kind == AttemptKind::Payment) => {
            Action::Cancel
        }
        _ => action,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quittance_protocol::units::Network;

    const WATCHED_FOR: Duration = Duration::from_secs(900);

    fn slot(nonce: u64, closed_ago: u64) -> ClosedSlot {
        let lane = LaneId { network: Network::from_chain_id(1).unwrap(), address: Address::ZERO };
        ClosedSlot { lane, lane_nonce: LaneNonce(nonce), closed_ago: Duration::from_secs(closed_ago) }
    }

    /// Ages at which a keeper that passes every three seconds looks.
    fn looks(closed: &mut ClosedSlots, ages: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut looks = Vec::new();
        for age in ages {
            if closed.is_due(&slot(0, age), WATCHED_FOR) {
                assert!(!closed.looked(Address::ZERO, false));
                looks.push(age);
            }
        }
        looks
    }

    #[test]
    fn looks_become_rare_and_end() {
        let mut closed = ClosedSlots::default();
        let looked = looks(&mut closed, (0..10_000).step_by(3));
        assert_eq!(looked, [6, 9, 18, 33, 66, 129, 258, 513]);
    }

    #[test]
    fn a_process_that_starts_looks_once() {
        assert_eq!(looks(&mut ClosedSlots::default(), (5_000..20_000).step_by(3)), [5_000]);
        assert!(!ClosedSlots::default().is_due(&slot(0, 5_000), Duration::ZERO), "not watched at all");
    }

    #[test]
    fn a_slot_that_is_closed_anew_is_watched_anew() {
        let mut closed = ClosedSlots::default();
        looks(&mut closed, (0..2_000).step_by(3));
        assert_eq!(looks(&mut closed, (0..7).step_by(3)), [6]);
        assert!(closed.is_due(&slot(1, 4), WATCHED_FOR), "another slot");
    }

    #[test]
    fn a_slot_is_lost_on_second_sight() {
        let mut closed = ClosedSlots::default();
        assert!(closed.is_due(&slot(0, 4), WATCHED_FOR));
        assert!(!closed.looked(Address::ZERO, true));
        assert!(closed.is_due(&slot(0, 5), WATCHED_FOR), "at once again");
        assert!(closed.looked(Address::ZERO, true));
        let mut closed = ClosedSlots::default();
        assert!(closed.is_due(&slot(0, 4), WATCHED_FOR));
        assert!(!closed.looked(Address::ZERO, true));
        assert!(!closed.looked(Address::ZERO, false), "a node was behind");
        assert!(!closed.is_due(&slot(0, 7), WATCHED_FOR));
    }
}
