//! One keeper per network sees every signed transaction through: receipts, rebroadcast, replacement, holes, recovery.
//!
//! Recovery after a crash is the same pass as any other: rows in, actions out. While nothing is open it asks the chain
//! nothing, apart from a few looks at what was closed lately.

mod closed;

use super::{
    FILLER_GAS, Lane, balances, choose, fees_of,
    outcome::{self, Consumed, Verdict},
    plan::{Action, AttemptView, ChainView, REBROADCAST_AFTER, plan},
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
use alloy_primitives::{Address, B256};
use closed::ClosedSlots;
use quittance_evm::{
    send::{SendOutcome, send, send_again},
    sign::call_of,
    watch::{self, Head, Receipt},
};
use quittance_protocol::{
    settlement::{Event, Evidence, Status},
    units::LaneNonce,
};
use quittance_store::model::{
    Attempt, AttemptKind, OpenSlot, OpenWork, Payment, SettlementId, SlotId, SlotOutcome,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
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
/// An attempt of another process is left to it for this long.
const OTHERS_SEND_SECONDS: i64 = 2;
/// Without a receipt for this long, the head and the lane's transaction count are read too.
const DOUBT_AFTER: Duration = Duration::from_secs(2);

/// What this process knows about sent attempts. Only memory: losing it means sending the same bytes once more.
#[derive(Debug, Default)]
pub(crate) struct Sent(Mutex<HashMap<B256, SentMark>>);

#[derive(Clone, Copy, Debug)]
struct SentMark {
    at: Instant,
    underpriced: bool,
    /// See [`AttemptView::unheard`].
    unheard: bool,
    /// See [`AttemptView::absent_from`].
    absent_from: Option<u64>,
}

impl Sent {
    /// To be called before the bytes go out.
    pub(crate) fn mark(&self, hash: B256) {
        let mark = SentMark { at: now(), underpriced: false, unheard: false, absent_from: None };
        self.lock().insert(hash, mark);
    }

    fn mark_unheard(&self, hash: B256) {
        self.lock().entry(hash).and_modify(|mark| mark.unheard = true);
    }

    fn mark_underpriced(&self, hash: B256) {
        self.lock().entry(hash).and_modify(|mark| mark.underpriced = true);
    }

    /// Not mined up to this block. The first that is known stays until the bytes are sent again.
    fn mark_absent(&self, hash: B256, block: u64) {
        self.lock().entry(hash).and_modify(|mark| mark.absent_from = mark.absent_from.or(Some(block)));
    }

    fn get(&self, hash: &B256) -> Option<SentMark> {
        self.lock().get(hash).copied()
    }

    fn keep_only(&self, open: &HashSet<B256>) {
        self.lock().retain(|hash, mark| open.contains(hash) || mark.at.elapsed() < LEASE);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<B256, SentMark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::disallowed_methods)] // ages of what this process did, an edge
fn now() -> Instant {
    Instant::now()
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
            service.doubt.store(true, std::sync::atomic::Ordering::Release);
        }
        SendOutcome::Unknown => service.sent.mark_unheard(hash),
        SendOutcome::Accepted | SendOutcome::AlreadyKnown | SendOutcome::PoolFull => {}
    }
    outcome
}

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
    closed: ClosedSlots,
}

impl<'a> Keeper<'a> {
    pub(crate) fn new(facilitator: &'a Facilitator, service: &'a NetworkService) -> Self {
        Self {
            facilitator,
            service,
            lease_taken: None,
            suspected_foreign: HashMap::new(),
            closed: ClosedSlots::default(),
        }
    }

    /// One look at everything open, and what follows from it.
    pub(crate) async fn pass(&mut self) -> Result<Activity, Fault> {
        self.service.open_by_payer.asking();
        self.service.open_by_lane.asking();
        let work = self.facilitator.store.open_work(self.service.network()).await?;
        self.count_open(&work);
        if self.watch_closed(&work).await? {
            return Ok(Activity::Moved);
        }
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
            if lowest && acting {
                moved |= one_by_one(self.fill_hole(slot, &chain).await, &mut failed)?;
            }
            if !receipts.are_complete(slot) {
                // Then a count that has gone on does not say whose transaction did it.
                chain.mined_nonce = None;
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

    /// Replaces a payment's newest attempt by one that only consumes the nonce. Whichever is mined decides.
    pub(crate) async fn cancel(&self, id: SettlementId) -> Result<Option<B256>, Fault> {
        let work = self.facilitator.store.open_work(self.service.network()).await?;
        let is_its_slot = |slot: &&OpenSlot| slot.payment.as_ref().is_some_and(|payment| payment.id == id);
        let Some(slot) = work.slots.iter().find(is_its_slot) else { return Ok(None) };
        let chain = ChainView {
            head: Some(watch::head(&self.service.pool).await?),
            tip: self.service.prices().await?.tip,
            ..ChainView::default()
        };
        if !self.replace(slot, &chain, AttemptKind::Filler).await? {
            return Ok(None);
        }
        let attempts = self.facilitator.store.attempts(id).await?;
        Ok(attempts.last().map(|attempt| attempt.signed.hash))
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
        let mut oldest = unix_now();
        for payment in payments.filter(|payment| !payment.status.is_terminal()) {
            *by_payer.entry(payment.terms.key.authorizer).or_default() += 1;
            oldest = oldest.min(payment.created_at);
        }
        self.service.open_by_payer.answered(by_payer);
        let oldest = Duration::from_secs(u64::try_from(unix_now() - oldest).unwrap_or_default());
        metrics::keeper_passed(self.service, clock::now().0, oldest);
        let open: HashSet<B256> = work
            .slots
            .iter()
            .flat_map(|slot| slot.attempts.iter().map(|attempt| attempt.signed.hash))
            .collect();
        self.service.sent.keep_only(&open);
        self.suspected_foreign.retain(|id, _| work.slots.iter().any(|slot| slot.id == *id));
    }

    /// Every process watches; only the one with the lease sends again, replaces and fills.
    async fn hold_lease(&mut self) -> Result<bool, Fault> {
        if self.lease_taken.is_some_and(|taken| taken.elapsed() < LEASE_RENEW) {
            return Ok(true);
        }
        let asked = now();
        let epoch = self
            .facilitator
            .store
            .take_keeper(self.service.network(), self.facilitator.holder, LEASE)
            .await?;
        self.lease_taken = epoch.map(|_| asked);
        if epoch.is_some() {
            reached(Point::KeeperLeased);
        }
        Ok(epoch.is_some())
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
                || signed_ago(attempt) >= DOUBT_AFTER
        })
    }

    /// `None`: a receipt of the slot could not be read, so nothing is known about it.
    fn views(&self, slot: &OpenSlot, receipts: &Receipts) -> Option<Vec<AttemptView>> {
        slot.attempts
            .iter()
            .map(|attempt| {
                let hash = attempt.signed.hash;
                let mark = self.service.sent.get(&hash);
                let left_to_others = attempt.created_at + OTHERS_SEND_SECONDS > unix_now();
                Some(AttemptView {
                    receipt: receipts.of(&hash)?.clone(),
                    sent_ago: match mark {
                        Some(mark) => Some(mark.at.elapsed()),
                        None if left_to_others => Some(Duration::ZERO),
                        None => None,
                    },
                    absent_from: mark.and_then(|mark| mark.absent_from),
                    unheard: mark.is_some_and(|mark| mark.unheard),
                    signed_ago: signed_ago(attempt),
                    underpriced: mark.is_some_and(|mark| mark.underpriced),
                })
            })
            .collect()
    }

    async fn execute(
        &mut self,
        slot: &OpenSlot,
        action: Action,
        chain: &ChainView,
        acting: bool,
    ) -> Result<bool, Fault> {
        match action {
            Action::Mined(receipt) => self.event(slot, Event::Mined, seen_in(&receipt)).await,
            Action::Reorged => {
                tracing::warn!(network = %self.service.network(), "a block with one of our transactions was reorganised away");
                metrics::happened(self.service, Happened::Reorg);
                self.event(slot, Event::Reorged, Evidence::default()).await
            }
            Action::Conclude(index, receipt) => self.conclude(slot, index, &receipt).await,
            Action::Close(outcome) => self.close(slot, outcome).await,
            Action::SuspectForeign => {
                self.suspected_foreign.entry(slot.id).or_insert_with(now);
                Ok(false)
            }
            _ if !acting => Ok(false),
            Action::Send(index) => {
                self.send(slot, index).await;
                Ok(false)
            }
            Action::Foreign => self.foreign(slot, chain).await,
            Action::Replace => self.replace(slot, chain, AttemptKind::Payment).await,
            Action::Cancel => self.replace(slot, chain, AttemptKind::Filler).await,
        }
    }

    async fn send(&self, slot: &OpenSlot, index: usize) -> Option<SendOutcome> {
        metrics::happened(self.service, Happened::Rebroadcast);
        // Where older bytes are sent in place of the newest, it is as if the newest had been.
        self.service.sent.mark(slot.attempts.last()?.signed.hash);
        Some(send_attempt_again(self.service, slot.attempts.get(index)?).await)
    }

    async fn event(&self, slot: &OpenSlot, event: Event, evidence: Evidence) -> Result<bool, Fault> {
        let Some(payment) = &slot.payment else { return Ok(false) };
        self.transition(payment, event, &evidence).await
    }

    async fn transition(&self, payment: &Payment, event: Event, evidence: &Evidence) -> Result<bool, Fault> {
        reached(Point::TransitionDue);
        let moved = self.facilitator.store.transition(payment.id, payment.version, event, evidence).await?;
        reached(Point::TransitionStored);
        Ok(self.moved(moved.as_ref()))
    }

    /// At once, not at the end of the pass: the first of many must not wait for the last.
    fn moved(&self, payment: Option<&Payment>) -> bool {
        if let Some(payment) = payment {
            metrics::ended(self.service, payment.status);
            self.service.waiting.announce(payment.id);
        }
        payment.is_some()
    }

    async fn close(&self, slot: &OpenSlot, outcome: SlotOutcome) -> Result<bool, Fault> {
        reached(Point::SlotCloseDue);
        self.facilitator.store.close_slot(slot.id, outcome).await?;
        reached(Point::SlotClosed);
        Ok(true)
    }

    async fn conclude(&self, slot: &OpenSlot, index: usize, receipt: &Receipt) -> Result<bool, Fault> {
        let is_payment =
            slot.attempts.get(index).is_some_and(|attempt| attempt.signed.kind == AttemptKind::Payment);
        let Some(payment) = &slot.payment else { return self.close(slot, SlotOutcome::Ours).await };
        if is_payment && receipt.success {
            let (event, evidence) = outcome::of_success(&payment.terms, receipt);
            let store = &self.facilitator.store;
            reached(Point::ConcludeDue);
            let concluded = store.conclude(slot.id, payment.id, payment.version, event, &evidence).await?;
            reached(Point::Concluded);
            return Ok(self.moved(concluded.as_ref()));
        }
        // The outcome first, then the slot: a crash in between finds the slot open and looks again.
        let consumed = if is_payment { Consumed::Reverted(receipt) } else { Consumed::Canceled(receipt) };
        if self.resolve(payment, consumed).await? {
            return self.close(slot, SlotOutcome::Ours).await;
        }
        Ok(false)
    }

    async fn foreign(&self, slot: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        tracing::warn!(
            network = %self.service.network(), signer = %slot.lane.address, nonce = slot.lane_nonce.0,
            "a transaction from outside took a nonce of this signer; give the signer to this facilitator alone",
        );
        metrics::happened(self.service, Happened::ForeignNonce);
        reached(Point::ForeignSeen);
        if let Some(count) = chain.mined_nonce {
            self.facilitator.store.raise_lane_floor(&slot.lane, LaneNonce(count)).await?;
        }
        reached(Point::LaneFloorRaised);
        self.facilitator.store.close_slot(slot.id, SlotOutcome::Foreign).await?;
        reached(Point::ForeignSlotClosed);
        if let Some(payment) = &slot.payment {
            self.resolve(payment, Consumed::Foreign).await?;
        }
        Ok(true)
    }

    /// None of our attempts in a consumed slot moved the money: find out what did, or sign again.
    async fn resolve(&self, payment: &Payment, consumed: Consumed<'_>) -> Result<bool, Fault> {
        if payment.status.is_terminal() {
            return Ok(true);
        }
        let attempts = self.facilitator.store.attempts(payment.id).await?;
        match outcome::of_consumed_slot(self.service, &payment.terms, consumed, &attempts).await? {
            Verdict::Final(event, evidence) => self.transition(payment, event, &evidence).await,
            Verdict::Unknown => Ok(false),
            Verdict::StillAlive => self.sign_again(payment, &attempts).await,
        }
    }

    /// The same call in a new slot, of any lane that can pay for it. Only reached when every earlier slot is consumed, so at
    /// most one of them can execute.
    async fn sign_again(&self, payment: &Payment, attempts: &[Attempt]) -> Result<bool, Fault> {
        let last = attempts.iter().rev().find(|attempt| attempt.signed.kind == AttemptKind::Payment);
        let Some(call) = last.and_then(|attempt| call_of(&attempt.signed.raw)) else { return Ok(false) };
        let (store, service) = (&self.facilitator.store, self.service);
        if payment.status == Status::Mined {
            let reorged =
                store.transition(payment.id, payment.version, Event::Reorged, &Evidence::default()).await?;
            return Ok(reorged.is_some());
        }
        let base_fee = watch::head(&service.pool).await?.base_fee.unwrap_or_default();
        let (fees, cost_max) = service.prices().await?.first_offer(base_fee, call.gas_limit, call.data.len());
        let balances = balances(&service.pool, &service.lanes).await?;
        let chosen = self
            .facilitator
            .check_fee_cap(cost_max)
            .and_then(|()| choose(&service.lanes, &service.open_by_lane, &balances, cost_max));
        let (lane, slot) = match chosen {
            Ok(chosen) => chosen,
            // Until there is money, room, or a lower price: the payer's authorization is still good.
            Err(fault) => {
                tracing::debug!(network = %service.network(), %fault, "a payment waits to be signed again");
                return Ok(false);
            }
        };
        lane.introduce(&service.pool, store.as_ref()).await?;
        let sign = |nonce| {
            let attempt = lane.sign_payment(nonce, fees, call.gas_limit, call.to, &call.data)?;
            reached(Point::SigningAgain);
            Ok(attempt)
        };
        let signed = store.sign_slot(payment.id, payment.version, &lane.id(), &sign).await?;
        if let Some(signed) = &signed {
            slot.stored();
            reached(Point::SignedAgain);
            send_attempt(service, &signed.attempt).await;
        }
        Ok(signed.is_some())
    }

    /// Adds an attempt with higher fees, or one that only consumes the nonce. The operator's cap holds for it as for the
    /// first one; when it leaves no room, what was offered stays offered.
    async fn replace(&self, slot: &OpenSlot, chain: &ChainView, kind: AttemptKind) -> Result<bool, Fault> {
        let (Some(newest), Some(lane)) = (slot.attempts.last(), self.lane(slot.lane.address)) else {
            return Ok(false);
        };
        let is_filler = kind == AttemptKind::Filler || newest.signed.kind == AttemptKind::Filler;
        let call = if is_filler { None } else { Some(call_of(&newest.signed.raw).ok_or(Fault::Internal)?) };
        let (gas_limit, calldata_bytes) =
            call.as_ref().map_or((FILLER_GAS, 0), |call| (call.gas_limit, call.data.len()));
        let ceiling = match self.facilitator.fee_per_settlement_wei_max {
            Some(cap) => self.service.prices().await?.fee_ceiling(cap, gas_limit, calldata_bytes),
            None => u128::MAX,
        };
        let base_fee = chain.head.and_then(|head| head.base_fee).unwrap_or_default();
        let offer = fees_of(&newest.signed)
            .replacement(base_fee, chain.tip, ceiling)
            .filter(|fees| !fees.is_beyond_reason(base_fee, chain.tip));
        let Some(fees) = offer else {
            // Also to a node that has forgotten it.
            let sent = self.service.sent.get(&newest.signed.hash);
            if sent.is_none_or(|mark| mark.at.elapsed() >= REBROADCAST_AFTER) {
                self.send(slot, slot.attempts.len() - 1).await;
            }
            return Ok(false);
        };
        let sign = |nonce| {
            let attempt = match &call {
                Some(call) => lane.sign_payment(nonce, fees, call.gas_limit, call.to, &call.data)?,
                None => lane.sign_filler(nonce, fees)?,
            };
            reached(Point::Replacing);
            Ok(attempt)
        };
        let seen = u32::try_from(slot.attempts.len()).unwrap_or(u32::MAX);
        let attempt = self.facilitator.store.add_attempt(slot.id, seen, &sign).await?;
        if let Some(attempt) = &attempt {
            tracing::info!(network = %self.service.network(), nonce = slot.lane_nonce.0, filler = is_filler, "replaced");
            metrics::happened(self.service, Happened::Replacement);
            reached(Point::Replaced);
            send_attempt(self.service, attempt).await;
        }
        Ok(attempt.is_some())
    }

    /// The chain waits for a nonce below our lowest open one, and no slot of ours holds it.
    async fn fill_hole(&self, lowest: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        let (Some(next), Some(lane)) = (chain.mined_nonce, self.lane(lowest.lane.address)) else {
            return Ok(false);
        };
        let hole = next < lowest.lane_nonce.0;
        let patience = lowest.attempts.first().is_some_and(|attempt| signed_ago(attempt) >= DOUBT_AFTER);
        if !hole || !patience {
            return Ok(false);
        }
        if self.reopen(&lane.id(), LaneNonce(next)).await? {
            return Ok(true);
        }
        let base_fee = chain.head.and_then(|head| head.base_fee).unwrap_or_default();
        let fees = quittance_evm::fees::Fees::first(base_fee, chain.tip);
        let sign = |nonce| {
            let attempt = lane.sign_filler(nonce, fees)?;
            reached(Point::HoleFilling);
            Ok(attempt)
        };
        let filler = self.facilitator.store.sign_filler(&lane.id(), LaneNonce(next), &sign).await?;
        if let Some(attempt) = &filler {
            tracing::warn!(network = %self.service.network(), nonce = next, "filled a hole in a lane");
            metrics::happened(self.service, Happened::GapFilled);
            reached(Point::HoleFilled);
            send_attempt(self.service, attempt).await;
        }
        Ok(filler.is_some())
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

fn seen_in(receipt: &Receipt) -> Evidence {
    Evidence {
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
        ..Evidence::default()
    }
}

fn unix_now() -> i64 {
    i64::try_from(clock::now().0).unwrap_or(i64::MAX)
}

fn signed_ago(attempt: &Attempt) -> Duration {
    Duration::from_secs(u64::try_from(unix_now() - attempt.created_at).unwrap_or(0))
}
