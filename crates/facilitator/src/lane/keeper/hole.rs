//! Holes: nonces below a lane's open slots that the chain waits for and that nothing of ours holds.

use super::{DOUBT_AFTER, Keeper};
use crate::{
    fault::Fault,
    fault_point::{Point, reached},
    lane::{
        FILLER_GAS, Lane, fees_of,
        plan::{ChainView, RAISE_AFTER, REBROADCAST_AFTER},
        sent::{send_attempt, send_attempt_again},
    },
    metrics::{self, Happened},
};
use quittance_evm::{fees::Fees, watch};
use quittance_protocol::units::LaneNonce;
use quittance_store::model::{Attempt, AttemptKind, OpenSlot};

impl Keeper<'_> {
    /// The chain waits for a nonce below our lowest open one, and no slot of ours holds it.
    pub(super) async fn fill_hole(&mut self, lowest: &OpenSlot, chain: &ChainView) -> Result<bool, Fault> {
        let (Some(next), Some(lane)) = (chain.mined_nonce, self.lane(lowest.lane.address)) else {
            return Ok(false);
        };
        let hole = next < lowest.lane_nonce.0;
        let patience = lowest.signed_ago.first().is_some_and(|ago| *ago >= DOUBT_AFTER);
        if !hole || !patience {
            return Ok(false);
        }
        // By the word of a node that is of this chain: what is filled by mistake costs gas.
        if watch::proven_nonce(&self.service.pool, lane.address()).await? != LaneNonce(next) {
            return Ok(false);
        }
        if self.reopen(&lane.id(), LaneNonce(next)).await? {
            return Ok(true);
        }
        if self.holes.insert(lane.address(), next) != Some(next) {
            metrics::happened(self.service, Happened::GapFound);
        }
        let base_fee = chain.head.and_then(|head| head.base_fee).unwrap_or_default();
        let ceiling = self.payable(lane, FILLER_GAS, 0).await?;
        let market = Fees::first(base_fee, chain.tip);
        // Where gas is free, a signer needs no money.
        if ceiling <= base_fee && market.max_fee_per_gas > 0 {
            // No payment behind it could be mined either: they take more gas under the same cap, of the same money.
            tracing::debug!(network = %self.service.network(), nonce = next, "a hole waits for a lower price");
            return Ok(false);
        }
        let market = market.at_most(ceiling);
        let given_up = self.facilitator.store.given_up(&lane.id(), LaneNonce(next)).await?;
        if let Some(newest) = given_up.last() {
            // Where a node still holds what was given up, it takes a filler that offers more than that.
            let offer = fees_of(&newest.signed)
                .replacement(base_fee, chain.tip, ceiling)
                .filter(|fees| !fees.is_beyond_reason(base_fee, chain.tip));
            return self.fill_given_up(lane, &given_up, offer, market).await;
        }
        let sign = |nonce| {
            let attempt = lane.sign_filler(nonce, market)?;
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

    /// A payment has left its nonce to a foreign transaction, and the chain has lost that one: only the newest slot executes the
    /// payment, so the nonce is filled with nothing. The slot stays closed, since a payment has one open slot at most.
    async fn fill_given_up(
        &self,
        lane: &Lane,
        attempts: &[Attempt],
        offer: Option<Fees>,
        market: Fees,
    ) -> Result<bool, Fault> {
        let (service, Some(newest)) = (self.service, attempts.last()) else { return Ok(false) };
        let mark = service.sent.get(&newest.signed.hash);
        let too_low = newest.signed.max_fee_per_gas < market.max_fee_per_gas / 2
            || mark.is_some_and(|mark| mark.underpriced);
        let had_its_time = mark.is_some_and(|mark| mark.at.elapsed() >= RAISE_AFTER);
        let may_raise = too_low && offer.is_some() && had_its_time;
        if newest.signed.kind == AttemptKind::Filler && !may_raise {
            if mark.is_none_or(|mark| mark.at.elapsed() >= REBROADCAST_AFTER) {
                metrics::happened(service, Happened::Rebroadcast);
                send_attempt_again(service, newest).await;
            }
            return Ok(false);
        }
        let fees = offer.unwrap_or(market);
        let sign = |nonce| {
            let attempt = lane.sign_filler(nonce, fees)?;
            reached(Point::HoleFilling);
            Ok(attempt)
        };
        let seen = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        let nonce = newest.lane_nonce;
        let filler = self.facilitator.store.fill_closed_slot(&lane.id(), nonce, seen, &sign).await?;
        if let Some(attempt) = &filler {
            tracing::warn!(network = %service.network(), nonce = nonce.0, "filled a nonce that the chain has given back");
            metrics::happened(service, Happened::GapFilled);
            reached(Point::HoleFilled);
            send_attempt(service, attempt).await;
        }
        Ok(filler.is_some())
    }
}
