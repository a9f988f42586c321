//! What a consumed slot proves about its payment.

use crate::{fault::Fault, network::NetworkService};
use alloy_primitives::B256;
use quittance_evm::watch::{self, Log, Receipt};
use quittance_protocol::{
    code::Code,
    payment::Authorization,
    scheme::exact_eip3009::{AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, is_promised_transfer},
    settlement::{Event, Evidence, NewPayment},
};

/// How far back the log of a used authorization is looked for, in blocks.
const LOOK_BACK_BLOCKS: u64 = 20_000;
/// In how many blocks a question; nodes differ in what they allow, so a refused question is asked again in a smaller one.
const WINDOWS_BLOCKS: [u64; 3] = [2_000, 500, 100];

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

/// Every slot of the payment is consumed and none of our attempts moved the money. `ours`: hashes of all attempts ever
/// signed for it.
///
/// `authorizationState` cannot tell used from canceled; the logs can.
pub(crate) async fn of_consumed_slot(
    service: &NetworkService,
    terms: &NewPayment,
    consumed: Consumed<'_>,
    ours: &[B256],
) -> Result<Verdict, Fault> {
    let key = &terms.key;
    let head = watch::head(&service.pool).await?;
    let used =
        watch::authorization_state(&service.pool, key.verifying_contract, key.authorizer, key.auth_nonce.0)
            .await?;
    if used {
        return used_or_canceled(service, terms, head.number, ours).await;
    }
    let expired = head.timestamp.to_u256() >= terms.valid_before;
    let at = |receipt: &Receipt| Some((receipt.tx_hash, receipt.block_number));
    // Unused, and nothing we signed can execute any more: whatever happens to it now is a new payment.
    Ok(match consumed {
        Consumed::Reverted(receipt) => {
            failed(Code::TransactionFailed, "the transaction was mined and reverted", at(receipt))
        }
        _ if expired => failed(Code::ValidBefore, "the authorization expired before it could be mined", None),
        Consumed::Canceled(receipt) => failed(
            Code::TransactionFailed,
            "the operator canceled the transaction before it was mined",
            at(receipt),
        ),
        Consumed::Foreign => Verdict::StillAlive,
    })
}

async fn used_or_canceled(
    service: &NetworkService,
    terms: &NewPayment,
    head: u64,
    ours: &[B256],
) -> Result<Verdict, Fault> {
    if let Some((hash, block)) = find(service, terms, AUTHORIZATION_USED_TOPIC, head).await? {
        if head.saturating_sub(block).saturating_add(1) < service.confirmations {
            return Ok(Verdict::Unknown);
        }
        let Some(receipt) = watch::receipt_anywhere(&service.pool, hash).await? else {
            return Ok(Verdict::Unknown);
        };
        if ours.contains(&hash) {
            let (event, evidence) = of_success(terms, &receipt);
            return Ok(Verdict::Final(event, evidence));
        }
        let evidence = Evidence {
            reason: Some(Code::NonceAlreadyUsed),
            message: Some("somebody else submitted this authorization; transaction names it".into()),
            tx_hash: Some(hash),
            block_number: Some(block),
        };
        let event =
            if has_promised_transfer(terms, &receipt) { Event::FoundElsewhere } else { Event::ProvenFailed };
        return Ok(Verdict::Final(event, evidence));
    }
    if let Some((hash, block)) = find(service, terms, AUTHORIZATION_CANCELED_TOPIC, head).await? {
        return Ok(failed(
            Code::NonceAlreadyUsed,
            "the payer canceled the authorization",
            Some((hash, block)),
        ));
    }
    Ok(Verdict::Unknown)
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

/// The newest log of this kind for the authorization, window by window back from the head.
async fn find(
    service: &NetworkService,
    terms: &NewPayment,
    topic: B256,
    head: u64,
) -> Result<Option<(B256, u64)>, Fault> {
    let key = &terms.key;
    let topics = [Some(topic), Some(key.authorizer.into_word()), Some(key.auth_nonce.0)];
    let oldest = head.saturating_sub(LOOK_BACK_BLOCKS);
    let mut windows = WINDOWS_BLOCKS.into_iter();
    let mut window = windows.next().unwrap_or(1);
    let mut to = head;
    loop {
        let from = to.saturating_sub(window - 1).max(oldest);
        match watch::logs(&service.pool, key.verifying_contract, &topics, from, to).await {
            Ok(logs) => {
                if let Some(found) = logs.iter().rev().find_map(position) {
                    return Ok(Some(found));
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

fn position(log: &Log) -> Option<(B256, u64)> {
    Some((log.transaction_hash?, log.block_number?.to()))
}
