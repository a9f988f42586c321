//! A trusted registry: its node, and the block it is read at.

use crate::{clock, config::RegistrySettings};
use quittance_evm::{
    RpcFault,
    pool::RpcPool,
    registry::{self, At, Reading, Ways},
};
use quittance_protocol::payee::{Block, Questions};
use std::time::Duration;
use tokio::{
    sync::{Mutex, OnceCell},
    time::Instant,
};

/// How long one block is read at, where the block is not the latest anyway. A block that was safe is still safe.
const BLOCK_KEPT: Duration = Duration::from_secs(10);

/// A registry on the allow list.
#[derive(Debug)]
pub(super) struct Registry {
    pool: RpcPool,
    ways: Ways,
    at: Option<At>,
    is_dev_node: OnceCell<bool>,
    block: Mutex<Option<(Block, Instant)>>,
}

impl Registry {
    /// The one at this position of the allow list.
    pub(super) fn new(position: usize, settings: &RegistrySettings) -> Result<Self, reqwest::Error> {
        let pool = RpcPool::of_registry(position, settings.network, &settings.rpc_urls)?;
        Ok(Self {
            pool,
            ways: Ways::default(),
            at: settings.at,
            is_dev_node: OnceCell::new(),
            block: Mutex::new(None),
        })
    }

    /// The block to read at. Checks that come together share one look at the header.
    pub(super) async fn block(&self) -> Result<Block, RpcFault> {
        let at = match self.at {
            Some(at) => at,
            // Development chains have no depth to speak of.
            None if self.is_dev_node().await => At::Latest,
            None => At::Safe,
        };
        if at == At::Latest {
            return registry::block(&self.pool, at).await;
        }
        let mut known = self.block.lock().await;
        if let Some((block, read_at)) = *known
            && read_at.elapsed() < BLOCK_KEPT
        {
            return Ok(block);
        }
        let block = registry::block(&self.pool, at).await?;
        *known = Some((block, clock::instant()));
        Ok(block)
    }

    /// What the registry says at a block.
    pub(super) async fn read(&self, block: &Block, questions: &Questions) -> Result<Reading, RpcFault> {
        registry::read(&self.pool, &self.ways, block, questions, clock::instant()).await
    }

    /// Asked once. A node that does not say is none.
    async fn is_dev_node(&self) -> bool {
        self.is_dev_node.get_or_try_init(|| registry::is_dev_node(&self.pool)).await.is_ok_and(|is| *is)
    }
}
