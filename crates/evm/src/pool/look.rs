//! Looks at endpoints that no request pays for.

use super::endpoints::Endpoints;
use crate::clock;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// While somebody asks, each endpoint's latest block is looked at this often; where something is wrong, and while an endpoint
/// rests, more often.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The longest a request waits for a look at the others.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// One task an endpoint at most. They end with this value.
#[derive(Debug, Default)]
pub(super) struct Looks {
    tasks: Mutex<JoinSet<()>>,
    others: tokio::sync::Mutex<()>,
}

impl Looks {
    /// Looks at every endpoint that was not looked at lately. With one endpoint there is nobody to compare it with.
    pub(super) fn around(&self, endpoints: &Arc<Endpoints>) {
        if endpoints.len() < 2 {
            return;
        }
        for index in 0..endpoints.len() {
            let Some(endpoint) = endpoints.get(index) else { continue };
            let wrong = !endpoints.keeps_up(index) || endpoint.health().is_failing();
            let every = if wrong { PROBE_EVERY } else { LOOK_EVERY };
            if endpoint.health().unseen_for(every, clock::instant()) {
                self.start(endpoints, index, Duration::ZERO);
            }
        }
    }

    /// Probes an endpoint until it answers, if it rests.
    pub(super) fn probe(&self, endpoints: &Arc<Endpoints>, index: usize) {
        if endpoints.get(index).is_some_and(|endpoint| endpoint.health().is_resting()) {
            self.start(endpoints, index, PROBE_EVERY);
        }
    }

    fn start(&self, endpoints: &Arc<Endpoints>, index: usize, after: Duration) {
        if !endpoints.get(index).is_some_and(|endpoint| endpoint.health().begin_look()) {
            return;
        }
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let endpoints = endpoints.clone();
        tasks.spawn(async move {
            sleep(after).await;
            loop {
                endpoints.look(index).await;
                if endpoints.get(index).is_none_or(|endpoint| endpoint.health().end_look(clock::instant())) {
                    return;
                }
                // An endpoint that is down must not be asked as fast as it fails.
                sleep(PROBE_EVERY).await;
            }
        });
    }

    /// Looks now at all others that were not looked at lately, and waits for it.
    pub(super) async fn at_others(&self, endpoints: &Endpoints, than: usize) {
        let look = async {
            // Requests that come together share one look.
            let _turn = self.others.lock().await;
            let unseen = |index: &usize| {
                *index != than
                    && endpoints.get(*index).is_some_and(|endpoint| {
                        let health = endpoint.health();
                        !health.is_resting() && health.unseen_for(LOOK_EVERY, clock::instant())
                    })
            };
            let unseen = (0..endpoints.len()).filter(unseen);
            futures::future::join_all(unseen.map(|index| endpoints.look(index))).await
        };
        // Without an answer there is nothing that speaks against the block.
        let _ = timeout(WAIT_MAX, look).await;
    }
}
