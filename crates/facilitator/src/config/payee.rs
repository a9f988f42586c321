//! `[payee]` and `[[payee.registries]]`.

use super::{ConfigError, networks, secret};
use quittance_evm::registry::At;
use quittance_protocol::{payee::RegistryId, units::Network};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};
use url::Url;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Payee {
    mode: String,
    registry_allow_private_hosts: bool,
    eip7702_is_eoa: bool,
    ipfs_gateway: OneOrMore,
    #[serde(default)]
    registries: Vec<Registry>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a URL or a list of URLs")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    id: String,
    #[serde(default)]
    rpc_urls: Vec<String>,
    block: Option<String>,
}

/// `payee.mode`: what `/verify` and `/settle` do with the payee check. `POST /payee` answers in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayeeMode {
    /// No check.
    Off,
    /// The outcome is reported.
    Report,
    /// And `mismatch` and `invalid-delegation` are refused.
    RefuseMismatch,
}

/// `[payee]`.
#[derive(Clone, Debug)]
pub struct PayeeSettings {
    /// What payments are checked for.
    pub mode: PayeeMode,
    /// Registration files on private addresses, over http and on any port; for tests.
    pub allow_private_hosts: bool,
    /// An agent wallet with an EIP-7702 designator counts as a key on other chains (docs/adr/0014).
    pub eip7702_is_eoa: bool,
    /// For `ipfs://` files, the first asked first.
    pub ipfs_gateways: Vec<Url>,
    /// The registries that are believed.
    pub registries: Vec<RegistrySettings>,
    /// x402 v1 names of networks, as CAIP-2.
    pub v1_networks: BTreeMap<String, String>,
}

/// One trusted registry.
#[derive(Clone)]
pub struct RegistrySettings {
    /// Which.
    pub id: RegistryId,
    /// Its chain.
    pub network: Network,
    /// Endpoints of its chain; they can hold keys.
    pub rpc_urls: Vec<Url>,
    /// Which block is read; `None`: the safe one, and on a development node the latest.
    pub at: Option<At>,
}

impl fmt::Debug for RegistrySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrySettings").field("id", &self.id).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Payee {
    pub(super) fn understand(self, networks: &[networks::Endpoints]) -> Result<PayeeSettings, ConfigError> {
        let mode = match self.mode.as_str() {
            "off" => PayeeMode::Off,
            "report" => PayeeMode::Report,
            "refuse-mismatch" => PayeeMode::RefuseMismatch,
            _ => {
                return Err(ConfigError::value(
                    "payee.mode",
                    "must be \"off\", \"report\" or \"refuse-mismatch\"",
                ));
            }
        };
        let registries =
            if self.registries.is_empty() { canonical(networks) } else { listed(self.registries, networks)? };
        if registries.is_empty() && mode != PayeeMode::Off {
            return Err(ConfigError::value(
                "payee.registries",
                "none is listed, and no network here has a canonical one: nothing could ever be verified",
            ));
        }
        Ok(PayeeSettings {
            mode,
            allow_private_hosts: self.registry_allow_private_hosts,
            eip7702_is_eoa: self.eip7702_is_eoa,
            ipfs_gateways: gateways(self.ipfs_gateway)?,
            registries,
            v1_networks: networks::v1_names(networks),
        })
    }
}

/// ERC-8004's own registry on each network that is served, where there is one.
fn canonical(networks: &[networks::Endpoints]) -> Vec<RegistrySettings> {
    networks
        .iter()
        .filter_map(|endpoints| {
            Some(RegistrySettings {
                id: RegistryId::canonical(endpoints.network.chain_id())?,
                network: endpoints.network,
                rpc_urls: endpoints.rpc_urls.clone(),
                at: None,
            })
        })
        .collect()
}

fn listed(
    registries: Vec<Registry>,
    networks: &[networks::Endpoints],
) -> Result<Vec<RegistrySettings>, ConfigError> {
    let mut settings: Vec<RegistrySettings> = Vec::with_capacity(registries.len());
    for (i, registry) in registries.into_iter().enumerate() {
        let key = |field: &str| format!("payee.registries[{i}].{field}");
        let id: RegistryId =
            registry.id.parse().map_err(|error| ConfigError::value(key("id"), format!("{error}")))?;
        let network = u64::try_from(id.chain_id())
            .ok()
            .and_then(Network::from_chain_id)
            .ok_or_else(|| ConfigError::value(key("id"), "has a chain id that no node serves"))?;
        if settings.iter().any(|other| other.id == id) {
            return Err(ConfigError::value(key("id"), "this registry is listed twice"));
        }
        let rpc_urls = if registry.rpc_urls.is_empty() {
            let served = networks.iter().find(|endpoints| endpoints.network == network);
            served.map(|endpoints| endpoints.rpc_urls.clone()).ok_or_else(|| {
                ConfigError::value(key("rpc_urls"), "is needed: this chain is not under [[networks]]")
            })?
        } else {
            secret::rpc_urls(&key("rpc_urls"), &registry.rpc_urls)?
        };
        let at = registry.block.as_deref().map(|text| block(&key("block"), text)).transpose()?;
        settings.push(RegistrySettings { id, network, rpc_urls, at });
    }
    Ok(settings)
}

fn block(key: &str, text: &str) -> Result<At, ConfigError> {
    const BEHIND_MAX: u64 = 10_000;
    let behind = |text: &str| text.strip_prefix("latest-")?.parse().ok().filter(|n| *n <= BEHIND_MAX);
    match text {
        "safe" => Ok(At::Safe),
        "latest" => Ok(At::Latest),
        _ => behind(text).map(At::Behind).ok_or_else(|| {
            ConfigError::value(key, "must be \"safe\", \"latest\" or \"latest-N\" with N up to 10000")
        }),
    }
}

fn gateways(written: OneOrMore) -> Result<Vec<Url>, ConfigError> {
    const GATEWAYS_MAX: usize = 3;
    const KEY: &str = "payee.ipfs_gateway";
    let texts = match written {
        OneOrMore::One(text) if text.is_empty() => return Ok(Vec::new()),
        OneOrMore::One(text) => vec![text],
        OneOrMore::More(texts) => texts,
    };
    if texts.is_empty() || texts.len() > GATEWAYS_MAX {
        let reason = format!("a list names one to {GATEWAYS_MAX} gateways; \"\" stands for none");
        return Err(ConfigError::value(KEY, reason));
    }
    let urls: Option<Vec<_>> = texts.iter().map(|text| gateway(text)).collect();
    urls.ok_or_else(|| {
        let reason =
            "must be an http or https URL without credentials, query and fragment, below which /ipfs/CID is";
        ConfigError::value(KEY, reason)
    })
}

fn gateway(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Settings, parse};

    /// One network on Base Sepolia, whose signer's key is in a file.
    fn settings(more: &str) -> Result<Settings, ConfigError> {
        let key = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(key.path(), "11".repeat(32)).unwrap();
        let network = |id: u64| {
            format!(
                "[[networks]]\nid = \"eip155:{id}\"\nrpc_urls = [\"http://node.example/{id}\"]\nsigners = [\"file:{}\"]\n",
                key.path().display()
            )
        };
        parse(&format!("{more}\n{}{}", network(84532), network(31337)))
    }

    fn refused(more: &str) -> String {
        settings(more).unwrap_err().to_string()
    }

    #[test]
    fn the_canonical_registry_of_each_network_is_the_default() {
        let payee = settings("payee.mode = \"report\"").unwrap().payee;
        let [registry] = payee.registries.as_slice() else { panic!("{payee:?}") };
        assert_eq!(registry.id, RegistryId::canonical(84532).unwrap());
        assert_eq!((registry.at, registry.rpc_urls[0].as_str()), (None, "http://node.example/84532"));
        assert_eq!(payee.v1_networks["base-sepolia"], "eip155:84532");
        assert_eq!(payee.v1_networks["base"], "eip155:8453");
    }

    #[test]
    fn a_wallet_with_a_designator_is_no_key_unless_it_is_said() {
        let is_eoa = |more: &str| settings(more).unwrap().payee.eip7702_is_eoa;
        assert_eq!(["", "payee.eip7702_is_eoa = true"].map(is_eoa), [false, true]);
    }

    #[test]
    fn registries_are_listed_with_their_nodes_and_blocks() {
        let registry = |more: &str| {
            format!(
                "[[payee.registries]]\nid = \"eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432\"\n{more}\n"
            )
        };
        let urls = "rpc_urls = [\"http://mainnet.example\"]\n";
        for (block, at) in [("safe", At::Safe), ("latest", At::Latest), ("latest-12", At::Behind(12))] {
            let payee = settings(&registry(&format!("{urls}block = \"{block}\""))).unwrap().payee;
            assert_eq!(payee.registries[0].at, Some(at));
        }
        for block in ["", "finalized", "latest-", "latest--1", "latest-10001", "12"] {
            assert!(
                refused(&registry(&format!("{urls}block = \"{block}\""))).contains("registries[0].block")
            );
        }
        assert!(refused(&registry("")).contains("registries[0].rpc_urls"));
        assert!(refused(&registry(urls).repeat(2)).contains("twice"));
        for id in [
            "",
            "eip155:0:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432",
            "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432",
        ] {
            assert!(refused(&format!("[[payee.registries]]\nid = \"{id}\"\n")).contains("registries[0].id"));
        }
    }

    #[test]
    fn a_gateway_is_a_string_and_up_to_three_are_a_list() {
        let gateways = |written: &str| {
            let payee = settings(&format!("payee.ipfs_gateway = {written}")).unwrap().payee;
            payee.ipfs_gateways.iter().map(|url| url.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(gateways("\"\""), Vec::<String>::new());
        assert_eq!(gateways("\"https://ipfs.example\""), ["https://ipfs.example/"]);
        let three = "[\"http://127.0.0.1:8080\", \"https://b.example/gw\", \"https://c.example\"]";
        assert_eq!(gateways(three), ["http://127.0.0.1:8080/", "https://b.example/gw", "https://c.example/"]);
        for refused_list in [
            "[]",
            "[\"\"]",
            "[\"https://a.example\", \"\"]",
            &format!("[{}]", ["\"https://a.example\""; 4].join(",")),
        ] {
            assert!(refused(&format!("payee.ipfs_gateway = {refused_list}")).contains("payee.ipfs_gateway"));
        }
    }

    #[test]
    fn what_could_never_work_or_is_for_tests_is_refused() {
        for gateway in
            ["ipfs.example", "ftp://ipfs.example", "https://u:p@ipfs.example", "https://ipfs.example/?x"]
        {
            assert!(refused(&format!("payee.ipfs_gateway = \"{gateway}\"")).contains("payee.ipfs_gateway"));
        }
        let open = "payee.registry_allow_private_hosts = true\nserver.listen = \"0.0.0.0:4021\"\nserver.public = true";
        assert!(refused(open).contains("payee.registry_allow_private_hosts"));
        let nobody = "payee.mode = \"report\"\n[[networks]]\nid = \"eip155:31337\"\nrpc_urls = [\"http://node.example\"]\nsigners = [\"env:NOT_SET\"]";
        assert!(parse(nobody).unwrap_err().to_string().contains("payee.registries"));
    }
}
