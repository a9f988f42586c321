//! Which identity each origin had when it was first verified here. The named identity may be an attacker's own agent, whose
//! file lists the victim's server (spec/payee.md §2.8): a change is not proof of that, but a payer should hear of it.
//!
//! Remembered in the store, by all replicas together. What was read there is believed for a minute, so that a check that
//! has everything else at hand asks the store nothing.

use super::{cache::Cache, time::in_time};
use crate::clock;
use quittance_protocol::payee::{Answer, Fact, Identity, Origin};
use quittance_store::{Store, StoreError};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Origins and their identities. The first one stays: if the last one did, a changed identity would be noted once.
#[derive(Debug)]
pub(super) struct Origins {
    /// `None`: what this process has seen is all there is.
    store: Option<Arc<dyn Store>>,
    known: Cache<Origin, Known>,
    told_of_no_room: AtomicBool,
}

/// What the store says of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// Nothing, and it takes nothing more.
    NoRoom,
    First(Identity),
}

impl Known {
    fn first(self) -> Option<Identity> {
        match self {
            Self::First(identity) => Some(identity),
            Self::Nothing | Self::NoRoom => None,
        }
    }
}

impl Origins {
    /// Rows. Strangers choose origins, and nobody is pushed out: whoever could fill the table could otherwise have
    /// any origin forgotten. Beyond it, new origins are checked and not remembered.
    const ORIGINS_MAX: u32 = 100_000;
    /// So much later an operator's deletion is noticed, and what another replica has learned.
    const BELIEVED: Duration = Duration::from_secs(60);
    const CACHE_BYTES_MAX: usize = 4 << 20;

    pub(super) fn new(store: Option<Arc<dyn Store>>) -> Self {
        Self { store, known: Cache::new(Self::CACHE_BYTES_MAX), told_of_no_room: AtomicBool::new(false) }
    }

    /// The identity an origin was first verified under. A store that fails costs a note and no check.
    pub(super) async fn first_identity(&self, origin: &Origin, deadline: Instant) -> Option<Identity> {
        match (self.known.get(origin, clock::instant()), &self.store) {
            (Some(known), _) => known.first(),
            (None, None) => None,
            (None, Some(store)) => {
                let first = told(deadline, store.first_identity(origin)).await?;
                self.note(origin, first.map_or(Known::Nothing, Known::First));
                first
            }
        }
    }

    /// Remembers the identity of a verified answer if it is its origin's first; says so in the log if it is not. The first
    /// one, if the store knows it: another replica may have met it since [`Self::first_identity`] was asked.
    pub(super) async fn learn(&self, answer: &Answer, deadline: Instant) -> Option<Identity> {
        let (Some(origin), Some((identity, _))) = (&answer.origin, answer.identity) else { return None };
        if !answer.outcome.is_verified() {
            return None;
        }
        let known = match (self.known.get(origin, clock::instant()), &self.store) {
            (Some(known @ (Known::First(_) | Known::NoRoom)), _) => known,
            (Some(Known::Nothing) | None, Some(store)) => {
                let remembered = store.remember_identity(origin, &identity, Self::ORIGINS_MAX);
                let known = told(deadline, remembered).await?.map_or(Known::NoRoom, Known::First);
                self.note(origin, known);
                known
            }
            (Some(Known::Nothing) | None, None) => {
                self.note(origin, Known::First(identity));
                Known::First(identity)
            }
        };
        match known.first() {
            Some(first) if first != identity => tracing::warn!(
                %origin, registry = %identity.registry, agent_id = %identity.agent_id,
                first_registry = %first.registry, first_agent_id = %first.agent_id,
                "an origin is verified under another identity than before",
            ),
            Some(_) => {}
            None if self.told_of_no_room.swap(true, Ordering::Relaxed) => {}
            None => tracing::warn!(
                origins = Self::ORIGINS_MAX,
                "no room to remember the identities of more origins; see payee_origins in docs/PAYEE.md"
            ),
        }
        known.first()
    }

    fn note(&self, origin: &Origin, known: Known) {
        let believed = self.store.as_ref().map(|_| Self::BELIEVED);
        self.known.put(origin.clone(), known, origin.host().len(), believed, clock::instant());
    }
}

async fn told<T>(deadline: Instant, read: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    match in_time(deadline, "the store did not answer in time", read).await {
        Fact::Read(value) => return Some(value),
        Fact::Unread(reason) => tracing::warn!(%reason, "the first identities of origins are not known"),
        Fact::NotAsked => {}
    }
    None
}
