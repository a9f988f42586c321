//! The shape of the TOML file, and the step from text to meaning.

use super::{ConfigError, PayeeSettings, ServerSettings, Settings, networks, payee, secret};
use alloy_primitives::U256;
use quittance_protocol::units::parse_decimal_u256;
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{net::SocketAddr, time::Duration};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    server: Server,
    store: Store,
    replay: Replay,
    policy: Policy,
    settle: Settle,
    payee: payee::Payee,
    #[serde(default)]
    networks: Vec<networks::Network>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    listen: String,
    operator_listen: String,
    connections_max: usize,
    body_bytes_max: usize,
    request_timeout_ms: u64,
    cors_origins: Vec<String>,
    api_keys: Vec<String>,
    public: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    reserve_on_verify: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    validity_margin_seconds: u64,
    authorization_lifetime_seconds_max: u64,
    gas_per_settlement_max: u64,
    #[serde(deserialize_with = "wei")]
    fee_per_settlement_wei_max: U256,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    wait_seconds: u64,
    reorg_watch_seconds: u64,
    accept_settled_elsewhere: bool,
}

/// Wei do not fit TOML's integers, so they are a string; the environment turns digits into a number.
fn wei<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U256, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a decimal number of wei")]
    enum Wei {
        Text(String),
        Number(u64),
    }
    match Wei::deserialize(deserializer)? {
        Wei::Number(number) => Ok(U256::from(number)),
        Wei::Text(text) => {
            parse_decimal_u256(&text).ok_or_else(|| D::Error::custom("must be a decimal number of wei"))
        }
    }
}

/// A figment error without the value that caused it: the value can be secret.
pub(super) fn describe(error: &figment::Error) -> String {
    use figment::error::Kind;
    let what = match &error.kind {
        Kind::UnknownField(field, known) => {
            format!("unknown key {field:?}, expected one of {}", known.join(", "))
        }
        Kind::MissingField(field) => format!("missing key {field:?}"),
        Kind::InvalidType(_, expected)
        | Kind::InvalidValue(_, expected)
        | Kind::InvalidLength(_, expected) => format!("must be {}", in_plain_words(expected)),
        Kind::Message(message) => without_source(message),
        _ => "cannot be read".to_owned(),
    };
    match error.path.join(".") {
        path if path.is_empty() => what,
        path => format!("{path}: {what}"),
    }
}

/// What the reader expects, in the words of its programming language.
fn in_plain_words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" => "a whole number, 0 or more, without quotes",
        "a boolean" => "true or false, without quotes",
        "a sequence" => "a list in brackets",
        _ if expected.starts_with("struct ") => "a section with keys of its own",
        _ => expected,
    }
}

/// The TOML reader shows the line it stumbled over, and that line can hold a key. Of it, only the name of a setting is shown.
fn without_source(message: &str) -> String {
    let said = message.lines().filter(|line| !line.contains(" |")).collect::<Vec<_>>().join(", ");
    let said = said.replace("number too large to fit in target type", "the number is too large");
    match message.lines().find_map(setting_in) {
        Some(name) => format!("{name}: {said}"),
        None => said,
    }
}

/// `KEY` in `7 | KEY = …`, if there is such a setting.
fn setting_in(line: &str) -> Option<&str> {
    let name = line.split_once(" | ")?.1.split_once('=')?.0.trim();
    let known = |key: &str| {
        let keys = super::DEFAULTS.lines().filter_map(|line| line.split_once(" = "));
        keys.map(|(before, _)| before.trim_start_matches("# ")).any(|other| other == key)
    };
    let key = name.rsplit('.').next()?;
    let is_bare = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b));
    (is_bare && known(key)).then_some(name)
}

impl File {
    /// Only what `quittance payee` needs: no signers, and no network if registries bring their own endpoints.
    pub(super) fn understand_payee(self) -> Result<PayeeSettings, ConfigError> {
        self.payee.understand(&networks::endpoints(&self.networks)?)
    }

    pub(super) fn understand(self) -> Result<Settings, ConfigError> {
        let server = self.server.understand()?;
        const WAIT_SECONDS_MAX: u64 = 600;
        let wait_seconds = positive("settle.wait_seconds", self.settle.wait_seconds)?;
        if wait_seconds > WAIT_SECONDS_MAX {
            return Err(ConfigError::value(
                "settle.wait_seconds",
                "must be at most 600 seconds: server.request_timeout_ms ends the wait at the latest",
            ));
        }
        let settle_wait = Duration::from_secs(wait_seconds);
        let payee = self.payee.understand(&networks::endpoints(&self.networks)?)?;
        if payee.allow_private_hosts && !server.listen.ip().is_loopback() {
            return Err(ConfigError::value(
                "payee.registry_allow_private_hosts",
                "is for tests: with it, strangers who can reach server.listen can reach this machine's network",
            ));
        }
        const GAS_OF_A_TRANSFER: u64 = 100_000;
        if self.policy.gas_per_settlement_max < GAS_OF_A_TRANSFER {
            return Err(ConfigError::value(
                "policy.gas_per_settlement_max",
                "must be at least 100000, or no transfer would fit",
            ));
        }
        const GAS_OF_A_BLOCK: u64 = 30_000_000;
        if self.policy.gas_per_settlement_max > GAS_OF_A_BLOCK {
            return Err(ConfigError::value(
                "policy.gas_per_settlement_max",
                "must be at most 30000000: no node simulates with more",
            ));
        }
        const MARGIN_SECONDS_MAX: u64 = 86_400;
        if self.policy.validity_margin_seconds > MARGIN_SECONDS_MAX {
            return Err(ConfigError::value(
                "policy.validity_margin_seconds",
                "must be at most 86400: authorizations are rarely valid for longer than a day",
            ));
        }
        let lifetime = self.policy.authorization_lifetime_seconds_max;
        if lifetime != 0 && lifetime <= self.policy.validity_margin_seconds {
            return Err(ConfigError::value(
                "policy.authorization_lifetime_seconds_max",
                "must be more than policy.validity_margin_seconds, or every payment would be refused",
            ));
        }
        let fee_max = self.policy.fee_per_settlement_wei_max;
        Ok(Settings {
            server,
            store_url: secret::resolve_or_literal("store.url", &self.store.url)?,
            reserve_on_verify: self.replay.reserve_on_verify,
            validity_margin_seconds: self.policy.validity_margin_seconds,
            authorization_lifetime_seconds_max: self.policy.authorization_lifetime_seconds_max,
            gas_per_settlement_max: self.policy.gas_per_settlement_max,
            fee_per_settlement_wei_max: (!fee_max.is_zero()).then_some(fee_max),
            settle_wait,
            reorg_watch: Duration::from_secs(self.settle.reorg_watch_seconds),
            accept_settled_elsewhere: self.settle.accept_settled_elsewhere,
            payee,
            networks: networks::understand(self.networks)?,
        })
    }
}

/// As in config/default.toml.
const DEFAULT_OPERATOR_LISTEN: &str = "127.0.0.1:4022";

impl Server {
    fn understand(self) -> Result<ServerSettings, ConfigError> {
        let listen = address("server.listen", &self.listen)?;
        let operator_listen = match self.operator_listen.as_str() {
            "" => None,
            text => Some(address("server.operator_listen", text)?),
        };
        if !listen.ip().is_loopback() && self.api_keys.is_empty() && !self.public {
            return Err(ConfigError::value(
                "server.listen",
                "is not a loopback address: set server.api_keys, or say server.public = true",
            ));
        }
        const CONNECTIONS_MAX: usize = 1 << 20;
        if !(1..=CONNECTIONS_MAX).contains(&self.connections_max) {
            return Err(ConfigError::value("server.connections_max", "must be 1 to 1048576"));
        }
        const REQUEST_TIMEOUT_MS_MAX: u64 = 600_000;
        if self.request_timeout_ms > REQUEST_TIMEOUT_MS_MAX {
            return Err(ConfigError::value(
                "server.request_timeout_ms",
                "must be at most 600000 milliseconds (10 minutes): no client waits longer",
            ));
        }
        if self.body_bytes_max < 1024 {
            return Err(ConfigError::value("server.body_bytes_max", "must be at least 1024 bytes"));
        }
        let cors_origins = self
            .cors_origins
            .iter()
            .map(|origin| {
                // A wildcard would be taken for a host and match nothing.
                let bare = !origin.contains('*')
                    && url::Url::parse(origin).is_ok_and(|url| {
                        matches!(url.scheme(), "http" | "https")
                            && url.origin().ascii_serialization() == *origin
                    });
                match origin.parse() {
                    Ok(value) if bare => Ok(value),
                    _ => Err(ConfigError::value(
                        "server.cors_origins",
                        "each must be a bare origin like https://example.com",
                    )),
                }
            })
            .collect::<Result<_, _>>()?;
        let api_keys = self
            .api_keys
            .iter()
            .enumerate()
            .map(|(i, reference)| {
                let key = format!("server.api_keys[{i}]");
                let secret = secret::resolve(&key, reference)?;
                match secret.expose().bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                    true => Ok(secret),
                    false => Err(ConfigError::value(
                        key,
                        "must be one line of printable ASCII: clients send it in a header",
                    )),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(ServerSettings {
            listen,
            operator_listen,
            operator_listen_is_default: self.operator_listen == DEFAULT_OPERATOR_LISTEN,
            connections_max: self.connections_max,
            body_bytes_max: self.body_bytes_max,
            request_timeout: Duration::from_millis(positive(
                "server.request_timeout_ms",
                self.request_timeout_ms,
            )?),
            cors_origins,
            api_keys,
        })
    }
}

fn positive(key: &str, value: u64) -> Result<u64, ConfigError> {
    if value == 0 {
        return Err(ConfigError::value(key, "must be more than 0"));
    }
    Ok(value)
}

fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| ConfigError::value(key, "must be IP:PORT"))
}
