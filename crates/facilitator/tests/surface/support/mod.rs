//! What the tests stand on.

pub(crate) mod cli;
pub(crate) mod offline;
pub(crate) mod online;
pub(crate) mod raw;
pub(crate) mod shape;

use quittance_testkit::{
    Facilitator,
    client::Answer,
    harness::{ConfigBuilder, NetworkConfig},
};
use serde_json::Value;

/// The server under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_quittance");
/// The chain of most tests.
pub(crate) const CHAIN_ID: u64 = 84532;
/// Its name in version 2, where answers repeat it.
pub(crate) const NETWORK: &str = "eip155:84532";

/// The two endpoints that judge payments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Verify,
    Settle,
}

impl Endpoint {
    pub(crate) const BOTH: [Self; 2] = [Self::Verify, Self::Settle];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Verify => "/verify",
            Self::Settle => "/settle",
        }
    }

    /// The code for what could not be decided.
    pub(crate) fn unexpected(self) -> &'static str {
        match self {
            Self::Verify => "unexpected_verify_error",
            Self::Settle => "unexpected_settle_error",
        }
    }

    pub(crate) async fn post(self, client: &Facilitator, body: &Value) -> Answer {
        client.post(self.path(), body, &[]).await.unwrap()
    }
}

/// One network behind one RPC URL, with one funded signer.
pub(crate) fn network(rpc_url: impl Into<String>) -> NetworkConfig {
    NetworkConfig::new(CHAIN_ID).rpc_url(rpc_url).dev_signer(0)
}

/// Its configuration.
pub(crate) fn config(network: NetworkConfig) -> ConfigBuilder {
    ConfigBuilder::new().unwrap().network(network)
}
