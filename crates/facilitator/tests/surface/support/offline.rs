//! A server whose only node is a proxy in front of nothing: what asks the chain is seen, and gets no answer.

use super::{
    BINARY, Endpoint, NETWORK, config, network,
    shape::{No, network_of, payer_of},
};
use quittance_testkit::{
    Facilitator, PaymentBuilder, SignedPayment, X402Version,
    client::Answer,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, RpcProxy, process::Wait},
};
use serde_json::{Value, json};

/// A port nobody listens on.
const NOWHERE: &str = "http://127.0.0.1:1/";

pub(crate) struct Offline {
    pub(crate) client: Facilitator,
    pub(crate) server: QuittanceProcess,
    proxy: RpcProxy,
}

/// What a request must lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// HTTP 200, refused with this code, and the chain was not asked.
    Refused(&'static str),
    /// Well formed: the chain was asked, and since it does not answer, nothing was decided.
    Asked,
}

impl Offline {
    pub(crate) async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        Self::start_on(|network| network, change).await
    }

    pub(crate) async fn start_without_v1() -> Self {
        Self::start_on(|network| network.set("v1_name", json!("")), |config| config).await
    }

    async fn start_on(
        on: impl FnOnce(NetworkConfig) -> NetworkConfig,
        change: impl FnOnce(ConfigBuilder) -> ConfigBuilder,
    ) -> Self {
        let proxy = RpcProxy::start(NOWHERE).await.unwrap();
        let config = change(config(on(network(proxy.url()))));
        let server = QuittanceProcess::start_until(BINARY, config, Wait::Healthy).await.unwrap();
        Self { client: server.client().unwrap(), server, proxy }
    }

    /// How often the chain was asked since the start.
    pub(crate) fn asked(&self) -> u64 {
        self.proxy.http_requests()
    }

    /// Sends a body to both endpoints.
    pub(crate) async fn expect(&self, body: &Value, expect: Expect, case: &str) {
        for endpoint in Endpoint::BOTH {
            let before = self.asked();
            let answer = endpoint.post(&self.client, body).await;
            let asked = self.asked() > before;
            let (status, code) = match expect {
                Expect::Refused(code) => (200, code),
                Expect::Asked => (503, endpoint.unexpected()),
            };
            No { status, code, network: network_of(body), payer: payer_of(body) }
                .check(endpoint, &answer, case);
            assert_eq!(asked, expect == Expect::Asked, "the chain was asked: {asked}. {case}");
        }
    }

    pub(crate) async fn refused(&self, body: &Value, code: &'static str, case: &str) {
        self.expect(body, Expect::Refused(code), case).await;
    }

    /// Sends bytes to both endpoints; they are answered with this status and full shape, as nothing of them was read.
    pub(crate) async fn bytes_refused(&self, content_type: &str, bytes: &[u8], status: u16, case: &str) {
        for endpoint in Endpoint::BOTH {
            let before = self.asked();
            let answer = self.client.post_bytes(endpoint.path(), content_type, bytes.to_vec()).await.unwrap();
            unread(status, endpoint, &answer, case);
            assert_eq!(self.asked(), before, "{case}");
        }
    }

    /// No row came of anything so far.
    pub(crate) async fn nothing_reserved(&self) {
        let answer = self.client.get(&format!("/settlements?network={NETWORK}")).await.unwrap();
        assert_eq!((answer.status, &answer.json), (200, &json!({"settlements": []})), "{}", answer.text);
    }
}

/// The full shape of an answer to a request of which nothing was read.
pub(crate) fn unread(status: u16, endpoint: Endpoint, answer: &Answer, case: &str) {
    No { status, code: "invalid_payload", network: "unknown:unknown", payer: None }
        .check(endpoint, answer, case);
}

/// A payment nothing is wrong with, as far as can be told without the chain.
pub(crate) fn payment(version: X402Version) -> SignedPayment {
    let asset = "0x036CbD53842c5426634e7929541eC2318f3dCF7e".parse().unwrap();
    PaymentBuilder::new(super::CHAIN_ID, asset).version(version).sign()
}

/// Both versions.
pub(crate) const VERSIONS: [X402Version; 2] = [X402Version::V1, X402Version::V2];
