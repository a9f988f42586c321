//! What a consumed slot proves about its payment.
//!
//! All evidence hangs on one block, the head: state is read in exactly this block, and every receipt, and the block at the depth
//! at which outcomes are believed, must be on its chain by the word of one node. What does not fit together proves nothing, and
//! is looked at again.

use super::{
    again,
    trace::{self, trace_in},
};
use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::{Address, B256};
use quittance_evm::{
    sign::{call_of, signer_of},
    watch::{self, Head, Log, Receipt},
};
use quittance_protocol::{
    code::Code,
    payment::Authorization,
    scheme::exact_eip3009::{
        AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC, is_promised_transfer,
    },
    settlement::{Event, Evidence, NewPayment},
    units::LaneNonce,
};
use quittance_store::model::{Attempt, Payment};
use std::collections::BTreeMap;

/// What became of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Final.
    Final(Event, Evidence),
    /// It can still execute, and none of our bytes can execute it any more. After a revert of ours: another call can.
    StillAlive,
    /// Not known yet: look again.
    Unknown,
}

/// Our own transaction was mined successfully at depth: settled if it moved the money it promised, failed if the token says
/// in it that it used the authorization for less. `None`: the receipt shows neither, so that it proves nothing by itself.
pub(crate) fn of_success(terms: &NewPayment, receipt: &Receipt) -> Option<(Event, Evidence)> {
    if has_promised_transfer(terms, receipt) {
        let evidence = Evidence {
            tx_hash: Some(receipt.tx_hash),
            block_number: Some(receipt.block_number),
            ..Evidence::default()
        };
        return Some((Event::SettledAtDepth, evidence));
    }
    let is_used = receipt.logs.iter().any(|log| trace_in(terms, log) == Some(AUTHORIZATION_USED_TOPIC));
    (is_used && receipt.is_whole).then(|| (Event::ProvenFailed, mismatch(receipt)))
}

fn mismatch(receipt: &Receipt) -> Evidence {
    Evidence {
        reason: Some(Code::TransferEventMismatch),
        message: Some("the transaction succeeded without the token's Transfer(from, to, value)".into()),
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
    }
}

/// Whether our own transaction has paid.
pub(crate) fn pays(terms: &NewPayment, receipt: &Receipt) -> bool {
    receipt.success && has_promised_transfer(terms, receipt)
}

/// Whether a receipt is on the chain, so deep that outcomes are believed.
pub(crate) async fn is_deep(service: &NetworkService, receipt: &Receipt) -> Result<bool, Fault> {
    match Chain::read(service).await? {
        Some(chain) => chain.holds(service, Some(receipt)).await,
        None => Ok(false),
    }
}

/// Of a transaction that executes nothing else.
fn has_promised_transfer(terms: &NewPayment, receipt: &Receipt) -> bool {
    receipt.logs.iter().any(|log| log.address == terms.key.verifying_contract && is_promised(terms, log))
}

/// The same of a transaction that may execute several authorizations, ours or somebody else's: one transfer pays one of them. Tokens
/// log the use first and then what it moves, as Circle's do; or just the other way round. Which it is shows where every use of the
/// transaction has a transfer on that side. Where both would do, because somebody has put other transfers between, both must be the
/// promised one.
fn has_its_transfer(terms: &NewPayment, receipt: &Receipt) -> bool {
    let is = |log: &Log, topic| log.topics.first() == Some(&topic);
    let moves_or_uses = |log: &&Log| {
        log.address == terms.key.verifying_contract
            && (is(log, TRANSFER_TOPIC) || is(log, AUTHORIZATION_USED_TOPIC))
    };
    let logs: Vec<&Log> = receipt.logs.iter().filter(moves_or_uses).collect();
    let uses: Vec<usize> = (0..logs.len()).filter(|at| is(logs[*at], AUTHORIZATION_USED_TOPIC)).collect();
    let transfer = |at: usize| logs.get(at).copied().filter(|log| is(log, TRANSFER_TOPIC));
    let before = |at: &usize| at.checked_sub(1).and_then(transfer);
    let after = |at: &usize| transfer(at + 1);
    let is_its_use = |at: &&usize| trace_in(terms, logs[**at]) == Some(AUTHORIZATION_USED_TOPIC);
    let Some(own) = uses.iter().find(is_its_use) else { return false };
    let promised = |log: Option<&Log>| log.is_some_and(|log| is_promised(terms, log));
    let (paid_before, paid_after) = (promised(before(own)), promised(after(own)));
    if uses.len() == 1 {
        return paid_before || paid_after;
    }
    let all_before = uses.iter().all(|at| before(at).is_some());
    let all_after = uses.iter().all(|at| after(at).is_some());
    (all_before || all_after) && (paid_before || !all_before) && (paid_after || !all_after)
}

fn is_promised(terms: &NewPayment, log: &Log) -> bool {
    is_promised_transfer(&log.topics, &log.data, &authorization(terms))
}

fn authorization(terms: &NewPayment) -> Authorization {
    Authorization {
        from: terms.key.authorizer,
        to: terms.pay_to,
        value: terms.amount,
        valid_after: terms.valid_after,
        valid_before: terms.valid_before,
        nonce: terms.key.auth_nonce,
    }
}

/// What took the nonce of a payment's last slot without moving the money.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consumed<'a> {
    /// Our own attempt, which succeeded, and whose receipt says nothing of the authorization.
    Mute(&'a Receipt),
    /// Our own attempt, which reverted.
    Reverted(&'a Receipt),
    /// Our own filler: the payment was canceled.
    Canceled(&'a Receipt),
    /// A transaction that is not ours.
    Foreign,
}

/// The chain as the evidence sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: Head,
    /// The youngest block at the depth at which outcomes are believed.
    deep: Head,
}

impl Chain {
    /// `None`: it is not yet that deep.
    pub(crate) async fn read(service: &NetworkService) -> Result<Option<Self>, Fault> {
        let head = service.read_head().await?;
        let Some(number) = head.number.checked_sub(service.confirmations - 1) else { return Ok(None) };
        let deep = if number == head.number { head } else { watch::block(&service.pool, number).await? };
        Ok(Some(Self { head, deep }))
    }

    /// The same, on the word of a node of the right chain: for what is concluded from nothing but its state and its time.
    pub(crate) async fn read_proven(service: &NetworkService) -> Result<Option<Self>, Fault> {
        let Some(chain) = Self::read(service).await? else { return Ok(None) };
        Ok(chain.holds(service, None).await?.then_some(chain))
    }

    /// Whether the window of an authorization is over at depth: no later block can execute it.
    pub(crate) fn has_closed(&self, terms: &NewPayment) -> bool {
        self.deep.timestamp.to_u256() >= terms.valid_before
    }

    /// Whether this is one chain, and has a receipt at depth, if there is one that counts.
    async fn holds(&self, service: &NetworkService, receipt: Option<&Receipt>) -> Result<bool, Fault> {
        let block = receipt.map(|receipt| (receipt.block_number, receipt.block_hash));
        if block.is_some_and(|(number, _)| number > self.deep.number) {
            return Ok(false);
        }
        let own = [self.deep, self.head].map(|block| (block.number, block.hash));
        let blocks = block.into_iter().chain(own);
        let mut blocks: Vec<_> = blocks.map(|(number, hash)| (number, Some(hash))).collect();
        blocks.dedup();
        Ok(watch::on_one_chain(&service.pool, &blocks).await?)
    }
}

/// Every slot of the payment is consumed and none of our attempts moved the money. `attempts`: all ever signed for it.
///
/// `authorizationState` cannot tell used from canceled; the logs can.
pub(crate) async fn of_consumed_slot(
    service: &NetworkService,
    payment: &Payment,
    consumed: Consumed<'_>,
    attempts: &[Attempt],
) -> Result<Verdict, Fault> {
    if service.traces.have_had_their_time() || !service.traces.is_due(&payment.terms.key) {
        return Ok(Verdict::Unknown);
    }
    let Some(chain) = Chain::read(service).await? else { return Ok(Verdict::Unknown) };
    if !nothing_can_execute(service, &chain, consumed, attempts).await? {
        return Ok(Verdict::Unknown);
    }
    if let Some(verdict) = traced(service, payment, &chain, attempts).await? {
        return Ok(verdict);
    }
    if let Consumed::Reverted(receipt) = consumed
        && can_be_tried_again(service, payment, &chain, receipt, attempts).await?
    {
        return Ok(Verdict::StillAlive);
    }
    Ok(of_unused(&payment.terms, &chain, consumed))
}

/// Whether another call executes what ours did not, after our first transaction (docs/adr/0009).
async fn can_be_tried_again(
    service: &NetworkService,
    payment: &Payment,
    chain: &Chain,
    reverted: &Receipt,
    attempts: &[Attempt],
) -> Result<bool, Fault> {
    let Some((first, others)) = attempts.split_first() else { return Ok(false) };
    let is_first_slot = others.iter().all(|attempt| attempt.slot == first.slot);
    let Some(call) = call_of(&first.signed.raw) else { return Ok(false) };
    if !is_first_slot || has_expired(&payment.terms, &chain.head) {
        return Ok(false);
    }
    Ok(again::without_its_deployment(service, payment, &call, reverted.block_number).await?.is_some())
}

/// The same whatever became of the nonces we signed it under: their signer is no longer ours, so that nobody fills them. No block
/// takes an authorization that has expired; the block at depth and the state of a later one tell all there will ever be to know.
pub(crate) async fn of_expired(
    service: &NetworkService,
    payment: &Payment,
    attempts: &[Attempt],
) -> Result<Verdict, Fault> {
    if service.traces.have_had_their_time() || !service.traces.is_due(&payment.terms.key) {
        return Ok(Verdict::Unknown);
    }
    let Some(chain) = Chain::read(service).await? else { return Ok(Verdict::Unknown) };
    if !has_expired(&payment.terms, &chain.deep) || !chain.holds(service, None).await? {
        return Ok(Verdict::Unknown);
    }
    Ok(traced(service, payment, &chain, attempts).await?.unwrap_or_else(expired))
}

/// By the chain's own clock.
pub(crate) fn has_expired(terms: &NewPayment, block: &Head) -> bool {
    block.timestamp.to_u256() >= terms.valid_before
}

/// What the token and its logs say of an authorization that we have signed transactions for; `None`: it is unused.
async fn traced(
    service: &NetworkService,
    payment: &Payment,
    chain: &Chain,
    attempts: &[Attempt],
) -> Result<Option<Verdict>, Fault> {
    let (terms, key) = (&payment.terms, &payment.terms.key);
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    let used = watch::authorization_state(&service.pool, token, authorizer, nonce, &chain.head).await?;
    let found = if used {
        trace::find(service, payment, &chain.head).await?
    } else {
        // A node that says "unused" by mistake has a log that says otherwise.
        trace::find_late(service, terms, &chain.head).await?
    };
    let Some(hash) = found else { return Ok(used.then_some(Verdict::Unknown)) };
    let is_attempt = attempts.iter().any(|attempt| attempt.signed.hash == hash);
    of_trace(service, terms, chain, hash, is_attempt).await.map(Some)
}

/// The same of a payment that is reserved: as far as the store knows, nothing was ever signed for it.
pub(crate) async fn of_reserved(
    service: &NetworkService,
    chain: &Chain,
    payment: &Payment,
) -> Result<Verdict, Fault> {
    let (terms, key) = (&payment.terms, &payment.terms.key);
    if !service.traces.is_due(key) {
        return Ok(Verdict::Unknown);
    }
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    if !watch::authorization_state(&service.pool, token, authorizer, nonce, &chain.head).await? {
        return Ok(Verdict::StillAlive);
    }
    let Some(hash) = trace::find(service, payment, &chain.head).await? else { return Ok(Verdict::Unknown) };
    Ok(match of_trace(service, terms, chain, hash, false).await? {
        // "Failed" is what becomes of something that was signed.
        Verdict::Final(Event::ProvenFailed, evidence) => Verdict::Final(Event::Refused, evidence),
        verdict => verdict,
    })
}

/// Whether all nonces we ever signed it under are consumed at depth, and by what is said to have done it.
async fn nothing_can_execute(
    service: &NetworkService,
    chain: &Chain,
    consumed: Consumed<'_>,
    attempts: &[Attempt],
) -> Result<bool, Fault> {
    let by_us = match consumed {
        Consumed::Mute(receipt) | Consumed::Reverted(receipt) | Consumed::Canceled(receipt) => Some(receipt),
        Consumed::Foreign => None,
    };
    if !chain.holds(service, by_us).await? {
        return Ok(false);
    }
    let mut highest: BTreeMap<Address, LaneNonce> = BTreeMap::new();
    for attempt in attempts {
        let Some(signer) = signer_of(&attempt.signed.raw) else { return Ok(false) };
        let nonce = highest.entry(signer).or_insert(attempt.lane_nonce);
        *nonce = attempt.lane_nonce.max(*nonce);
    }
    for (signer, nonce) in highest {
        if watch::mined_nonce_in(&service.pool, signer, &chain.deep).await? <= nonce {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Unused, and nothing we signed can execute any more: whatever happens to it now is a new payment.
fn of_unused(terms: &NewPayment, chain: &Chain, consumed: Consumed<'_>) -> Verdict {
    let at = |receipt: &Receipt| Some((receipt.tx_hash, receipt.block_number));
    match consumed {
        // It has logs that the node does not show.
        Consumed::Mute(receipt) if !receipt.is_whole => Verdict::Unknown,
        Consumed::Mute(receipt) => Verdict::Final(Event::ProvenFailed, mismatch(receipt)),
        Consumed::Reverted(receipt) => {
            failed(Code::TransactionFailed, "the transaction was mined and reverted", at(receipt))
        }
        _ if has_expired(terms, &chain.deep) => expired(),
        _ if has_expired(terms, &chain.head) => Verdict::Unknown,
        Consumed::Canceled(receipt) => failed(
            Code::TransactionFailed,
            "the operator canceled the transaction before it was mined",
            at(receipt),
        ),
        Consumed::Foreign => Verdict::StillAlive,
    }
}

fn expired() -> Verdict {
    failed(Code::ValidBefore, "the authorization expired before it could be mined", None)
}

/// This transaction has used the authorization, or canceled it, if it is at depth.
async fn of_trace(
    service: &NetworkService,
    terms: &NewPayment,
    chain: &Chain,
    hash: B256,
    is_attempt: bool,
) -> Result<Verdict, Fault> {
    let is_signers = |sender| service.lanes.iter().any(|lane| lane.address() == sender);
    let verdict = |receipt: &Receipt| {
        let by = match receipt.sender.is_some_and(is_signers) {
            _ if is_attempt => By::ItsAttempt,
            true => By::Signer,
            false => By::Stranger,
        };
        of_traced(terms, receipt, by)
    };
    let decides = |receipt: &Receipt| verdict(receipt) != Verdict::Unknown;
    let Some(receipt) = watch::receipt_that(&service.pool, hash, decides).await else {
        return Ok(Verdict::Unknown);
    };
    Ok(if chain.holds(service, Some(&receipt)).await? { verdict(&receipt) } else { Verdict::Unknown })
}

/// Whose transaction has used an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// One that was signed for this payment: its call is in it, and does not fail alone.
    ItsAttempt,
    /// Another one of our signers, who are nobody else's: signed for this payment by a store that has lost its last commits, or for
    /// another payment, whose wallet or factory has used this authorization as well.
    Signer,
    Stranger,
}

fn of_traced(terms: &NewPayment, receipt: &Receipt, by: By) -> Verdict {
    let Some(topic) = receipt.logs.iter().find_map(|log| trace_in(terms, log)) else {
        return Verdict::Unknown;
    };
    let transaction = Some((receipt.tx_hash, receipt.block_number));
    if topic == AUTHORIZATION_CANCELED_TOPIC {
        return failed(Code::NonceAlreadyUsed, "the payer canceled the authorization", transaction);
    }
    let has_paid = has_its_transfer(terms, receipt);
    if by == By::ItsAttempt || (by == By::Signer && has_paid) {
        return of_success(terms, receipt)
            .map_or(Verdict::Unknown, |(event, evidence)| Verdict::Final(event, evidence));
    }
    if !has_paid && !receipt.is_whole {
        return Verdict::Unknown;
    }
    let evidence = Evidence {
        reason: Some(Code::NonceAlreadyUsed),
        message: Some("another transaction used this authorization; transaction names it".into()),
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
    };
    Verdict::Final(if has_paid { Event::FoundElsewhere } else { Event::ProvenFailed }, evidence)
}

fn failed(reason: Code, message: &str, transaction: Option<(B256, u64)>) -> Verdict {
    let evidence = Evidence {
        reason: Some(reason),
        message: Some(message.into()),
        tx_hash: transaction.map(|(hash, _)| hash),
        block_number: transaction.map(|(_, block)| block),
    };
    Verdict::Final(Event::ProvenFailed, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Bytes, U256};
    use quittance_protocol::{
        settlement::{Fingerprint, ReplayKey},
        units::{AuthNonce, Network, TokenAmount},
    };

    const TOKEN: Address = Address::repeat_byte(1);
    const PAYER: Address = Address::repeat_byte(2);
    const PAYEE: Address = Address::repeat_byte(3);

    fn terms(nonce: u8) -> NewPayment {
        NewPayment {
            key: ReplayKey {
                network: Network::from_chain_id(1).unwrap(),
                verifying_contract: TOKEN,
                authorizer: PAYER,
                auth_nonce: AuthNonce(B256::repeat_byte(nonce)),
            },
            fingerprint: Fingerprint(B256::ZERO),
            pay_to: PAYEE,
            amount: TokenAmount(U256::from(1_000)),
            valid_after: U256::ZERO,
            valid_before: U256::MAX,
            signature: None,
        }
    }

    fn log(topics: [B256; 3], data: Bytes) -> Log {
        let (transaction_hash, block_number, block_hash) = (None, None, None);
        Log { address: TOKEN, topics: topics.into(), data, transaction_hash, block_number, block_hash }
    }

    fn used(nonce: u8) -> Log {
        log([AUTHORIZATION_USED_TOPIC, PAYER.into_word(), B256::repeat_byte(nonce)], Bytes::new())
    }

    fn moved(to: Address, value: u64) -> Log {
        let data = U256::from(value).to_be_bytes::<32>();
        log([TRANSFER_TOPIC, PAYER.into_word(), to.into_word()], data.into())
    }

    fn receipt(logs: Vec<Log>) -> Receipt {
        Receipt {
            tx_hash: B256::ZERO,
            sender: None,
            success: true,
            block_number: 1,
            block_hash: B256::ZERO,
            logs,
            is_whole: true,
        }
    }

    #[test]
    fn a_transfer_belongs_to_one_authorization() {
        let (own, nothing) = (|| moved(PAYEE, 1_000), || moved(PAYER, 1));
        for (logs, pays_first, pays_second) in [
            (vec![used(1), own()], true, false),
            (vec![used(1), nothing(), used(2), own()], false, true),
            (vec![used(2), own(), used(1), nothing()], false, true),
            (vec![used(1), nothing(), own()], false, false),
            (vec![used(1), own(), used(2), own()], true, true),
            // Some tokens log what moved first.
            (vec![own(), used(1)], true, false),
            (vec![nothing(), used(2), own(), used(1)], true, false),
            // One of the two has none: nothing says which.
            (vec![own(), used(1), used(2)], false, false),
            (vec![used(1), used(2), own()], false, false),
            // Others have put theirs around it, so that either side could be the one.
            (vec![nothing(), used(2), own(), used(1), nothing()], false, false),
            (vec![nothing(), used(1), own(), used(2), nothing()], false, false),
            (vec![own(), used(1), own(), used(2), nothing()], true, false),
            (vec![nothing(), used(1), own()], true, false),
            (vec![own(), used(1), nothing()], true, false),
            (vec![own()], false, false),
            (vec![used(1), moved(PAYEE, 999)], false, false),
        ] {
            let receipt = receipt(logs);
            let pays = [1, 2].map(|nonce| has_its_transfer(&terms(nonce), &receipt));
            assert_eq!(pays, [pays_first, pays_second], "{:?}", receipt.logs);
        }
    }

    /// Of five that share payee and amount, a transaction executes one as it was promised, and the others for less.
    #[test]
    fn a_transaction_of_ours_pays_what_it_was_signed_for() {
        let receipt = receipt(vec![used(2), moved(PAYER, 1), used(1), moved(PAYEE, 1_000)]);
        let event = |nonce, by| match of_traced(&terms(nonce), &receipt, by) {
            Verdict::Final(event, _) => event,
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(event(1, By::ItsAttempt), Event::SettledAtDepth);
        assert_eq!(event(1, By::Signer), Event::SettledAtDepth);
        assert_eq!(event(1, By::Stranger), Event::FoundElsewhere);
        assert_eq!(event(2, By::Signer), Event::ProvenFailed);
        assert_eq!(event(2, By::Stranger), Event::ProvenFailed);
    }

    #[test]
    fn a_failure_needs_a_receipt_that_shows_the_use_and_all_its_logs() {
        let of = |logs, is_whole| of_success(&terms(1), &Receipt { is_whole, ..receipt(logs) });
        let event = |outcome: Option<(Event, Evidence)>| outcome.map(|(event, _)| event);
        for is_whole in [true, false] {
            assert_eq!(event(of(vec![used(1), moved(PAYEE, 1_000)], is_whole)), Some(Event::SettledAtDepth));
            assert_eq!(of(vec![], is_whole), None);
            assert_eq!(of(vec![moved(PAYEE, 999)], is_whole), None);
            assert_eq!(of(vec![used(2)], is_whole), None);
        }
        assert_eq!(event(of(vec![used(1)], true)), Some(Event::ProvenFailed));
        assert_eq!(of(vec![used(1)], false), None);
    }
}
