//! `[[networks]]`.

use super::{ConfigError, secret};
use alloy_primitives::Address;
use quittance_evm::sign::LaneSigner;
use quittance_protocol::{units::Network as ChainNetwork, wire::parse_address};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use url::Url;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    id: String,
    v1_name: Option<String>,
    rpc_urls: Vec<String>,
    signers: Vec<String>,
    #[serde(default)]
    wallet_factories: Vec<String>,
    confirmations: Option<u64>,
}

/// One network to serve.
#[derive(Clone)]
pub struct NetworkSettings {
    /// Chain.
    pub network: ChainNetwork,
    /// Name under x402 version 1; `None`: no v1.
    pub v1_name: Option<String>,
    /// Endpoints, preferred first; at least one. They can hold keys.
    pub rpc_urls: Vec<Url>,
    /// Keys that pay for gas; at least one, all different.
    pub signers: Vec<LaneSigner>,
    /// ERC-6492 allow-list.
    pub wallet_factories: Vec<Address>,
    /// Depth at which an outcome is believed; at least 1.
    pub confirmations: u64,
}

impl fmt::Debug for NetworkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkSettings").field("network", &self.network).finish_non_exhaustive()
    }
}

/// The TypeScript SDK's v1 names (spec/x402.md §1.7).
const V1_NAMES: &[(u64, &str)] = &[
    (1, "ethereum"),
    (14, "flare"),
    (137, "polygon"),
    (143, "monad"),
    (988, "stable"),
    (1328, "sei-testnet"),
    (1329, "sei"),
    (1514, "story"),
    (2201, "stable-testnet"),
    (2741, "abstract"),
    (3338, "peaq"),
    (4326, "megaeth"),
    (4689, "iotex"),
    (8453, "base"),
    (11124, "abstract-testnet"),
    (41923, "educhain"),
    (42220, "celo"),
    (43113, "avalanche-fuji"),
    (43114, "avalanche"),
    (80002, "polygon-amoy"),
    (84532, "base-sepolia"),
    (11155111, "sepolia"),
    (324705682, "skale-base-sepolia"),
];

/// The v1 name of a chain, if it has one.
pub fn v1_name_of(network: ChainNetwork) -> Option<&'static str> {
    V1_NAMES.iter().find(|(id, _)| *id == network.chain_id()).map(|(_, name)| *name)
}

pub(super) fn understand(networks: Vec<Network>) -> Result<Vec<NetworkSettings>, ConfigError> {
    if networks.is_empty() {
        return Err(ConfigError::value("networks", "at least one [[networks]] is needed"));
    }
    let (mut ids, mut v1_names) = (BTreeSet::new(), BTreeSet::new());
    let mut settings = Vec::with_capacity(networks.len());
    for (i, network) in networks.into_iter().enumerate() {
        let key = |field: &str| format!("networks[{i}].{field}");
        let network = network.understand(&key)?;
        if !ids.insert(network.network) {
            return Err(ConfigError::value(key("id"), "this network is listed twice"));
        }
        if network.v1_name.as_ref().is_some_and(|name| !v1_names.insert(name.clone())) {
            return Err(ConfigError::value(key("v1_name"), "another network has this name"));
        }
        settings.push(network);
    }
    Ok(settings)
}

/// What reading a chain needs, without the keys that settling needs.
pub(super) struct Endpoints {
    pub(super) network: ChainNetwork,
    pub(super) v1_name: Option<String>,
    pub(super) rpc_urls: Vec<Url>,
}

/// The endpoints of every network, for who only reads.
pub(super) fn endpoints(networks: &[Network]) -> Result<Vec<Endpoints>, ConfigError> {
    let each = networks.iter().enumerate();
    each.map(|(i, network)| network.endpoints(&|field| format!("networks[{i}].{field}"))).collect()
}

/// Every v1 name that is known and the network it stands for; what is configured comes first.
pub(super) fn v1_names(networks: &[Endpoints]) -> BTreeMap<String, String> {
    let known = V1_NAMES.iter().map(|(id, name)| ((*name).to_owned(), format!("eip155:{id}")));
    let configured =
        networks.iter().filter_map(|n| n.v1_name.as_ref().map(|name| (name.clone(), n.network.to_string())));
    known.chain(configured).collect()
}

impl Network {
    fn endpoints(&self, key: &dyn Fn(&str) -> String) -> Result<Endpoints, ConfigError> {
        /// As much of a name as answers repeat.
        const V1_NAME_BYTES_MAX: usize = 64;
        let network: ChainNetwork =
            self.id.parse().map_err(|_| ConfigError::value(key("id"), "must be eip155:<chain id>"))?;
        let v1_name = match &self.v1_name {
            None => v1_name_of(network).map(str::to_owned),
            Some(name) if name.is_empty() => None,
            Some(name) if name.contains(':') => {
                return Err(ConfigError::value(
                    key("v1_name"),
                    "is a legacy name like base-sepolia, not CAIP-2",
                ));
            }
            Some(name) if name.len() > V1_NAME_BYTES_MAX || !name.bytes().all(|b| b.is_ascii_graphic()) => {
                return Err(ConfigError::value(
                    key("v1_name"),
                    "must be a name like base-sepolia: at most 64 characters, printable ASCII, no spaces",
                ));
            }
            Some(name) => Some(name.clone()),
        };
        if self.rpc_urls.is_empty() {
            return Err(ConfigError::value(key("rpc_urls"), "at least one is needed"));
        }
        Ok(Endpoints { network, v1_name, rpc_urls: secret::rpc_urls(&key("rpc_urls"), &self.rpc_urls)? })
    }

    fn understand(self, key: &dyn Fn(&str) -> String) -> Result<NetworkSettings, ConfigError> {
        const CONFIRMATIONS_MAX: u64 = 1_000;
        let Endpoints { network, v1_name, rpc_urls } = self.endpoints(key)?;
        if self.signers.is_empty() {
            return Err(ConfigError::value(key("signers"), "at least one is needed to settle"));
        }
        let mut signers: Vec<LaneSigner> = Vec::with_capacity(self.signers.len());
        for (i, reference) in self.signers.iter().enumerate() {
            let key = format!("{}[{i}]", key("signers"));
            let signer = LaneSigner::from_hex(secret::resolve(&key, reference)?.expose())
                .map_err(|error| ConfigError::value(&key, error.to_string()))?;
            if signers.iter().any(|other| other.address() == signer.address()) {
                return Err(ConfigError::value(key, "this signer is listed twice"));
            }
            signers.push(signer);
        }
        let wallet_factories = self
            .wallet_factories
            .iter()
            .enumerate()
            .map(|(i, text)| {
                parse_address(text).filter(|factory| !factory.is_zero()).ok_or_else(|| {
                    ConfigError::value(
                        format!("{}[{i}]", key("wallet_factories")),
                        "must be 0x and 40 hex digits, not zero",
                    )
                })
            })
            .collect::<Result<_, _>>()?;
        let confirmations = self.confirmations.unwrap_or(1);
        if !(1..=CONFIRMATIONS_MAX).contains(&confirmations) {
            return Err(ConfigError::value(key("confirmations"), "must be 1 to 1000"));
        }
        Ok(NetworkSettings { network, v1_name, rpc_urls, signers, wallet_factories, confirmations })
    }
}
