//! Strangers choose where fetches go, so there are only so many at once: in all, and to each host.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Things that exist while somebody uses them, by name.
pub(super) struct ByName<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T> fmt::Debug for ByName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> ByName<T> {
    /// Names nobody uses any more are forgotten at this many.
    const NAMES_MAX: usize = 256;

    pub(super) fn get(&self, name: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = named.get(name).and_then(Weak::upgrade) {
            return there;
        }
        if named.len() >= Self::NAMES_MAX {
            named.retain(|_, there| there.strong_count() > 0);
        }
        let new = Arc::new(make());
        named.insert(name.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// Places for fetches.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    hosts: ByName<Semaphore>,
}

impl Places {
    const FETCHES_MAX: usize = 32;
    const FETCHES_PER_HOST_MAX: usize = 2;

    pub(super) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(Self::FETCHES_MAX)), hosts: ByName::default() }
    }

    /// The host's place first: who waits for a slow host must not keep a place from the others.
    pub(super) async fn take(&self, host: &str) -> Option<Place> {
        let host = self.hosts.get(host, || Semaphore::new(Self::FETCHES_PER_HOST_MAX));
        let host_place = host.clone().acquire_owned().await.ok()?;
        let place = self.all.clone().acquire_owned().await.ok()?;
        Some(Place { _host: host, _host_place: host_place, _place: place })
    }
}

/// One fetch's place; given back when dropped.
pub(super) struct Place {
    _host: Arc<Semaphore>,
    _host_place: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}
