//! How a test wants its bench.

use super::{Bench, Database, unix_now};
use alloy_primitives::{Address, U256};
use quittance_testkit::{
    Anvil, DevChain, dev_address,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, RpcProxy},
};
use serde_json::Value;

/// The server's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Sqlite,
    Postgres,
}

/// How blocks come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mining {
    PerTransaction,
    Every(u64),
    OnDemand,
}

/// Where the dev accounts that pay begin, after those that sign for the server; the last account deploys.
pub(crate) const PAYERS: std::ops::Range<usize> = 4..9;
/// What each of them has, in atomic units.
pub(crate) const PURSE: u64 = 1_000_000_000;

/// A chain, a node proxy, a store and a server, to be described and started.
#[derive(Debug)]
#[must_use]
pub(crate) struct Setup {
    store: StoreKind,
    database: Option<Database>,
    mining: Mining,
    signers: usize,
    websocket: bool,
    second_endpoint: bool,
    confirmations: u64,
    wallet_factory: Option<Address>,
    hardfork: Option<&'static str>,
    started_ago: u64,
    settings: Vec<(&'static str, Value)>,
    first_start: Option<(&'static str, String)>,
}

impl Setup {
    pub(crate) fn new(store: StoreKind) -> Self {
        Self {
            store,
            database: None,
            mining: Mining::PerTransaction,
            signers: 1,
            websocket: false,
            second_endpoint: false,
            confirmations: 1,
            wallet_factory: None,
            hardfork: None,
            started_ago: 0,
            settings: Vec::new(),
            first_start: None,
        }
    }

    /// A database the test brings itself.
    pub(crate) fn database(mut self, database: Database) -> Self {
        self.database = Some(database);
        self
    }

    /// A block every so many seconds.
    pub(crate) fn block_time(mut self, seconds: u64) -> Self {
        self.mining = Mining::Every(seconds);
        self
    }

    /// Blocks only when the test says so.
    pub(crate) fn no_mining(mut self) -> Self {
        self.mining = Mining::OnDemand;
        self
    }

    /// Dev accounts 0 up to this one sign for the server.
    pub(crate) fn signers(mut self, count: usize) -> Self {
        assert!(count <= PAYERS.start);
        self.signers = count;
        self
    }

    /// The first endpoint is a WebSocket.
    pub(crate) fn websocket(mut self) -> Self {
        self.websocket = true;
        self
    }

    /// Two endpoints of one node instead of one.
    pub(crate) fn second_endpoint(mut self) -> Self {
        self.second_endpoint = true;
        self
    }

    pub(crate) fn confirmations(mut self, blocks: u64) -> Self {
        self.confirmations = blocks;
        self
    }

    /// Wallets that this contract deploys may pay.
    pub(crate) fn wallet_factory(mut self, factory: Address) -> Self {
        self.wallet_factory = Some(factory);
        self
    }

    /// The rules of an older Ethereum.
    pub(crate) fn hardfork(mut self, name: &'static str) -> Self {
        self.hardfork = Some(name);
        self
    }

    /// The chain's clock is so many seconds behind.
    pub(crate) fn started_ago(mut self, seconds: u64) -> Self {
        self.started_ago = seconds;
        self
    }

    /// How long `/settle` waits.
    pub(crate) fn wait_seconds(self, seconds: u64) -> Self {
        self.set("settle.wait_seconds", seconds.into())
    }

    pub(crate) fn set(mut self, key: &'static str, value: Value) -> Self {
        self.settings.push((key, value));
        self
    }

    /// An environment variable of the server's first start alone.
    pub(crate) fn first_start(mut self, name: &'static str, value: String) -> Self {
        self.first_start = Some((name, value));
        self
    }

    /// Starts everything. Blocks come as described only after the contracts are in place and the payers have money.
    pub(crate) async fn start(mut self) -> Bench {
        let given = self.database.take();
        let (chain, database) = tokio::join!(self.start_chain(), self.start_database(given));
        let (anvil, chain) = chain;
        let proxy = RpcProxy::start(anvil.url()).await.unwrap();
        let url = if self.websocket { proxy.ws_url() } else { proxy.url() };
        let mut network = NetworkConfig::new(chain.chain_id())
            .rpc_url_from_env("RPC_URL", url)
            .confirmations(self.confirmations);
        if let Some(factory) = self.wallet_factory {
            network = network.wallet_factory(factory);
        }
        let mut second_proxy = None;
        if self.second_endpoint {
            let second = RpcProxy::start(anvil.url()).await.unwrap();
            network = network.rpc_url_from_env("RPC_URL_2", second.url());
            second_proxy = Some(second);
        }
        for index in 0..self.signers {
            network = network.dev_signer(index);
        }
        let mut config = ConfigBuilder::new().unwrap().network(network);
        if let Some(database) = &database {
            config = config.store_url(database.url.clone());
        }
        for (key, value) in self.settings {
            config = config.set(key, value);
        }
        let first_config = match self.first_start {
            Some((name, value)) => config.clone().env(name, value),
            None => config.clone(),
        };
        let server = QuittanceProcess::start(env!("CARGO_BIN_EXE_quittance"), first_config).await.unwrap();
        let started_at = anvil.client().block_number().await.unwrap();
        Bench {
            client: server.client().unwrap(),
            signers: (0..self.signers).map(dev_address).collect(),
            anvil,
            chain,
            proxy,
            second_proxy,
            database,
            config,
            server,
            started_at,
        }
    }

    async fn start_chain(&self) -> (Anvil, DevChain) {
        let mut anvil = Anvil::builder();
        if let Some(name) = self.hardfork {
            anvil = anvil.arg("--hardfork").arg(name);
        }
        if self.started_ago > 0 {
            anvil = anvil.timestamp(unix_now() - self.started_ago);
        }
        let anvil = anvil.spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        for payer in PAYERS {
            chain.mint(chain.token, dev_address(payer), U256::from(PURSE)).await.unwrap();
        }
        match self.mining {
            Mining::PerTransaction => {}
            Mining::Every(seconds) => anvil.set_interval_mining(seconds).await.unwrap(),
            Mining::OnDemand => anvil.set_automine(false).await.unwrap(),
        }
        (anvil, chain)
    }

    async fn start_database(&self, given: Option<Database>) -> Option<Database> {
        match (self.store, given) {
            (StoreKind::Sqlite, _) => None,
            (StoreKind::Postgres, Some(database)) => Some(database),
            (StoreKind::Postgres, None) => Some(Database::create().await),
        }
    }
}
