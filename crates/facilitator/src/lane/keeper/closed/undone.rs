//! What closed slots claim, compared with the chain: a reorganisation can undo an outcome and leave the nonce consumed, by a
//! foreign transaction, or by the same one with another result. A count of transactions does not show that.
//!
//! What was told is not taken back. A payment that is settled is paid again if its authorization is alive, in a new slot; the rest
//! is for a person, and is counted.

use super::Keeper;
use crate::{
    fault::Fault,
    lane::{
        outcome::{self, Consumed, Verdict},
        room::OPEN_SLOTS_PER_LANE_MAX,
    },
    metrics::{self, Happened},
};
use alloy_primitives::B256;
use quittance_evm::{
    sign::call_of,
    watch::{self, Receipt, ReceiptRead},
};
use quittance_protocol::settlement::{Event, Status};
use quittance_store::model::{Attempt, AttemptKind, LaneId, Payment};
use std::time::Duration;

impl Keeper<'_> {
    /// Reads the receipts of what was settled or failed lately in a lane. Returns whether anything was signed again.
    pub(super) async fn look_at_claims(&mut self, lane: &LaneId, within: Duration) -> Result<bool, Fault> {
        let slots_max = u32::try_from(OPEN_SLOTS_PER_LANE_MAX).unwrap_or(u32::MAX);
        let payments = self.facilitator.store.closed_lately(lane, within, slots_max).await?;
        let mut claims = Vec::with_capacity(payments.len());
        for payment in &payments {
            claims.extend(self.claims_of(payment).await?.into_iter().map(|hash| (payment, hash)));
        }
        let hashes: Vec<B256> = claims.iter().map(|(_, hash)| *hash).collect();
        let mut signed = false;
        for ((payment, _), read) in
            claims.into_iter().zip(watch::receipts(&self.service.pool, &hashes).await?)
        {
            let pays = |receipt: &Receipt| outcome::pays(&payment.terms, receipt);
            match (payment.status, read) {
                (_, ReceiptRead::Unread) => {}
                (Status::Settled, ReceiptRead::Found(receipt)) if pays(&receipt) => {}
                (Status::Settled, read) => {
                    if let (ReceiptRead::Absent, Some(lane)) = (read, self.lane(lane.address)) {
                        // Whatever has taken its nonce may have taken more.
                        lane.introduce_anew();
                    }
                    signed |= self.bring_home(payment).await?;
                }
                (_, ReceiptRead::Found(receipt)) if pays(&receipt) => {
                    self.paid_after_all(payment, &receipt).await?
                }
                _ => {}
            }
        }
        Ok(signed)
    }

    /// What settled it; or whatever of ours would have paid, had it not failed.
    async fn claims_of(&self, payment: &Payment) -> Result<Vec<B256>, Fault> {
        if payment.status == Status::Settled {
            return Ok(payment.tx_hash.into_iter().collect());
        }
        let attempts = self.facilitator.store.attempts(payment.id).await?;
        Ok(executing(&attempts).map(|attempt| attempt.signed.hash).collect())
    }

    /// A settled payment whose transaction is gone, or has reverted.
    async fn bring_home(&mut self, payment: &Payment) -> Result<bool, Fault> {
        let attempts = self.facilitator.store.attempts(payment.id).await?;
        match outcome::of_consumed_slot(self.service, payment, Consumed::Foreign, &attempts).await? {
            Verdict::Unknown => Ok(false),
            // Another transaction has paid it in the meantime.
            Verdict::Final(Event::SettledAtDepth | Event::FoundElsewhere, _) => Ok(false),
            Verdict::Final(..) => {
                self.undone(
                    payment,
                    "a settled payment is undone, and its authorization cannot execute any more",
                );
                Ok(false)
            }
            Verdict::StillAlive if !self.would_pay(&attempts).await? => {
                self.undone(
                    payment,
                    "a settled payment is undone, and the token refuses to execute it again",
                );
                Ok(false)
            }
            Verdict::StillAlive => {
                let signed = self.sign_again(payment, &attempts).await?;
                if signed {
                    tracing::warn!(
                        network = %self.service.network(), settlement_id = %payment.id,
                        "the chain has undone a transaction that was final, and used its nonce; signed it again",
                    );
                    metrics::happened(self.service, Happened::Reorg);
                }
                Ok(signed)
            }
        }
    }

    /// Without money of its payer it would revert, at our cost.
    async fn would_pay(&self, attempts: &[Attempt]) -> Result<bool, Fault> {
        let Some(call) = executing(attempts).last().and_then(|attempt| call_of(&attempt.signed.raw)) else {
            return Ok(false);
        };
        Ok(watch::would_succeed(&self.service.pool, call.to, &call.data).await?)
    }

    /// A failed payment, and a transaction of ours that has paid it on another chain than the one on which it failed.
    async fn paid_after_all(&mut self, payment: &Payment, receipt: &Receipt) -> Result<(), Fault> {
        if outcome::is_deep(self.service, receipt).await? {
            self.undone(payment, "a payment that was told to have failed has paid after a reorganisation");
        }
        Ok(())
    }

    /// Once for each payment: what cannot be mended is the same at every look.
    fn undone(&mut self, payment: &Payment, what: &str) {
        if self.closed.undone.insert(payment.id) {
            tracing::warn!(network = %self.service.network(), settlement_id = %payment.id, "{what}");
            metrics::happened(self.service, Happened::Undone);
        }
    }
}

fn executing(attempts: &[Attempt]) -> impl DoubleEndedIterator<Item = &Attempt> {
    attempts.iter().filter(|attempt| attempt.signed.kind == AttemptKind::Payment)
}
