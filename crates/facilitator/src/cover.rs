//! One balance is promised once: what a payer promises here is covered by what it has.
//!
//! The statement that reserves adds up, and its sum can be too high: a payment may have been executed, and its row does not
//! say so yet, or somebody else executed it, or it can be executed no more. So what looks uncovered is looked at on chain
//! before it is refused. Nothing else costs a round trip.

use crate::{facilitator::Facilitator, fault::Fault, lane::room::Queues, network::NetworkService};
use alloy_primitives::U256;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use quittance_evm::{
    RpcFault,
    watch::{self, Head},
};
use quittance_protocol::{code::Code, rules::VerifiedPayment, settlement::NewPayment, wire::Refusal};
use quittance_store::model::{self, Funds, Payment, Reservation, Reserve, SettlementId};
use std::{sync::LazyLock, time::Duration};
use tokio::sync::Semaphore;

/// How often it is looked at: others may promise in between.
const LOOKS_MAX: usize = 3;
/// Promises of one payer that the chain is asked about, oldest first; the others count as they are.
const ASKED_ABOUT_MAX: usize = 64;
/// Of these, those that it is asked about at a time.
const AT_ONCE: usize = 8;
/// Looks of this process at a time, of which a payer has one: nobody whose purse is nearly empty keeps the nodes busy, or others
/// waiting.
static PLACES: Semaphore = Semaphore::const_new(4);
static QUEUES: LazyLock<Queues> = LazyLock::new(Queues::default);
/// How long a look waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reserves a payment if its payer's balance covers it beside what else the payer has promised.
pub(crate) async fn reserve(
    facilitator: &Facilitator,
    service: &NetworkService,
    verified: &VerifiedPayment,
    reservation: Reservation<'_>,
) -> Result<Reserve, Fault> {
    let terms = reservation.terms;
    // Whoever pays nothing, or itself, is as rich afterwards.
    let is_spent = !terms.amount.0.is_zero() && terms.pay_to != terms.key.authorizer;
    let mut purse = verified.payer_balance().filter(|_| is_spent).map(|balance| Purse {
        balance,
        block_number: verified.block_number(),
        over: Vec::new(),
    });
    for _ in 0..LOOKS_MAX {
        let funds = purse.as_ref().map(Purse::funds);
        match facilitator.store.reserve(&Reservation { funds, ..reservation }).await? {
            Reserve::Uncovered => {}
            reserve => return Ok(reserve),
        }
        purse = look(facilitator, service, terms, verified.block_number()).await?;
        if purse.is_none() {
            return Ok(Reserve::Uncovered);
        }
    }
    Err(Fault::Busy)
}

/// What a payer has, and which of its promises it owes nothing.
struct Purse {
    balance: U256,
    block_number: u64,
    over: Vec<SettlementId>,
}

impl Purse {
    fn funds(&self) -> Funds<'_> {
        Funds { balance: self.balance, block_number: self.block_number, over: &self.over }
    }
}

pub(crate) fn uncovered() -> Refusal {
    Refusal::new(
        Code::InsufficientBalance,
        "the payer's balance is promised to other payments that are pending here",
    )
}

/// What covers the payment; `None`: nothing does.
async fn look(
    facilitator: &Facilitator,
    service: &NetworkService,
    terms: &NewPayment,
    judged_at: u64,
) -> Result<Option<Purse>, Fault> {
    let key = &terms.key;
    let queue = QUEUES.of(key.authorizer, 1);
    let turn = async { (queue.acquire_owned().await, PLACES.acquire().await) };
    let _turn = tokio::time::timeout(PATIENCE, turn).await.map_err(|_| Fault::Busy)?;
    let mut head = service.read_head().await?;
    if head.number < judged_at {
        // One URL can be many nodes.
        head = service.read_head().await?;
    }
    if head.number < judged_at {
        return Err(RpcFault::Lagging { method: "eth_getBlockByNumber" }.into());
    }
    let balance = watch::balance_of(&service.pool, key.verifying_contract, key.authorizer, &head).await?;
    let promises = facilitator.store.promises(key, head.number).await?;
    if promises.len() >= model::PROMISES_MAX {
        return Err(Fault::Busy);
    }
    let (asked, others) = promises.split_at(promises.len().min(ASKED_ABOUT_MAX));
    let looks: Vec<_> = asked
        .iter()
        .map(|payment| {
            let is_over = is_over(service, payment, &head);
            async move { Ok::<_, Fault>((payment, is_over.await?)) }
        })
        .collect();
    let asked: Vec<(&Payment, bool)> = stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await?;
    let (mut needed, mut over) = (terms.amount.0, Vec::new());
    for (payment, is_over) in asked.into_iter().chain(others.iter().map(|payment| (payment, false))) {
        if is_over {
            over.push(payment.id);
        } else {
            needed = needed.saturating_add(payment.terms.amount.0);
        }
    }
    Ok((needed <= balance).then_some(Purse { balance, block_number: head.number, over }))
}

/// Whether the balance at this block owes a payment nothing: it is executed or canceled, or its window has closed.
async fn is_over(service: &NetworkService, payment: &Payment, head: &Head) -> Result<bool, Fault> {
    let (terms, key) = (&payment.terms, &payment.terms.key);
    if head.timestamp.to_u256() >= terms.valid_before {
        return Ok(true);
    }
    let (token, authorizer, nonce) = (key.verifying_contract, key.authorizer, key.auth_nonce.0);
    Ok(watch::authorization_state(&service.pool, token, authorizer, nonce, head).await?)
}
