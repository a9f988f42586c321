//! What to do about an open slot: pure, from rows and what the chain said. The keeper executes it.

use quittance_evm::watch::{Head, Receipt};
use quittance_protocol::settlement::Status;
use quittance_store::model::{AttemptKind, OpenSlot, SlotOutcome};
use std::time::Duration;

/// Without a receipt for this long, the identical bytes are sent again, though no block has come.
pub(crate) const REBROADCAST_AFTER: Duration = Duration::from_secs(4);
/// A block without them says that the node may not have them, unless it was on its way when they were sent.
const MISSED_AFTER: Duration = Duration::from_secs(1);
/// Nobody has said that it took the bytes: what waits behind them on the lane should not wait for a block as well.
const UNHEARD_AFTER: Duration = Duration::from_millis(500);
/// Without a receipt for this long, an attempt below the market is replaced.
pub(crate) const REPLACE_AFTER: Duration = Duration::from_secs(30);
/// A replacement is replaced at the earliest after this long.
pub(crate) const RAISE_AFTER: Duration = Duration::from_secs(3);

/// What this process knows of one attempt beyond its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptView {
    /// The receipt, if the chain has one.
    pub(crate) receipt: Option<Receipt>,
    /// Since this process sent it; `None`: it never did.
    pub(crate) sent_ago: Option<Duration>,
    /// The newest block when its absence was first seen after it was sent.
    pub(crate) absent_from: Option<u64>,
    /// No node said what it thinks of it when it was last sent.
    pub(crate) unheard: bool,
    /// Since it was signed.
    pub(crate) signed_ago: Duration,
    /// A node said the fee is too low.
    pub(crate) underpriced: bool,
}

/// What the chain said about the lane and itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainView {
    /// Latest block, when it was read.
    pub(crate) head: Option<Head>,
    /// The lane's transaction count, when it was read before the receipts were.
    pub(crate) mined_nonce: Option<u64>,
    /// What the market wants as a tip.
    pub(crate) tip: u128,
    /// Blocks that make an outcome believed.
    pub(crate) confirmations: u64,
    /// The node has just lost what it held of this lane.
    pub(crate) pool_lost: bool,
    /// The foreign transaction was already seen in an earlier pass.
    pub(crate) foreign_seen_before: bool,
}

/// One thing to do about a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send the attempt at this index (again).
    Send(usize),
    /// A receipt was seen, not at depth yet.
    Mined(Receipt),
    /// The receipt seen earlier is gone.
    Reorged,
    /// The attempt at this index is in a block at depth: judge the payment by it, then close the slot.
    Conclude(usize, Receipt),
    /// A transaction that is not ours took the nonce.
    Foreign,
    /// Looks foreign; look again before believing it.
    SuspectForeign,
    /// Replace the newest attempt by one with higher fees.
    Replace,
    /// The authorization is dead: fill the slot with nothing.
    Cancel,
    /// The payment is final; only the slot is still open.
    Close(SlotOutcome),
}

/// What to do about one slot. `lowest`: no lower nonce of the lane is open. Only that one is sent again, replaced or
/// canceled, since none above it can be mined before; the others follow when a node turns out to have lost them.
pub(crate) fn plan(
    slot: &OpenSlot,
    attempts: &[AttemptView],
    chain: &ChainView,
    lowest: bool,
) -> Vec<Action> {
    let mined = attempts.iter().enumerate().find_map(|(i, view)| Some((i, view.receipt.as_ref()?)));
    if let Some((index, receipt)) = mined {
        return with_receipt(slot, index, receipt, chain);
    }
    let payment_status = slot.payment.as_ref().map(|payment| payment.status);
    if payment_status == Some(Status::Mined) {
        // Fall back first; the next pass sends again.
        return vec![Action::Reorged];
    }
    if chain.mined_nonce.is_some_and(|count| count > slot.lane_nonce.0) {
        return vec![if chain.foreign_seen_before { Action::Foreign } else { Action::SuspectForeign }];
    }
    let Some(newest) = attempts.last() else { return Vec::new() };
    let index = attempts.len().saturating_sub(1);
    if newest.sent_ago.is_none() {
        return vec![Action::Send(index)];
    }
    if !lowest {
        return if chain.pool_lost { vec![Action::Send(index)] } else { Vec::new() };
    }
    if is_expired(slot, chain) && newest_kind(slot) == Some(AttemptKind::Payment) {
        return vec![Action::Cancel];
    }
    // A node that finds every offer too low must not drive it up at the pace of our looks.
    let may_raise = attempts.len() == 1 || newest.signed_ago >= RAISE_AFTER;
    if may_raise && (newest.underpriced || below_market(slot, newest, chain)) {
        return vec![Action::Replace];
    }
    if is_overdue(newest, chain) {
        return vec![Action::Send(index)];
    }
    Vec::new()
}

/// Once a block, or more often where blocks are rare: a node that dropped it must have it again before the next one. Sooner
/// where it may never have arrived.
fn is_overdue(newest: &AttemptView, chain: &ChainView) -> bool {
    let another_block = match (newest.absent_from, chain.head) {
        (Some(block), Some(head)) => head.number > block,
        _ => false,
    };
    let patience = match newest.unheard {
        true => UNHEARD_AFTER,
        false if another_block => MISSED_AFTER,
        false => REBROADCAST_AFTER,
    };
    newest.sent_ago.is_some_and(|ago| ago >= patience)
}

fn with_receipt(slot: &OpenSlot, index: usize, receipt: &Receipt, chain: &ChainView) -> Vec<Action> {
    let depth = match chain.head {
        Some(head) => head.number.saturating_sub(receipt.block_number).saturating_add(1),
        // The block that holds it is one confirmation in itself.
        None => 1,
    };
    if depth >= chain.confirmations {
        return match &slot.payment {
            Some(payment) if payment.status.is_terminal() => vec![Action::Close(SlotOutcome::Ours)],
            _ => vec![Action::Conclude(index, receipt.clone())],
        };
    }
    match &slot.payment {
        Some(payment) if payment.status == Status::Signed => vec![Action::Mined(receipt.clone())],
        _ => Vec::new(),
    }
}

/// By the chain's own clock: before that, the bytes in the world can still execute.
fn is_expired(slot: &OpenSlot, chain: &ChainView) -> bool {
    match (&slot.payment, chain.head) {
        (Some(payment), Some(head)) => super::outcome::has_expired(&payment.terms, &head),
        _ => false,
    }
}

fn newest_kind(slot: &OpenSlot) -> Option<AttemptKind> {
    slot.attempts.last().map(|attempt| attempt.signed.kind)
}

/// The next block would not take it, or others are taken before it for too long.
fn below_market(slot: &OpenSlot, newest: &AttemptView, chain: &ChainView) -> bool {
    let (Some(attempt), Some(head)) = (slot.attempts.last(), chain.head) else { return false };
    let fees = super::fees_of(&attempt.signed);
    let waited = newest.signed_ago >= REPLACE_AFTER;
    match head.base_fee {
        Some(base_fee) => {
            fees.max_fee_per_gas < base_fee
                || waited
                    && (fees.max_priority_fee_per_gas < chain.tip
                        || fees.max_fee_per_gas < base_fee.saturating_add(fees.max_priority_fee_per_gas))
        }
        // All of the price is tip.
        None => waited && fees.max_fee_per_gas < chain.tip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, Bytes, U256};
    use quittance_protocol::{
        settlement::{Fingerprint, NewPayment, ReplayKey},
        units::{AuthNonce, LaneNonce, Network, TokenAmount, UnixSeconds},
    };
    use quittance_store::model::{Attempt, LaneId, NewAttempt, Payment, SettlementId, SlotId};

    fn slot(status: Status) -> OpenSlot {
        let network = Network::from_chain_id(1).unwrap();
        let payment = Payment {
            id: SettlementId(uuid::Uuid::nil()),
            version: 1,
            terms: NewPayment {
                key: ReplayKey {
                    network,
                    verifying_contract: Address::ZERO,
                    authorizer: Address::ZERO,
                    auth_nonce: AuthNonce(B256::ZERO),
                },
                fingerprint: Fingerprint(B256::ZERO),
                pay_to: Address::ZERO,
                amount: TokenAmount(U256::ZERO),
                valid_after: U256::ZERO,
                valid_before: U256::from(1_000),
                signature: None,
            },
            status,
            reason: None,
            message: None,
            tx_hash: None,
            block_number: None,
            judged_in_block: None,
            last_answer: None,
            answer_in_flight: false,
            payee: None,
            answers: 0,
            created_at: 0,
            updated_at: 0,
        };
        let attempt = Attempt {
            slot: SlotId(1),
            sequence: 0,
            lane_nonce: LaneNonce(7),
            signed: NewAttempt {
                kind: AttemptKind::Payment,
                raw: Bytes::new(),
                hash: B256::ZERO,
                max_fee_per_gas: 20,
                max_priority_fee_per_gas: 2,
                gas_limit: 100_000,
            },
            created_at: 0,
        };
        OpenSlot {
            id: SlotId(1),
            lane: LaneId { network, address: Address::ZERO },
            lane_nonce: LaneNonce(7),
            payment: Some(payment),
            attempts: vec![attempt],
            signed_ago: vec![Duration::ZERO],
        }
    }

    fn receipt(block_number: u64) -> Receipt {
        Receipt {
            tx_hash: B256::ZERO,
            sender: None,
            success: true,
            block_number,
            block_hash: B256::ZERO,
            logs: Vec::new(),
            is_whole: true,
        }
    }

    fn head(number: u64, timestamp: u64, base_fee: u128) -> Option<Head> {
        Some(Head { number, hash: B256::ZERO, timestamp: UnixSeconds(timestamp), base_fee: Some(base_fee) })
    }

    fn sent(seconds: u64) -> AttemptView {
        let ago = Duration::from_secs(seconds);
        AttemptView { sent_ago: Some(ago), signed_ago: ago, ..Default::default() }
    }

    fn chain() -> ChainView {
        ChainView { head: head(100, 500, 9), confirmations: 1, tip: 2, ..Default::default() }
    }

    #[test]
    fn restart_with_signed_sends_what_may_never_have_been_sent() {
        let unsent = AttemptView::default();
        assert_eq!(plan(&slot(Status::Signed), &[unsent], &chain(), false), [Action::Send(0)]);
    }

    #[test]
    fn what_nobody_said_to_have_is_sent_again_soon() {
        let ago = |millis, unheard| {
            let ago = Duration::from_millis(millis);
            AttemptView { sent_ago: Some(ago), signed_ago: ago, unheard, ..Default::default() }
        };
        let plan = |view| plan(&slot(Status::Signed), &[view], &chain(), true);
        assert_eq!(plan(ago(499, true)), []);
        assert_eq!(plan(ago(500, true)), [Action::Send(0)]);
        assert_eq!(plan(ago(3_999, false)), []);
    }

    #[test]
    fn a_receipt_decides_only_at_depth() {
        let view = AttemptView { receipt: Some(receipt(100)), ..sent(0) };
        let deep = ChainView { confirmations: 3, ..chain() };
        let s = slot(Status::Signed);
        assert_eq!(plan(&s, std::slice::from_ref(&view), &deep, true), [Action::Mined(receipt(100))]);
        let deeper = ChainView { head: head(102, 500, 9), ..deep };
        assert_eq!(plan(&s, std::slice::from_ref(&view), &deeper, true), [Action::Conclude(0, receipt(100))]);
        let no_head = ChainView { head: None, ..chain() };
        assert_eq!(plan(&s, &[view], &no_head, true), [Action::Conclude(0, receipt(100))]);
    }

    #[test]
    fn a_vanished_receipt_is_a_reorg() {
        assert_eq!(plan(&slot(Status::Mined), &[sent(1)], &chain(), true), [Action::Reorged]);
    }

    #[test]
    fn a_foreign_transaction_is_believed_on_second_sight() {
        let s = slot(Status::Signed);
        let once = ChainView { mined_nonce: Some(8), ..chain() };
        assert_eq!(plan(&s, &[sent(3)], &once, true), [Action::SuspectForeign]);
        let twice = ChainView { foreign_seen_before: true, ..once };
        assert_eq!(plan(&s, &[sent(3)], &twice, true), [Action::Foreign]);
        let ours_next = ChainView { mined_nonce: Some(7), ..chain() };
        assert_eq!(plan(&s, &[sent(3)], &ours_next, true), []);
    }

    #[test]
    fn dropped_transaction_is_sent_again_but_only_at_the_front_of_its_lane() {
        let s = slot(Status::Signed);
        assert_eq!(plan(&s, &[sent(5)], &chain(), true), [Action::Send(0)]);
        assert_eq!(plan(&s, &[sent(5)], &chain(), false), []);
        assert_eq!(plan(&s, &[sent(1)], &chain(), true), []);
        let lost = ChainView { pool_lost: true, ..chain() };
        assert_eq!(plan(&s, &[sent(0)], &lost, false), [Action::Send(0)]);
    }

    #[test]
    fn dropped_transaction_is_sent_again_once_a_block() {
        let s = slot(Status::Signed);
        let absent_from = |block, seconds| AttemptView { absent_from: Some(block), ..sent(seconds) };
        assert_eq!(plan(&s, &[absent_from(99, 1)], &chain(), true), [Action::Send(0)]);
        assert_eq!(plan(&s, &[absent_from(99, 0)], &chain(), true), [], "the block was on its way");
        assert_eq!(plan(&s, &[absent_from(100, 3)], &chain(), true), [], "the same block");
        assert_eq!(plan(&s, &[absent_from(100, 4)], &chain(), true), [Action::Send(0)]);
        assert_eq!(plan(&s, &[absent_from(99, 3)], &chain(), false), []);
    }

    #[test]
    fn fee_bump_when_the_base_fee_outgrows_the_offer_or_a_node_says_so() {
        let s = slot(Status::Signed);
        let dear = ChainView { head: head(100, 500, 21), ..chain() };
        assert_eq!(plan(&s, &[sent(1)], &dear, true), [Action::Replace]);
        let refused = AttemptView { underpriced: true, ..sent(1) };
        assert_eq!(plan(&s, &[refused], &chain(), true), [Action::Replace]);
        let again = AttemptView { underpriced: true, ..sent(1) };
        assert_eq!(plan(&s, &[sent(1), again.clone()], &chain(), true), []);
        assert_eq!(
            plan(&s, &[sent(4), AttemptView { signed_ago: RAISE_AFTER, ..again }], &chain(), true),
            [Action::Replace]
        );
        let slow = ChainView { tip: 3, ..chain() };
        assert_eq!(plan(&s, &[sent(1)], &slow, true), []);
        let mut old = sent(1);
        old.signed_ago = REPLACE_AFTER;
        assert_eq!(plan(&s, &[old], &slow, true), [Action::Replace]);
    }

    #[test]
    fn fee_bump_when_the_gas_price_outgrows_the_offer() {
        let s = slot(Status::Signed);
        let legacy = |price| ChainView {
            head: Some(Head { base_fee: None, ..head(100, 500, 0).unwrap() }),
            tip: price,
            ..chain()
        };
        let old = AttemptView { signed_ago: REPLACE_AFTER, ..sent(1) };
        assert_eq!(plan(&s, std::slice::from_ref(&old), &legacy(21), true), [Action::Replace]);
        assert_eq!(plan(&s, &[old], &legacy(20), true), [], "as much as is asked for");
        assert_eq!(plan(&s, &[sent(1)], &legacy(21), true), [], "it may still be taken");
    }

    #[test]
    fn an_expired_authorization_frees_its_slot_by_the_chains_clock() {
        let s = slot(Status::Signed);
        let before = ChainView { head: head(100, 999, 9), ..chain() };
        assert_eq!(plan(&s, &[sent(1)], &before, true), []);
        let after = ChainView { head: head(100, 1_000, 9), ..chain() };
        assert_eq!(plan(&s, &[sent(1)], &after, true), [Action::Cancel]);
    }

    #[test]
    fn a_crash_between_outcome_and_slot_closes_the_slot() {
        let view = AttemptView { receipt: Some(receipt(90)), ..sent(9) };
        assert_eq!(plan(&slot(Status::Settled), &[view], &chain(), true), [Action::Close(SlotOutcome::Ours)]);
    }
}
