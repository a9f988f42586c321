//! One keeper per network sees every signed transaction through: receipts, rebroadcast, replacement, holes, recovery.
//!
//! Recovery after a crash is the same pass as any other: rows in, actions out. While nothing is open it asks the chain
//! nothing, apart from a few looks at what was closed lately.

mod act;
mod age;
mod closed;
mod hole;

use super::{
    Lane,
    outcome::Consumed,
    plan::{Action, AttemptView, ChainView, plan},
    receipts::{self, Receipts},
};
use crate::{
    clock,
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    metrics::{self, Happened},
    network::NetworkService,
};
pub(crate) use act::NotReplaced;
use age::FirstSigned;
use alloy_primitives::{Address, B256};
use closed::ClosedSlots;
use quittance_evm::{
    send::SendOutcome,
    watch::{self, Head},
};
use quittance_protocol::{settlement::Status, units::LaneNonce};
use quittance_store::model::{OpenSlot, OpenWork, SlotId};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// First look after something was signed; doubles up to [`PAUSE_MAX`] while nothing moves.
const PAUSE_MIN: Duration = Duration::from_millis(40);
/// Longest time between two looks at the chain while something is open.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time between two looks at the store while nothing is open: another process may have left something.
const PAUSE_IDLE: Duration = Duration::from_secs(3);
/// Keeper lease, and when it is renewed.
const LEASE: Duration = Duration::from_secs(6);
const LEASE_RENEW: Duration = Duration::from_secs(2);
/// Without the lease, this long after the newest attempt of a slot was signed, its signer's owner looks after it too.
const OWNERS_PATIENCE: Duration = Duration::from_secs(10);
/// An attempt of another process is left to it for this long.
const OTHERS_SEND: Duration = Duration::from_secs(2);
/// Without a receipt for this long, the head and the lane's transaction count are read too.
const DOUBT_AFTER: Duration = Duration::from_secs(2);

/// Keeps one network until the process stops.
pub(crate) async fn run(facilitator: Arc<Facilitator>, service: Arc<NetworkService>) {
    let mut keeper = Keeper::new(&facilitator, &service);
    let mut pause = PAUSE_MIN;
    loop {
        pause = match keeper.pass().await {
            Ok(Activity::Idle) => PAUSE_IDLE,
            Ok(Activity::Moved) => PAUSE_MIN,
            Ok(Activity::Waiting) => (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
            Err(fault) => {
                tracing::warn!(network = %service.network(), %fault, "keeper pass failed; it will be repeated");
                metrics::happened(&service, Happened::KeeperFailure);
                PAUSE_MAX
            }
        };
        tokio::select! {
            () = facilitator.stopping.cancelled() => return,
            () = service.wake.notified() => pause = PAUSE_MIN,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whether a pass found anything to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing is open.
    Idle,
    /// Something is open and did not move.
    Waiting,
    /// Something moved.
    Moved,
}

/// State of one keeper between passes.
#[derive(Debug)]
pub(crate) struct Keeper<'a> {
    facilitator: &'a Facilitator,
    service: &'a NetworkService,
    lease_taken: Option<Instant>,
    suspected_foreign: HashMap<SlotId, Instant>,
    /// The newest hole of each lane.
    holes: HashMap<Address, u64>,
    closed: ClosedSlots,
    first_signed: FirstSigned,
}

impl<'a> Keeper<'a> {
    pub(crate) fn new(facilitator: &'a Facilitator, service: &'a NetworkService) -> Self {
        Self {
            facilitator,
            service,
            lease_taken: None,
            suspected_foreign: HashMap::new(),
            holes: HashMap::new(),
            closed: ClosedSlots::default(),
            first_signed: FirstSigned::default(),
        }
    }

    /// One look at everything open, and what follows from it.
    pub(crate) async fn pass(&mut self) -> Result<Activity, Fault> {
        let activity = self.look_and_act().await?;
        metrics::keeper_passed(self.service);
        Ok(activity)
    }

    async fn look_and_act(&mut self) -> Result<Activity, Fault> {
        self.service.open_by_payer.asking();
        self.service.open_by_lane.asking();
        self.service.traces.begin_pass();
        let mut work = self.facilitator.store.open_work(self.service.network()).await?;
        self.count_open(&work);
        match self.first_signed.oldest(self.facilitator.store.as_ref(), &work).await {
            Ok(oldest) => metrics::oldest_open(self.service, oldest),
            // Only a figure, which holds nothing up.
            Err(fault) => {
                tracing::warn!(network = %self.service.network(), %fault, "the age of the oldest payment could not be read");
            }
        }
        if self.watch_closed(&work).await? {
            return Ok(Activity::Moved);
        }
        work.slots.retain(|slot| !self.is_left_behind(slot));
        if work.slots.is_empty() && work.orphans.is_empty() {
            return Ok(Activity::Idle);
        }
        let acting = self.hold_lease().await?;
        let (head, nonces) = self.look(&work).await?;
        let is_doubted = |lane: &Address| nonces.contains_key(lane);
        let receipts = receipts::read(self.service, &work, head, is_doubted).await?;
        let mut failed = None;
        let tip = match self.service.prices().await {
            Ok(prices) => prices.tip,
            // Raises no offer, and holds nothing else up.
            Err(fault) => {
                failed = Some(fault.into());
                0
            }
        };
        let mut moved = false;
        let mut lanes_seen = HashSet::new();
        let mut pool_lost = HashSet::new();
        for slot in &work.slots {
            let views = self.views(slot, &receipts);
            // One that is in a block and cannot be concluded must not keep those behind it from being sent again.
            let is_mined = views.iter().flatten().any(|view| view.receipt.is_some());
            let lowest = !is_mined && lanes_seen.insert(slot.lane.address);
            let Some(views) = views else { continue };
            let mut chain = ChainView {
                head,
                mined_nonce: nonces.get(&slot.lane.address).map(|nonce| nonce.0),
                tip,
                confirmations: self.service.confirmations,
                pool_lost: pool_lost.contains(&slot.lane.address),
                foreign_seen_before: self
                    .suspected_foreign
                    .get(&slot.id)
                    .is_some_and(|seen| seen.elapsed() >= PAUSE_MAX),
            };
            let acting = acting || self.is_left_to_owner(slot);
            if lowest && acting {
                moved |= one_by_one(self.fill_hole(slot, &chain).await, &mut failed)?;
            }
            if !receipts.are_complete(slot) {
                // Then a count that has gone on does not say whose transaction did it.
                chain.mined_nonce = None;
            }
            if !is_mined && one_by_one(self.end_without_signer(slot, &chain).await, &mut failed)? {
                moved = true;
                continue;
            }
            for action in plan(slot, &views, &chain, lowest) {
                let action = closed::instead_of(slot, action);
                if let (Action::Send(index), true) = (&action, acting) {
                    // Taken as new although it was sent before: the node has lost its pool, and what waits behind as well.
                    let again = views.get(*index).is_some_and(|view| view.sent_ago.is_some());
                    if self.send(slot, *index).await == Some(SendOutcome::Accepted) && again {
                        pool_lost.insert(slot.lane.address);
                        // A node that mines at once has done so by now.
                        moved = true;
                    }
                    continue;
                }
                moved |= one_by_one(self.execute(slot, action, &chain, acting).await, &mut failed)?;
            }
            if let (true, Some(head), Some(newest)) = (lowest, head, slot.attempts.last()) {
                self.service.sent.mark_absent(newest.signed.hash, head.number);
            }
        }
        if acting {
            for payment in &work.orphans {
                moved |= one_by_one(self.resolve(payment, Consumed::Foreign).await, &mut failed)?;
            }
        }
        if let (Some(fault), false) = (failed, moved) {
            return Err(fault);
        }
        if moved {
            self.service.made_room();
        }
        Ok(if moved { Activity::Moved } else { Activity::Waiting })
    }

    /// Of a signer that is ours, and untended for so long that whoever has the lease may have other signers. If it has them too, both
    /// do the same for a while, which does no harm (docs/adr/0006).
    fn is_left_to_owner(&self, slot: &OpenSlot) -> bool {
        self.lane(slot.lane.address).is_some()
            && slot.signed_ago.last().is_some_and(|ago| *ago >= OWNERS_PATIENCE)
    }

    /// Its payment has ended, and nobody here can fill its nonce: that waits until the signer is configured again.
    fn is_left_behind(&self, slot: &OpenSlot) -> bool {
        let ended = slot.payment.as_ref().is_some_and(|payment| {
            // What settled may have to be sent again.
            payment.status.is_terminal() && payment.status != Status::Settled
        });
        ended && self.lane(slot.lane.address).is_none()
    }

    fn count_open(&mut self, work: &OpenWork) {
        let mut by_lane: HashMap<Address, usize> = HashMap::new();
        for slot in &work.slots {
            *by_lane.entry(slot.lane.address).or_default() += 1;
        }
        for (index, lane) in self.service.lanes.iter().enumerate() {
            let count = by_lane.get(&lane.address()).copied().unwrap_or_default();
            metrics::lane_open_slots(self.service, index, count);
        }
        self.service.open_by_lane.answered(by_lane);
        let payments = work.slots.iter().filter_map(|slot| slot.payment.as_ref()).chain(&work.orphans);
        let mut by_payer: HashMap<Address, usize> = HashMap::new();
        for payment in payments.filter(|payment| !payment.status.is_terminal()) {
            *by_payer.entry(payment.terms.key.authorizer).or_default() += 1;
        }
        self.service.open_by_payer.answered(by_payer);
        let open: HashSet<B256> = work
            .slots
            .iter()
            .flat_map(|slot| slot.attempts.iter().map(|attempt| attempt.signed.hash))
            .collect();
        self.service.sent.keep_only(&open);
        self.suspected_foreign.retain(|id, _| work.slots.iter().any(|slot| slot.id == *id));
    }

    /// Every process watches; only the one with the lease sends again, replaces and fills. One that believes it has it and has
    /// not is harmless (docs/adr/0006).
    async fn hold_lease(&mut self) -> Result<bool, Fault> {
        if self.lease_taken.is_some_and(|taken| taken.elapsed() < LEASE_RENEW) {
            return Ok(true);
        }
        let asked = clock::instant();
        let holder = self.facilitator.holder;
        let taken = self.facilitator.store.take_keeper(self.service.network(), holder, LEASE).await?;
        self.lease_taken = taken.then_some(asked);
        if taken {
            reached(Point::KeeperLeased);
        }
        Ok(taken)
    }

    /// Head and transaction counts, only when a receipt alone would not do. Read before the receipts: a transaction
    /// mined in between must not look as if its nonce had been taken by another.
    async fn look(&self, work: &OpenWork) -> Result<(Option<Head>, BTreeMap<Address, LaneNonce>), Fault> {
        let doubt = self.service.doubt.swap(false, std::sync::atomic::Ordering::AcqRel);
        let doubted: Vec<Address> = lowest_slots(work)
            .filter(|slot| doubt || self.is_doubtful(slot))
            .map(|slot| slot.lane.address)
            .collect();
        let depth_matters = self.service.confirmations > 1;
        let head =
            if depth_matters || !doubted.is_empty() { Some(self.service.read_head().await?) } else { None };
        let mut nonces = BTreeMap::new();
        for address in doubted {
            // At the depth at which an outcome is believed.
            let number = head.map_or(0, |head| head.number.saturating_sub(self.service.confirmations - 1));
            nonces.insert(address, watch::mined_nonce_at(&self.service.pool, address, number).await?);
        }
        if !nonces.is_empty()
            && let Err(fault) = self.service.refresh_prices().await
        {
            tracing::debug!(network = %self.service.network(), %fault, "prices could not be read; the old ones stay");
        }
        Ok((head, nonces))
    }

    fn is_doubtful(&self, slot: &OpenSlot) -> bool {
        slot.attempts.first().is_some_and(|attempt| {
            let mark = self.service.sent.get(&attempt.signed.hash);
            mark.is_none_or(|mark| mark.underpriced || mark.at.elapsed() >= DOUBT_AFTER)
        }) || slot.signed_ago.first().is_some_and(|ago| *ago >= DOUBT_AFTER)
    }

    /// `None`: a receipt of the slot could not be read, so nothing is known about it.
    fn views(&self, slot: &OpenSlot, receipts: &Receipts) -> Option<Vec<AttemptView>> {
        slot.attempts
            .iter()
            .zip(&slot.signed_ago)
            .map(|(attempt, &signed_ago)| {
                let hash = attempt.signed.hash;
                let mark = self.service.sent.get(&hash);
                let left_to_others = signed_ago < OTHERS_SEND;
                Some(AttemptView {
                    receipt: receipts.of(&hash)?.clone(),
                    sent_ago: match mark {
                        Some(mark) => Some(mark.at.elapsed()),
                        None if left_to_others => Some(Duration::ZERO),
                        None => None,
                    },
                    absent_from: mark.and_then(|mark| mark.absent_from),
                    unheard: mark.is_some_and(|mark| mark.unheard),
                    signed_ago,
                    underpriced: mark.is_some_and(|mark| mark.underpriced),
                })
            })
            .collect()
    }

    fn lane(&self, address: Address) -> Option<&'a Lane> {
        self.service.lanes.iter().find(|lane| lane.address() == address)
    }
}

/// A payment that the chain cannot be asked about must not hold up the others. The store they all share.
fn one_by_one(moved: Result<bool, Fault>, failed: &mut Option<Fault>) -> Result<bool, Fault> {
    match moved {
        Err(fault @ Fault::Rpc(_)) => {
            *failed = Some(fault);
            Ok(false)
        }
        other => other,
    }
}

/// The first open slot of each lane.
fn lowest_slots(work: &OpenWork) -> impl Iterator<Item = &OpenSlot> {
    let mut seen = HashSet::new();
    work.slots.iter().filter(move |slot| seen.insert(slot.lane.address))
}
