//! Writes the configuration of a server under test.

use std::{collections::BTreeMap, fmt::Write as _};

use alloy::primitives::Address;
use anyhow::Result;
use serde_json::{Value, json};

use super::unix::free_port;
use crate::dev_accounts::dev_key;

/// One `[[networks]]` entry, with the environment its secrets come from.
#[derive(Clone, Debug)]
#[must_use]
pub struct NetworkConfig {
    settings: BTreeMap<String, Value>,
    rpc_urls: Vec<String>,
    signers: Vec<String>,
    wallet_factories: Vec<String>,
    env: BTreeMap<String, String>,
}

impl NetworkConfig {
    /// The chain `eip155:{chain_id}`, with one confirmation and nothing else yet.
    pub fn new(chain_id: u64) -> Self {
        let settings = [("id", json!(format!("eip155:{chain_id}"))), ("confirmations", json!(1))];
        Self {
            settings: settings.map(|(key, value)| (key.to_owned(), value)).into(),
            rpc_urls: Vec::new(),
            signers: Vec::new(),
            wallet_factories: Vec::new(),
            env: BTreeMap::new(),
        }
    }

    /// A further RPC URL, standing in the file.
    pub fn rpc_url(mut self, url: impl Into<String>) -> Self {
        self.rpc_urls.push(url.into());
        self
    }

    /// A further RPC URL, taken from the environment variable `name`.
    pub fn rpc_url_from_env(mut self, name: &str, url: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), url.into());
        self.rpc_url(format!("env:{name}"))
    }

    /// A further signer, taken from the environment variable `name`.
    pub fn signer(mut self, name: &str, key: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), key.into());
        self.signers.push(format!("env:{name}"));
        self
    }

    /// Dev account `index` as a further signer.
    ///
    /// # Panics
    /// If there is no such account.
    pub fn dev_signer(self, index: usize) -> Self {
        self.signer(&format!("DEV_SIGNER_{index}"), dev_key(index))
    }

    /// Allows a wallet factory.
    pub fn wallet_factory(mut self, factory: Address) -> Self {
        self.wallet_factories.push(factory.to_string());
        self
    }

    /// Blocks until a receipt counts.
    pub fn confirmations(self, blocks: u64) -> Self {
        self.set("confirmations", json!(blocks))
    }

    /// Any other key of the entry.
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.settings.insert(key.to_owned(), value);
        self
    }

    fn write(&self, out: &mut String) {
        let mut settings = self.settings.clone();
        settings.insert("rpc_urls".to_owned(), json!(self.rpc_urls));
        settings.insert("signers".to_owned(), json!(self.signers));
        settings.insert("wallet_factories".to_owned(), json!(self.wallet_factories));
        out.push_str("\n[[networks]]\n");
        write_settings(&settings, out);
    }
}

/// A whole configuration: free loopback ports, the embedded store in the server's own directory, no network yet.
#[derive(Clone, Debug)]
#[must_use]
pub struct ConfigBuilder {
    port: u16,
    operator_port: u16,
    settings: BTreeMap<String, Value>,
    networks: Vec<NetworkConfig>,
    extra: String,
    env: BTreeMap<String, String>,
}

impl ConfigBuilder {
    /// Takes two free ports; fails if there are none.
    pub fn new() -> Result<Self> {
        let config = Self {
            port: 0,
            operator_port: 0,
            settings: BTreeMap::new(),
            networks: Vec::new(),
            extra: String::new(),
            env: BTreeMap::new(),
        };
        config.store_url("sqlite://quittance.db").on_other_ports()
    }

    /// The same for another replica.
    pub fn on_other_ports(mut self) -> Result<Self> {
        self.port = free_port()?;
        self.operator_port = free_port()?;
        let listen = json!(format!("127.0.0.1:{}", self.port));
        let operator_listen = json!(format!("127.0.0.1:{}", self.operator_port));
        Ok(self.set("server.listen", listen).set("server.operator_listen", operator_listen))
    }

    /// The store's URL.
    pub fn store_url(self, url: impl Into<String>) -> Self {
        let url: String = url.into();
        self.set("store.url", json!(url))
    }

    /// Adds a network.
    pub fn network(mut self, network: NetworkConfig) -> Self {
        self.networks.push(network);
        self
    }

    /// How long a settle call waits for its receipt.
    pub fn wait_seconds(self, seconds: u64) -> Self {
        self.set("settle.wait_seconds", json!(seconds))
    }

    /// Any key outside `[[networks]]`, with its table: `policy.validity_margin_seconds`. Values are strings, numbers,
    /// booleans and lists of them.
    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.settings.insert(key.to_owned(), value);
        self
    }

    /// Leaves a key out.
    pub fn unset(mut self, key: &str) -> Self {
        self.settings.remove(key);
        self
    }

    /// TOML put at the end as it stands.
    pub fn extra(mut self, toml: &str) -> Self {
        self.extra.push_str(toml);
        self.extra.push('\n');
        self
    }

    /// An environment variable of the server.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// The file.
    pub fn toml(&self) -> String {
        let mut out = String::new();
        // Dotted keys before the first table header, so that every key can be set once whatever its table.
        write_settings(&self.settings, &mut out);
        for network in &self.networks {
            network.write(&mut out);
        }
        if !self.extra.is_empty() {
            let _ = write!(out, "\n{}", self.extra);
        }
        out
    }

    /// The server's environment beyond what it inherits.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let networks = self.networks.iter().flat_map(|network| network.env.clone());
        networks.chain(self.env.clone()).collect()
    }

    /// Where the facilitator listens.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where the operator page listens.
    pub fn operator_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.operator_port)
    }
}

/// JSON's strings, numbers, booleans and lists are TOML's too.
fn write_settings(settings: &BTreeMap<String, Value>, out: &mut String) {
    for (key, value) in settings {
        let _ = writeln!(out, "{key} = {value}");
    }
}
