//! Names to addresses, once for each connection: what was looked at is what is connected to. A second lookup could give
//! another answer (rebinding).

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};
use tokio::sync::Semaphore;

/// Where addresses come from.
pub(super) trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// Every address of a host.
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver. It blocks a thread for as long as it likes, so threads are counted, by the lookup and not by
/// the fetch that may have given up.
#[derive(Debug)]
pub(super) struct System {
    threads: Arc<Semaphore>,
}

impl System {
    const THREADS_MAX: usize = 16;

    pub(super) fn new() -> Self {
        Self { threads: Arc::new(Semaphore::new(Self::THREADS_MAX)) }
    }
}

impl Lookup for System {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let threads = self.threads.clone();
        Box::pin(async move {
            let place = threads.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = tokio::task::spawn_blocking(move || {
                let _place = place;
                (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// A host is refused if any of its addresses is: a mixed answer is either a mistake or an attempt.
#[derive(Clone)]
pub(super) struct Vetted {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) may: fn(IpAddr) -> bool,
}

/// The host has an address that may not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("the host's address is not a public one")]
pub(super) struct NotPublic;

impl Resolve for Vetted {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, may) = (self.lookup.lookup(name.as_str().to_owned()), self.may);
        Box::pin(async move {
            let addresses = found.await?;
            if !addresses.iter().all(|address| may(*address)) {
                return Err(NotPublic.into());
            }
            // Port 0 stands for the URL's.
            let addresses: Vec<_> = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}
