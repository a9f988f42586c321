//! Connections to the database, and waiting for one.

use sqlx::{Pool, Transaction, pool::PoolConnection};
use std::{
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{StoreError, driver::Dialect, transaction::bounded};

/// How long a caller waits for a database that serves nobody, before it is told that the store is unavailable.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// How long it waits for its turn while others have theirs: a crowd is no outage.
const TURN: Duration = Duration::from_secs(15);
/// How often it looks whether others have theirs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The connections of a pool, for one caller each, in the order in which they come.
pub(crate) struct Connections<D: Dialect> {
    pool: Pool<D>,
    turns: Turns,
}

/// What a caller has of the pool while it is its turn.
pub(crate) struct Taken<T> {
    taken: T,
    _turn: OwnedSemaphorePermit,
}

impl<D: Dialect> Connections<D> {
    pub(crate) fn of(pool: Pool<D>) -> Arc<Self> {
        let turns = usize::try_from(pool.options().get_max_connections()).unwrap_or(1);
        Arc::new(Self { pool, turns: Turns::new(turns) })
    }

    pub(crate) async fn take(&self) -> Result<Taken<PoolConnection<D>>, StoreError> {
        self.served(async { Ok(self.pool.acquire().await?) }).await
    }

    pub(crate) async fn begin(
        &self,
        how: &'static str,
    ) -> Result<Taken<Transaction<'static, D>>, StoreError> {
        self.served(bounded(self.pool.begin_with(how))).await
    }

    /// For whoever only asks whether the database is there: before those who wait for a turn.
    pub(crate) async fn take_at_once(&self) -> Result<PoolConnection<D>, StoreError> {
        Ok(self.pool.acquire().await?)
    }

    async fn served<T>(
        &self,
        take: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Taken<T>, StoreError> {
        let turn = self.turns.wait().await?;
        let taken = take.await?;
        self.turns.served.fetch_add(1, Ordering::Relaxed);
        Ok(Taken { taken, _turn: turn })
    }
}

impl<D: Dialect> Taken<Transaction<'static, D>> {
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        bounded(self.taken.commit()).await
    }
}

impl<T> Deref for Taken<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.taken
    }
}

impl<T> DerefMut for Taken<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.taken
    }
}

/// The queue in front of a pool. The pool has one too, and cannot tell a crowd from an outage.
struct Turns {
    free: Arc<Semaphore>,
    /// How many callers have got what they came for.
    served: AtomicU64,
}

impl Turns {
    fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), served: AtomicU64::new(0) }
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let mut turn = pin!(self.free.clone().acquire_owned());
        let (mut waited, mut silent) = (Duration::ZERO, Duration::ZERO);
        let mut served = self.served.load(Ordering::Relaxed);
        while waited < TURN && silent < SILENCE {
            if let Ok(turn) = timeout(LOOK_EVERY, &mut turn).await {
                return turn.map_err(|_| sqlx::Error::PoolClosed.into());
            }
            let before = std::mem::replace(&mut served, self.served.load(Ordering::Relaxed));
            silent = if served == before { silent + LOOK_EVERY } else { Duration::ZERO };
            waited += LOOK_EVERY;
        }
        Err(sqlx::Error::PoolTimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    /// Waits of callers that come at once, each of whom keeps its turn for so long; `None`: it got none.
    async fn waits(callers: u64, keeps: Duration, is_served: bool) -> Vec<Option<u64>> {
        let turns = Turns::new(1);
        let calls = (0..callers).map(|_| async {
            let come = Instant::now();
            let turn = turns.wait().await.ok()?;
            turns.served.fetch_add(u64::from(is_served), Ordering::Relaxed);
            let waited = come.elapsed().as_secs();
            sleep(keeps).await;
            drop(turn);
            Some(waited)
        });
        futures::future::join_all(calls).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_waits_as_long_as_others_are_served() {
        let seen = waits(6, Duration::from_secs(4), true).await;
        assert_eq!(seen, [Some(0), Some(4), Some(8), Some(12), None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_database_that_serves_nobody() {
        let begun = Instant::now();
        assert_eq!(waits(3, Duration::from_secs(60), true).await, [Some(0), None, None]);
        assert_eq!(waits(3, Duration::from_secs(4), false).await, [Some(0), Some(4), None]);
        assert_eq!(begun.elapsed().as_secs(), 60 + 8);
    }
}
