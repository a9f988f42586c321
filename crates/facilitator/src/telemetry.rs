//! Logs: to stderr, one line an event.
//!
//! Only our own crates log. Dependencies print URLs and bodies at their lower levels, and those hold keys and signed
//! authorizations; `RUST_LOG` cannot turn them on.

use tracing::Metadata;
use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, layer::SubscriberExt, util::SubscriberInitExt,
};

/// Starts logging, at `level` unless `RUST_LOG` says otherwise.
pub(crate) fn start(level: &str) {
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let ours = filter_fn(is_ours);
    let _ = tracing_subscriber::registry().with(lines.with_filter(ours)).with(level).try_init();
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().split("::").next().is_some_and(|krate| krate.starts_with("quittance"))
}
