//! What goes by itself, off every request's way: reservations of dead authorizations, and old idempotency keys.

use crate::{
    clock,
    facilitator::Facilitator,
    fault::Fault,
    fault_point::{Point, reached},
    lane::outcome::{self, Chain, Verdict},
    metrics,
    network::NetworkService,
};
use futures::{StreamExt as _, stream};
use quittance_protocol::{
    settlement::{Event, Evidence},
    units::UnixSeconds,
};
use quittance_store::model::{Payment, SettlementId};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

/// How often reservations are looked at whose authorization has died lately.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// "Lately". What the chain did not tell in this time, it is asked again with all the others.
const LATELY: Duration = Duration::from_secs(600);
/// How often all of them are looked at, and old keys forgotten.
const SWEEP_ALL_EVERY: Duration = Duration::from_secs(60 * 60);
/// Reservations read at a time.
const BATCH_ROWS: u32 = 100;
/// Of these, those that the chain is asked about at a time.
const AT_ONCE: usize = 8;
/// Idempotency keys and payment identifiers are kept this long (docs/SETTLEMENT.md): 30 days.
const KEYS_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Ends the reservations of one network as what they were: never executed, or executed by somebody else.
pub(crate) async fn reservations(facilitator: Arc<Facilitator>, service: Arc<NetworkService>) {
    let mut all_at: Option<Instant> = None;
    while goes_on(&facilitator, SWEEP_EVERY).await {
        let all = all_at.is_none_or(|at| at.elapsed() >= SWEEP_ALL_EVERY);
        if all {
            all_at = Some(clock::instant());
        }
        if let Err(fault) = sweep_reservations(&facilitator, &service, all).await {
            tracing::warn!(network = %service.network(), %fault, "reservations were not swept");
        }
    }
}

async fn sweep_reservations(
    facilitator: &Facilitator,
    service: &NetworkService,
    all: bool,
) -> Result<(), Fault> {
    let lately = if all { None } else { Some(LATELY) };
    let mut after = (UnixSeconds(0), SettlementId(Uuid::nil()));
    loop {
        let batch = facilitator.store.outlived(service.network(), lately, after, BATCH_ROWS).await?;
        let Some((expired_at, last)) = batch.last() else { return Ok(()) };
        after = (*expired_at, last.id);
        // Again for every batch: nodes forget the state of old blocks.
        let Some(chain) = Chain::read_proven(service).await? else { return Ok(()) };
        stream::iter(&batch)
            .for_each_concurrent(AT_ONCE, |(_, payment)| async {
                // One that cannot be read holds up no other.
                if let Err(fault) = end(facilitator, service, &chain, payment).await {
                    tracing::warn!(settlement_id = %payment.id, %fault, "a reservation was not swept");
                }
            })
            .await;
    }
}

async fn end(
    facilitator: &Facilitator,
    service: &NetworkService,
    chain: &Chain,
    payment: &Payment,
) -> Result<(), Fault> {
    let (event, evidence) = match outcome::of_reserved(service, chain, payment).await? {
        Verdict::Final(event, evidence) => (event, evidence),
        Verdict::StillAlive => (Event::Refused, Evidence::outlived()),
        Verdict::Unknown => return Ok(()),
    };
    let ended = facilitator.store.transition(payment.id, payment.version, event, &evidence).await?;
    reached(Point::ReservationsExpired);
    if let Some(ended) = ended {
        metrics::ended(service, ended.status);
    }
    service.waiting.announce(payment.id);
    Ok(())
}

/// Forgets idempotency keys, but none that may still be needed.
pub(crate) async fn keys(facilitator: Arc<Facilitator>) {
    loop {
        match facilitator.store.forget_idempotency_keys(KEYS_KEPT).await {
            Ok(0) => {}
            Ok(forgotten) => {
                reached(Point::KeysForgotten);
                tracing::debug!(forgotten, "forgot old idempotency keys");
            }
            Err(fault) => tracing::warn!(%fault, "old idempotency keys were not forgotten"),
        }
        if !goes_on(&facilitator, SWEEP_ALL_EVERY).await {
            return;
        }
    }
}

/// Waits, and says whether there is anything to do then.
async fn goes_on(facilitator: &Facilitator, pause: Duration) -> bool {
    tokio::select! {
        () = facilitator.stopping.cancelled() => false,
        () = tokio::time::sleep(pause) => true,
    }
}
