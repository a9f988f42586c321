//! Which identity each origin had when it was first verified here. The named identity may be an attacker's own agent, whose
//! file lists the victim's server (spec/payee.md §2.8): a change is not proof of that, but a payer should hear of it.
//!
//! In memory, and only what was verified: a restart forgets, which costs a note and no payment.

use quittance_protocol::payee::{Answer, Identity, Origin};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Origins and their identities. The first one stays: if the last one did, a changed identity would be noted once.
#[derive(Debug, Default)]
pub(super) struct Origins(Mutex<HashMap<Origin, Identity>>);

impl Origins {
    const ORIGINS_MAX: usize = 10_000;

    pub(super) fn identity_of(&self, origin: &Origin) -> Option<Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(origin).copied()
    }

    /// Remembers a verified answer, and says so in the log when it is not what is remembered.
    pub(super) fn learn(&self, answer: &Answer) {
        let (Some(origin), Some((identity, _))) = (&answer.origin, answer.identity) else { return };
        if !answer.outcome.is_verified() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(origin) {
            Some(earlier) if *earlier != identity => tracing::warn!(
                %origin, registry = %identity.registry, agent_id = %identity.agent_id,
                earlier_registry = %earlier.registry, earlier_agent_id = %earlier.agent_id,
                "an origin is verified under another identity than before",
            ),
            Some(_) => {}
            None if known.len() >= Self::ORIGINS_MAX => {}
            None => {
                known.insert(origin.clone(), identity);
            }
        }
    }
}
