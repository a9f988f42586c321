//! What a consumed slot proves about its payment.
//!
//! All evidence hangs on one block, the head: state is read in exactly this block, and every receipt, and the block at the depth
//! at which outcomes are believed, must be on its chain by the word of one node. What does not fit together proves nothing, and
//! is looked at again.

use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::{Address, B256};
use quittance_evm::{
    sign::signer_of,
    watch::{self, Head, Log, Receipt, ReceiptRead},
};
use quittance_protocol::{
    code::Code,
    payment::Authorization,
    scheme::exact_eip3009::{AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, is_promised_transfer},
    settlement::{Event, Evidence, NewPayment},
    units::LaneNonce,
};
use quittance_store::model::Attempt;
use std::collections::BTreeMap;

/// How far back the log of a used authorization is looked for, in blocks.
const LOOK_BACK_BLOCKS: u64 = 20_000;
/// In how many blocks a question; nodes differ in what they allow, so a refused question is asked again in a smaller one.
const WINDOWS_BLOCKS: [u64; 3] = [2_000, 500, 100];
/// What tokens log about an authorization.
const TRACES: [B256; 2] = [AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC];

/// What became of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Final.
    Final(Event, Evidence),
    /// It can still execute, and none of our bytes can execute it any more.
    StillAlive,
    /// Not known yet: look again.
    Unknown,
}

/// Our own transaction was mined successfully at depth: settled if it moved the money it promised.
pub(crate) fn of_success(terms: &NewPayment, receipt: &Receipt) -> (Event, Evidence) {
    let evidence = Evidence {
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
        ..Evidence::default()
    };
    if has_promised_transfer(terms, receipt) {
        return (Event::SettledAtDepth, evidence);
    }
    let evidence = Evidence {
        reason: Some(Code::TransferEventMismatch),
        message: Some("the transaction succeeded without the token's Transfer(from, to, value)".into()),
        ..evidence
    };
    (Event::ProvenFailed, evidence)
}

fn has_promised_transfer(terms: &NewPayment, receipt: &Receipt) -> bool {
    let authorization = authorization(terms);
    receipt.logs.iter().any(|log| {
        log.address == terms.key.verifying_contract
            && is_promised_transfer(&log.topics, &log.data, &authorization)
    })
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
    terms: &NewPayment,
    consumed: Consumed<'_>,
    attempts: &[Attempt],
) -> Result<Verdict, Fault> {
    let Some(chain) = Chain::read(service).await? else { return Ok(Verdict::Unknown) };
    if !nothing_can_execute(service, &chain, consumed, attempts).await? {
        return Ok(Verdict::Unknown);
    }
    let key = &terms.key;
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    let used = watch::authorization_state(&service.pool, token, authorizer, nonce, &chain.head).await?;
    // A node that says "unused" by mistake has a log that says otherwise; what took our turn did so lately.
    let look_back = if used { LOOK_BACK_BLOCKS } else { WINDOWS_BLOCKS[0] };
    let Some(hash) = newest_trace(service, terms, chain.head.number, look_back).await? else {
        return Ok(if used { Verdict::Unknown } else { of_unused(terms, &chain, consumed) });
    };
    let is_ours = attempts.iter().any(|attempt| attempt.signed.hash == hash);
    of_trace(service, terms, &chain, hash, is_ours).await
}

/// The same of a payment that is reserved: nothing was ever signed for it, so that whatever has used its nonce was somebody
/// else's.
pub(crate) async fn of_reserved(
    service: &NetworkService,
    chain: &Chain,
    terms: &NewPayment,
) -> Result<Verdict, Fault> {
    let key = &terms.key;
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    if !watch::authorization_state(&service.pool, token, authorizer, nonce, &chain.head).await? {
        return Ok(Verdict::StillAlive);
    }
    let Some(hash) = newest_trace(service, terms, chain.head.number, LOOK_BACK_BLOCKS).await? else {
        return Ok(Verdict::Unknown);
    };
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
        Consumed::Reverted(receipt) | Consumed::Canceled(receipt) => Some(receipt),
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
    let expired = |block: &Head| block.timestamp.to_u256() >= terms.valid_before;
    let at = |receipt: &Receipt| Some((receipt.tx_hash, receipt.block_number));
    match consumed {
        Consumed::Reverted(receipt) => {
            failed(Code::TransactionFailed, "the transaction was mined and reverted", at(receipt))
        }
        _ if expired(&chain.deep) => {
            failed(Code::ValidBefore, "the authorization expired before it could be mined", None)
        }
        _ if expired(&chain.head) => Verdict::Unknown,
        Consumed::Canceled(receipt) => failed(
            Code::TransactionFailed,
            "the operator canceled the transaction before it was mined",
            at(receipt),
        ),
        Consumed::Foreign => Verdict::StillAlive,
    }
}

/// This transaction has used the authorization, or canceled it, if it is at depth.
async fn of_trace(
    service: &NetworkService,
    terms: &NewPayment,
    chain: &Chain,
    hash: B256,
    is_ours: bool,
) -> Result<Verdict, Fault> {
    let [ReceiptRead::Found(receipt)] = &watch::receipts_anywhere(&service.pool, &[hash]).await[..] else {
        return Ok(Verdict::Unknown);
    };
    if !chain.holds(service, Some(receipt)).await? {
        return Ok(Verdict::Unknown);
    }
    Ok(of_traced(terms, receipt, is_ours))
}

fn of_traced(terms: &NewPayment, receipt: &Receipt, is_ours: bool) -> Verdict {
    let Some(topic) = receipt.logs.iter().find_map(|log| trace_in(terms, log)) else {
        return Verdict::Unknown;
    };
    if topic == AUTHORIZATION_CANCELED_TOPIC {
        let transaction = Some((receipt.tx_hash, receipt.block_number));
        return failed(Code::NonceAlreadyUsed, "the payer canceled the authorization", transaction);
    }
    if is_ours {
        let (event, evidence) = of_success(terms, receipt);
        return Verdict::Final(event, evidence);
    }
    let evidence = Evidence {
        reason: Some(Code::NonceAlreadyUsed),
        message: Some("somebody else submitted this authorization; transaction names it".into()),
        tx_hash: Some(receipt.tx_hash),
        block_number: Some(receipt.block_number),
    };
    let event =
        if has_promised_transfer(terms, receipt) { Event::FoundElsewhere } else { Event::ProvenFailed };
    Verdict::Final(event, evidence)
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

/// What a log says of the authorization: used, or canceled.
fn trace_in(terms: &NewPayment, log: &Log) -> Option<B256> {
    let key = &terms.key;
    let [topic, authorizer, nonce] = log.topics[..] else { return None };
    let is_ours = log.address == key.verifying_contract
        && authorizer == key.authorizer.into_word()
        && nonce == key.auth_nonce.0;
    (is_ours && TRACES.contains(&topic)).then_some(topic)
}

/// The transaction with the newest log of the authorization, window by window back from the head.
async fn newest_trace(
    service: &NetworkService,
    terms: &NewPayment,
    head: u64,
    look_back: u64,
) -> Result<Option<B256>, Fault> {
    let key = &terms.key;
    let topics = [&TRACES[..], &[key.authorizer.into_word()], &[key.auth_nonce.0]];
    let oldest = head.saturating_sub(look_back - 1);
    let mut windows = WINDOWS_BLOCKS.into_iter();
    let mut window = windows.next().unwrap_or(1);
    let mut to = head;
    loop {
        let from = to.saturating_sub(window - 1).max(oldest);
        match watch::logs(&service.pool, key.verifying_contract, &topics, from, to).await {
            Ok(logs) => {
                let ours = logs.iter().rev().filter(|log| trace_in(terms, log).is_some());
                if let Some(hash) = ours.filter_map(|log| log.transaction_hash).next() {
                    return Ok(Some(hash));
                }
                if from <= oldest {
                    return Ok(None);
                }
                to = from - 1;
            }
            Err(fault) => window = windows.next().ok_or(fault)?,
        }
    }
}
