//! Values that must not be shown, and where they are kept.

use super::ConfigError;
use std::fmt;
use url::Url;

/// A value that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, at the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// `env:NAME` or `file:PATH`; anything else is refused, so that no secret stands in the file.
pub(super) fn resolve(key: &str, reference: &str) -> Result<Secret, ConfigError> {
    match lookup(key, reference)? {
        Some(secret) => Ok(secret),
        None => Err(ConfigError::value(
            key,
            "must be \"env:NAME\" or \"file:PATH\"; no secret stands in this file",
        )),
    }
}

/// `env:NAME`, `file:PATH`, or the value itself.
pub(super) fn resolve_or_literal(key: &str, value: &str) -> Result<Secret, ConfigError> {
    Ok(lookup(key, value)?.unwrap_or_else(|| Secret::new(value)))
}

/// RPC endpoints, each a secret or a literal: their paths can be keys.
pub(super) fn rpc_urls(key: &str, references: &[String]) -> Result<Vec<Url>, ConfigError> {
    let each = references.iter().enumerate();
    each.map(|(i, reference)| {
        let key = format!("{key}[{i}]");
        match Url::parse(resolve_or_literal(&key, reference)?.expose()) {
            Ok(url) if matches!(url.scheme(), "http" | "https" | "ws" | "wss") && url.has_host() => Ok(url),
            _ => Err(ConfigError::value(key, "must be an http, https, ws or wss URL")),
        }
    })
    .collect()
}

fn lookup(key: &str, reference: &str) -> Result<Option<Secret>, ConfigError> {
    if matches!(reference, "env:" | "file:") {
        return Err(ConfigError::value(key, format!("nothing is named behind \"{reference}\"")));
    }
    let value = if let Some(name) = reference.strip_prefix("env:") {
        environment(name).ok_or_else(|| {
            ConfigError::value(key, format!("environment variable {} is not set", shown(name)))
        })?
    } else if let Some(path) = reference.strip_prefix("file:") {
        std::fs::read_to_string(path)
            .map_err(|error| ConfigError::value(key, format!("file {}: {}", shown(path), error.kind())))?
    } else {
        return Ok(None);
    };
    match value.trim() {
        "" => Err(ConfigError::value(key, "the value it points to is empty")),
        value => Ok(Some(Secret::new(value))),
    }
}

/// A name or path as an error may repeat it: what looks like a key was one, put behind the prefix by mistake.
fn shown(reference: &str) -> &str {
    const HEX_DIGITS_MAX: usize = 40;
    let hex = reference.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max().unwrap_or(0);
    if hex > HEX_DIGITS_MAX { "(not shown: it looks like a key)" } else { reference }
}

#[allow(clippy::disallowed_methods)] // the one place that reads the environment
pub(super) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The names of everything in the environment; values are nobody's business.
#[allow(clippy::disallowed_methods)]
pub(super) fn names_in_environment() -> impl Iterator<Item = String> {
    std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned())
}
