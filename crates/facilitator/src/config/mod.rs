//! Configuration: read once, refused on the first thing that makes no sense, with the key that is wrong.

mod environment;
mod file;
mod networks;
mod payee;
mod secret;

pub use networks::{NetworkSettings, v1_name_of};
pub use payee::{PayeeMode, PayeeSettings, RegistrySettings};
pub use secret::Secret;

use alloy_primitives::U256;
use figment::{
    Figment,
    providers::{Env, Format, Toml},
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// The embedded defaults.
pub const DEFAULTS: &str = include_str!("../../../../config/default.toml");

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file named on the command line or in the environment is not there.
    #[error("configuration file {}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("configuration: {0}")]
    Read(String),
    /// A value that cannot be used.
    #[error("configuration: {key}: {reason}")]
    Value {
        /// Full name of the key.
        key: String,
        /// Why, without the value: it can be secret.
        reason: String,
    },
}

impl ConfigError {
    pub(crate) fn value(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { key: key.into(), reason: reason.into() }
    }
}

/// Every setting, understood.
#[derive(Debug)]
pub struct Settings {
    /// `server.*`.
    pub server: ServerSettings,
    /// `store.url`; may hold a password.
    pub store_url: Secret,
    /// `replay.reserve_on_verify`.
    pub reserve_on_verify: bool,
    /// `policy.validity_margin_seconds`.
    pub validity_margin_seconds: u64,
    /// `policy.authorization_lifetime_seconds_max`; 0 = no bound.
    pub authorization_lifetime_seconds_max: u64,
    /// `policy.gas_per_settlement_max`.
    pub gas_per_settlement_max: u64,
    /// `policy.fee_per_settlement_wei_max`; `None` = no bound.
    pub fee_per_settlement_wei_max: Option<U256>,
    /// `settle.wait_seconds`.
    pub settle_wait: Duration,
    /// `settle.reorg_watch_seconds`; zero: not at all.
    pub reorg_watch: Duration,
    /// `settle.accept_settled_elsewhere`.
    pub accept_settled_elsewhere: bool,
    /// `payee.*`.
    pub payee: PayeeSettings,
    /// `[[networks]]`, at least one.
    pub networks: Vec<NetworkSettings>,
}

/// `server.*`.
#[derive(Debug)]
pub struct ServerSettings {
    /// Public listener.
    pub listen: SocketAddr,
    /// Operator listener, if any.
    pub operator_listen: Option<SocketAddr>,
    /// Whether that is the embedded default, which nobody asked for.
    pub operator_listen_is_default: bool,
    /// Open connections.
    pub connections_max: usize,
    /// Largest body.
    pub body_bytes_max: usize,
    /// Longest answer.
    pub request_timeout: Duration,
    /// CORS origins.
    pub cors_origins: Vec<axum::http::HeaderValue>,
    /// Accepted bearer keys; empty = open.
    pub api_keys: Vec<Secret>,
}

/// Where settings come from: `--config`, else `$QUITTANCE_CONFIG`, else `./quittance.toml` if it is there.
pub fn load(path: Option<&Path>) -> Result<Settings, ConfigError> {
    extract(&figment(path)?)?.understand()
}

/// Only `payee.*`, from the same places: for who reads chains and signs nothing.
pub(crate) fn load_payee(path: Option<&Path>) -> Result<PayeeSettings, ConfigError> {
    extract(&figment(path)?)?.understand_payee()
}

fn figment(path: Option<&Path>) -> Result<Figment, ConfigError> {
    const FALLBACK: &str = "quittance.toml";
    let named =
        path.map(Path::to_path_buf).or_else(|| secret::environment("QUITTANCE_CONFIG").map(PathBuf::from));
    let text = match &named {
        Some(path) => Some(read(path)?),
        None if Path::new(FALLBACK).exists() => Some(read(Path::new(FALLBACK))?),
        None => None,
    };
    secret::names_in_environment().try_for_each(|name| environment::check(&name))?;
    let mut figment = Figment::from(Toml::string(DEFAULTS));
    if let Some(text) = text {
        figment = figment.merge(Toml::string(&text));
    }
    // Only names with a section are settings: QUITTANCE_CONFIG and the like are not.
    let environment =
        Env::prefixed(environment::PREFIX).filter(|key| key.as_str().contains("__")).split("__");
    Ok(figment.merge(environment))
}

/// Where a development build is to end. No setting, so no file has it.
pub(crate) fn fault_point() -> Option<String> {
    secret::environment(crate::fault_point::VARIABLE)
}

/// A secret that the command line refers to.
pub(crate) fn secret(key: &str, reference: &str) -> Result<Secret, ConfigError> {
    secret::resolve(key, reference)
}

/// Settings from TOML text above the defaults; no environment.
pub fn parse(text: &str) -> Result<Settings, ConfigError> {
    extract(&Figment::from(Toml::string(DEFAULTS)).merge(Toml::string(text)))?.understand()
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|error| ConfigError::File { path: path.into(), reason: error.kind().to_string() })
}

fn extract(figment: &Figment) -> Result<file::File, ConfigError> {
    figment.extract().map_err(|errors| {
        let texts: Vec<String> = errors.into_iter().map(|error| file::describe(&error)).collect();
        ConfigError::Read(texts.join("; "))
    })
}
