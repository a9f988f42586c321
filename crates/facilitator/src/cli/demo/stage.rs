//! What the demo plays on: Anvil with contracts, and the facilitator in this process.

use crate::{
    config,
    names::named_on,
    server::{Server, StartError},
};
use alloy_primitives::{Address, U256};
use anyhow::{Context as _, ensure};
use quittance_testkit::{
    Anvil, DevChain, Facilitator,
    dev_accounts::{dev_address, dev_key},
};
use std::{io, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Where the facilitator listens, in order of preference: its usual port, so that what the documentation says works, else
/// any free one, so that a second demo runs beside the first.
const LISTEN: [&str; 2] = ["127.0.0.1:4021", "127.0.0.1:0"];
/// The account that pays for gas.
const SIGNER: usize = 0;
/// Longer than the server takes to park what is in flight.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running chain and facilitator. Dropping it ends the chain and removes the files; [`Stage::strike`] does it in order.
pub(super) struct Stage {
    pub(super) anvil: Anvil,
    pub(super) chain: DevChain,
    pub(super) client: Facilitator,
    stopper: CancellationToken,
    server: JoinHandle<()>,
    directory: TempDir,
}

impl Stage {
    pub(super) async fn set_up() -> anyhow::Result<Self> {
        let anvil = Anvil::builder()
            .spawn()
            .await
            .context("the demo needs Anvil, a local chain (scripts/demo installs it)")?;
        let chain = DevChain::deploy(&anvil).await.context("the contracts could not be put on the chain")?;
        let directory = tempfile::Builder::new().prefix("quittance-demo-").tempdir()?;
        let server = start(&anvil, &chain, directory.path()).await?;
        let address = server.address().context("the facilitator has no address")?;
        let stage = Self {
            client: Facilitator::new(format!("http://{address}"))?,
            stopper: server.stopper(),
            server: tokio::spawn(server.run()),
            anvil,
            chain,
            directory,
        };
        let ready = stage.client.get("/readyz").await?;
        ensure!(ready.status == 200, "the facilitator is not ready: {}", ready.text);
        Ok(stage)
    }

    /// Base URL of the facilitator.
    pub(super) fn url(&self) -> &str {
        self.client.base()
    }

    /// Gone when the demo ends.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Address of the facilitator's signer.
    pub(super) fn signer(&self) -> Address {
        dev_address(SIGNER)
    }

    /// What the reader is to know before anything happens.
    pub(super) fn facts(&self) -> [(&'static str, String); 3] {
        let (url, id) = (self.anvil.url(), self.chain.chain_id());
        [
            ("chain", format!("Anvil at {url}, with chain id {id} as Base Sepolia has")),
            ("token", format!("{} (EIP-3009, as USDC)", named_on(U256::from(id), self.chain.token))),
            ("facilitator", format!("{} in this process, with SQLite and one signer", self.url())),
        ]
    }

    /// Ends the facilitator, the chain and the files, in this order: each needs the next.
    pub(super) async fn strike(self) {
        let Self { mut anvil, stopper, server, directory, .. } = self;
        stopper.cancel();
        if tokio::time::timeout(STOP_TIMEOUT, server).await.is_err() {
            tracing::warn!("the facilitator did not stop in time");
        }
        anvil.kill();
        let path = directory.path().to_owned();
        if let Err(error) = directory.close() {
            tracing::warn!(path = %path.display(), %error, "the demo's files could not be removed");
        }
    }
}

async fn start(anvil: &Anvil, chain: &DevChain, directory: &Path) -> anyhow::Result<Server> {
    // No secret stands in a configuration, not even one that the whole world knows.
    let key = directory.join("signer.key");
    std::fs::write(&key, dev_key(SIGNER))?;
    let mut outcome = Err(anyhow::anyhow!("nowhere to listen"));
    for listen in LISTEN {
        let settings = config::parse(&configuration(anvil, chain, directory, &key, listen)?)?;
        outcome = match Server::start(&settings).await {
            Err(StartError::Listen { reason: io::ErrorKind::AddrInUse, address, .. }) => {
                Err(anyhow::anyhow!("{address} is in use"))
            }
            started => return Ok(started?),
        };
    }
    outcome
}

fn configuration(
    anvil: &Anvil,
    chain: &DevChain,
    directory: &Path,
    key: &Path,
    listen: &str,
) -> anyhow::Result<String> {
    // A JSON string is a TOML string; a path can hold anything.
    let text = |text: String| serde_json::to_string(&text);
    Ok(format!(
        "[server]\n\
         listen = \"{listen}\"\n\
         operator_listen = \"\"\n\
         [store]\n\
         url = {store}\n\
         [[networks]]\n\
         id = \"eip155:{chain_id}\"\n\
         rpc_urls = [\"{rpc}\"]\n\
         signers = [{signer}]\n\
         wallet_factories = [\"{factory}\"]\n",
        store = text(format!("sqlite://{}", directory.join("quittance.db").display()))?,
        chain_id = chain.chain_id(),
        rpc = anvil.url(),
        signer = text(format!("file:{}", key.display()))?,
        factory = chain.wallet_factory,
    ))
}
