//! What a keeper does about what it has seen. Everything is guarded by the versions, counts and keys it is written under
//! (docs/adr/0006).

use super::Keeper;
use crate::{
    clock,
    fault::Fault,
    fault_point::{Point, reached},
    lane::{
        FILLER_GAS, Lane, again, balances, choose, fees_of,
        outcome::{self, Consumed, Verdict},
        plan::{Action, ChainView, REBROADCAST_AFTER},
        sent::{send_attempt, send_attempt_again},
    },
    metrics::{self, Happened},
    names::named,
};
use alloy_primitives::{Address, B256, U256};
use quittance_evm::{
    send::SendOutcome,
    sign::call_of,
    watch::{self, Receipt},
};
use quittance_protocol::settlement::{Event, Evidence, Status};
use quittance_store::model::{Attempt, AttemptKind, OpenSlot, Payment, SettlementId, SlotOutcome};

impl Keeper<'_> {
    pub(super) async fn execute(
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
                self.suspected_foreign.entry(slot.id).or_insert_with(clock::instant);
                Ok(false)
            }
            _ if !acting => Ok(false),
            Action::Send(index) => {
                self.send(slot, index).await;
                Ok(false)
            }
            Action::Foreign => self.foreign(slot, chain).await,
            Action::Replace => self.replace_or_send(slot, chain, AttemptKind::Payment).await,
            Action::Cancel => self.cancel_expired(slot, chain).await,
        }
    }

    pub(super) async fn send(&self, slot: &OpenSlot, index: usize) -> Option<SendOutcome> {
        metrics::happened(self.service, Happened::Rebroadcast);
        // Where older bytes are sent in place of the newest, it is as if the newest had been.
        self.service.sent.mark(slot.attempts.last()?.signed.hash);
        let mut outcome = send_attempt_again(self.service, slot.attempts.get(index)?).await;
        for older in cheaper(slot, index) {
            if !matches!(outcome, SendOutcome::InsufficientFunds | SendOutcome::FeeAboveCap) {
                break;
            }
            outcome = send_attempt_again(self.service, older).await;
        }
        Some(outcome)
    }

    async fn event(&self, slot: &OpenSlot, event: Event, evidence: Evidence) -> Result<bool, Fault> {
        let Some(payment) = &slot.payment else { return Ok(false) };
        self.transition(payment, event, &evidence).await
    }

    pub(super) async fn transition(
        &self,
        payment: &Payment,
        event: Event,
        evidence: &Evidence,
    ) -> Result<bool, Fault> {
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
        if is_payment
            && receipt.success
            && let Some((event, evidence)) = outcome::of_success(&payment.terms, receipt)
        {
            let store = &self.facilitator.store;
            reached(Point::ConcludeDue);
            let concluded = store.conclude(slot.id, payment.id, payment.version, event, &evidence).await?;
            reached(Point::Concluded);
            return Ok(self.moved(concluded.as_ref()));
        }
        // The outcome first, then the slot: a crash in between finds the slot open and looks again.
        let consumed = match (is_payment, receipt.success) {
            (true, true) => Consumed::Mute(receipt),
            (true, false) => Consumed::Reverted(receipt),
            (false, _) => Consumed::Canceled(receipt),
        };
        if self.resolve(payment, consumed).await? {
            return self.close(slot, SlotOutcome::Ours).await;
        }
        Ok(false)
    }

    async fn foreign(&self, slot: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        let (service, Some(head)) = (self.service, chain.head) else { return Ok(false) };
        let ours: Vec<B256> = slot.attempts.iter().map(|attempt| attempt.signed.hash).collect();
        let deep = head.number.saturating_sub(service.confirmations - 1);
        let (signer, nonce) = (slot.lane.address, slot.lane_nonce);
        let Some(count) = watch::taken_by_others(&service.pool, signer, nonce, deep, &ours).await? else {
            return Ok(false);
        };
        tracing::warn!(
            network = %service.network(), signer = %named(service.network(), signer), nonce = nonce.0,
            "a transaction from outside took a nonce of this signer; give the signer to this facilitator alone",
        );
        metrics::happened(service, Happened::ForeignNonce);
        reached(Point::ForeignSeen);
        self.facilitator.store.raise_lane_floor(&slot.lane, count).await?;
        // Nothing is signed on this count before it has been proven.
        if let Some(lane) = self.lane(signer) {
            lane.introduce_anew();
        }
        reached(Point::LaneFloorRaised);
        self.facilitator.store.close_slot(slot.id, SlotOutcome::Foreign).await?;
        reached(Point::ForeignSlotClosed);
        if let Some(payment) = &slot.payment {
            self.resolve(payment, Consumed::Foreign).await?;
        }
        Ok(true)
    }

    /// The authorization is dead by the clock of the block that was looked at. What that costs the payer's payment is done only if
    /// the block is of this chain.
    async fn cancel_expired(&self, slot: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        if let Some(head) = chain.head
            && !watch::on_one_chain(&self.service.pool, &[(head.number, Some(head.hash))]).await?
        {
            return Ok(false);
        }
        self.replace_or_send(slot, chain, AttemptKind::Filler).await
    }

    /// None of our attempts in a consumed slot moved the money: find out what did, or sign again.
    pub(super) async fn resolve(&self, payment: &Payment, consumed: Consumed<'_>) -> Result<bool, Fault> {
        if payment.status.is_terminal() {
            return Ok(true);
        }
        let attempts = self.facilitator.store.attempts(payment.id).await?;
        match outcome::of_consumed_slot(self.service, payment, consumed, &attempts).await? {
            Verdict::Final(event, evidence) => self.transition(payment, event, &evidence).await,
            Verdict::Unknown => Ok(false),
            // Its slot is closed first: a payment without one is signed again at the next look.
            Verdict::StillAlive if matches!(consumed, Consumed::Reverted(_)) => Ok(true),
            Verdict::StillAlive => self.sign_again(payment, &attempts).await,
        }
    }

    /// The same call, or the transfer alone where that is enough by now, in a new slot, of any lane that can pay for it. Only
    /// reached when every earlier slot is consumed, so at most one of them can execute.
    pub(super) async fn sign_again(&self, payment: &Payment, attempts: &[Attempt]) -> Result<bool, Fault> {
        let last = attempts.iter().rev().find(|attempt| attempt.signed.kind == AttemptKind::Payment);
        let Some(mut call) = last.and_then(|attempt| call_of(&attempt.signed.raw)) else { return Ok(false) };
        let (store, service) = (&self.facilitator.store, self.service);
        if payment.status == Status::Mined {
            let reorged =
                store.transition(payment.id, payment.version, Event::Reorged, &Evidence::default()).await?;
            return Ok(reorged.is_some());
        }
        if let Some(transfer) = again::without_its_deployment(service, payment, &call, 0).await? {
            call = transfer;
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
        let (id, version) = (payment.id, payment.version);
        let signed = match payment.status {
            Status::Settled => store.sign_settled_again(id, version, &lane.id(), &sign).await?,
            _ => store.sign_slot(id, version, &lane.id(), &sign).await?,
        };
        if let Some(signed) = &signed {
            slot.stored();
            reached(Point::SignedAgain);
            send_attempt(service, &signed.attempt).await;
        }
        Ok(signed.is_some())
    }

    /// Adds an attempt with higher fees, or one that only consumes the nonce; when there is no room for it, what was offered stays
    /// offered.
    async fn replace_or_send(
        &self,
        slot: &OpenSlot,
        chain: &ChainView,
        kind: AttemptKind,
    ) -> Result<bool, Fault> {
        let replaced = self.replace(slot, chain, kind).await?;
        if let (Err(why), Some(newest)) = (&replaced, slot.attempts.last())
            && why.is_want_of_room()
        {
            // Also to a node that has forgotten it.
            let sent = self.service.sent.get(&newest.signed.hash);
            if sent.is_none_or(|mark| mark.at.elapsed() >= REBROADCAST_AFTER) {
                self.send(slot, slot.attempts.len() - 1).await;
            }
        }
        Ok(replaced.is_ok())
    }

    /// The operator's cap holds for a replacement as for the first attempt.
    async fn replace(
        &self,
        slot: &OpenSlot,
        chain: &ChainView,
        kind: AttemptKind,
    ) -> Result<Result<B256, NotReplaced>, Fault> {
        let signer = slot.lane.address;
        let (Some(newest), Some(lane)) = (slot.attempts.last(), self.lane(signer)) else {
            return Ok(Err(NotReplaced::NoSigner(signer)));
        };
        let is_filler = kind == AttemptKind::Filler || newest.signed.kind == AttemptKind::Filler;
        let call = if is_filler { None } else { Some(call_of(&newest.signed.raw).ok_or(Fault::Internal)?) };
        let (gas_limit, calldata_bytes) =
            call.as_ref().map_or((FILLER_GAS, 0), |call| (call.gas_limit, call.data.len()));
        let balance = watch::balance(&self.service.pool, signer).await?;
        let ceiling = self.payable_of(balance, gas_limit, calldata_bytes).await?;
        let base_fee = chain.head.and_then(|head| head.base_fee).unwrap_or_default();
        let (fees, old_gas_limit) = (fees_of(&newest.signed), newest.signed.gas_limit);
        let Some(offer) = fees.replacement(base_fee, chain.tip, ceiling) else {
            let capped = self.facilitator.fee_per_settlement_wei_max.is_some_and(|cap| cap < balance);
            let why =
                if capped { NotReplaced::CapLeavesNoRoom } else { NotReplaced::BalanceLeavesNoRoom(signer) };
            return Ok(Err(why));
        };
        if !offer.is_worth_it(gas_limit, (fees, old_gas_limit), base_fee, chain.tip) {
            return Ok(Err(NotReplaced::BeyondReason));
        }
        let sign = |nonce| {
            let attempt = match &call {
                Some(call) => lane.sign_payment(nonce, offer, call.gas_limit, call.to, &call.data)?,
                None => lane.sign_filler(nonce, offer)?,
            };
            reached(Point::Replacing);
            Ok(attempt)
        };
        let seen = u32::try_from(slot.attempts.len()).unwrap_or(u32::MAX);
        let Some(attempt) = self.facilitator.store.add_attempt(slot.id, seen, &sign).await? else {
            return Ok(Err(NotReplaced::Overtaken));
        };
        tracing::info!(network = %self.service.network(), nonce = slot.lane_nonce.0, filler = is_filler, "replaced");
        metrics::happened(self.service, Happened::Replacement);
        reached(Point::Replaced);
        send_attempt(self.service, &attempt).await;
        Ok(Ok(attempt.signed.hash))
    }

    /// The most per gas that the operator's cap allows and the signer has money for: what it cannot pay would stand in the way of what
    /// it can.
    pub(super) async fn payable(
        &self,
        lane: &Lane,
        gas_limit: u64,
        calldata_bytes: usize,
    ) -> Result<u128, Fault> {
        let balance = watch::balance(&self.service.pool, lane.address()).await?;
        self.payable_of(balance, gas_limit, calldata_bytes).await
    }

    async fn payable_of(&self, balance: U256, gas_limit: u64, calldata_bytes: usize) -> Result<u128, Fault> {
        let cap = self.facilitator.fee_per_settlement_wei_max.map_or(balance, |cap| cap.min(balance));
        Ok(self.service.prices().await?.fee_ceiling(cap, gas_limit, calldata_bytes))
    }

    /// A payment that was signed by a signer of another time, and that nothing was mined of: once its authorization is dead, the
    /// chain alone tells how it ended.
    pub(super) async fn end_without_signer(&self, slot: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        let (Some(payment), Some(head), None) = (&slot.payment, chain.head, self.lane(slot.lane.address))
        else {
            return Ok(false);
        };
        if payment.status != Status::Signed || !outcome::has_expired(&payment.terms, &head) {
            return Ok(false);
        }
        let attempts = self.facilitator.store.attempts(payment.id).await?;
        match outcome::of_expired(self.service, payment, &attempts).await? {
            Verdict::Final(event, evidence) => self.transition(payment, event, &evidence).await,
            Verdict::StillAlive | Verdict::Unknown => Ok(false),
        }
    }

    /// Replaces a payment's newest attempt by one that only consumes the nonce. Whichever is mined decides.
    pub(crate) async fn cancel(&self, id: SettlementId) -> Result<Result<B256, NotReplaced>, Fault> {
        let work = self.facilitator.store.open_work(self.service.network()).await?;
        let is_its_slot = |slot: &&OpenSlot| slot.payment.as_ref().is_some_and(|payment| payment.id == id);
        let Some(slot) = work.slots.iter().find(is_its_slot) else {
            return Ok(Err(NotReplaced::NothingOpen));
        };
        let chain = ChainView {
            head: Some(watch::head(&self.service.pool).await?),
            tip: self.service.prices().await?.tip,
            ..ChainView::default()
        };
        self.replace(slot, &chain, AttemptKind::Filler).await
    }
}

/// Why a transaction was not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReplaced {
    /// The payment has no slot that waits for a block.
    NothingOpen,
    /// The slot's signer is not configured here.
    NoSigner(Address),
    /// An eighth more than what is offered costs more than the operator allows.
    CapLeavesNoRoom,
    /// It costs more than the slot's signer has.
    BalanceLeavesNoRoom(Address),
    /// So much is offered already that a higher price cannot be what a node waits for.
    BeyondReason,
    /// Another process was faster.
    Overtaken,
}

impl NotReplaced {
    /// Whether what was offered is as much as can be.
    fn is_want_of_room(self) -> bool {
        matches!(self, Self::CapLeavesNoRoom | Self::BalanceLeavesNoRoom(_) | Self::BeyondReason)
    }
}

/// What a node may take that finds an attempt too dear, the dearest first: earlier ones that do the same. Nothing that could pay for
/// a payment that has ended.
fn cheaper(slot: &OpenSlot, index: usize) -> impl Iterator<Item = &Attempt> {
    let kind = slot.attempts.get(index).map(|attempt| attempt.signed.kind);
    let has_ended = slot.payment.as_ref().is_some_and(|payment| payment.status.is_terminal());
    let may_go = move |attempt: &&Attempt| {
        Some(attempt.signed.kind) == kind && (attempt.signed.kind == AttemptKind::Filler || !has_ended)
    };
    slot.attempts.iter().take(index).rev().filter(may_go)
}

fn seen_in(receipt: &Receipt) -> Evidence {
    Evidence {
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
        ..Evidence::default()
    }
}
