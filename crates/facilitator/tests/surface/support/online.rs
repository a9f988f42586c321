//! A server on a chain of its own, with a proxy between them.

use super::{BINARY, Endpoint, config, network, shape};
use alloy_primitives::{Address, U256};
use quittance_testkit::{
    Anvil, AnvilBuilder, DevChain, Facilitator, PaymentBuilder, SignedPayment, X402Version,
    client::Answer,
    dev_address,
    harness::{ConfigBuilder, QuittanceProcess, RpcProxy, SECRET_MARKER, process::Wait},
};
use serde_json::Value;

/// Who pays unless a test says otherwise.
pub(crate) const PAYER: usize = 2;
/// What the payer has: enough for every test.
const FORTUNE: u64 = 1_000_000_000;

pub(crate) struct Online {
    pub(crate) anvil: Anvil,
    pub(crate) chain: DevChain,
    pub(crate) proxy: RpcProxy,
    pub(crate) server: QuittanceProcess,
    pub(crate) client: Facilitator,
}

impl Online {
    pub(crate) async fn start() -> Self {
        Self::start_with(|config| config, Wait::Ready).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder, wait: Wait) -> Self {
        Self::start_on(Anvil::builder(), change, wait).await
    }

    pub(crate) async fn start_on(
        builder: AnvilBuilder,
        change: impl FnOnce(ConfigBuilder) -> ConfigBuilder,
        wait: Wait,
    ) -> Self {
        Self::start_listing(builder, change, wait, |chain| Some(chain.wallet_factory)).await
    }

    pub(crate) async fn start_without_factories() -> Self {
        Self::start_listing(Anvil::builder(), |config| config, Wait::Ready, |_| None).await
    }

    /// With this factory on the allow-list.
    pub(crate) async fn start_listing(
        builder: AnvilBuilder,
        change: impl FnOnce(ConfigBuilder) -> ConfigBuilder,
        wait: Wait,
        factory: impl FnOnce(&DevChain) -> Option<Address>,
    ) -> Self {
        let anvil = builder.spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        chain.mint(chain.token, dev_address(PAYER), U256::from(FORTUNE)).await.unwrap();
        let proxy = RpcProxy::start(anvil.url()).await.unwrap();
        let mut network = network(proxy.url());
        if let Some(factory) = factory(&chain) {
            network = network.wallet_factory(factory);
        }
        let server = QuittanceProcess::start_until(BINARY, change(config(network)), wait).await.unwrap();
        let client = server.client().unwrap();
        Self { anvil, chain, proxy, server, client }
    }

    pub(crate) async fn payment(&self, version: X402Version) -> PaymentBuilder {
        self.chain.payment().await.unwrap().version(version)
    }

    pub(crate) async fn post(&self, endpoint: Endpoint, payment: &SignedPayment) -> Answer {
        endpoint.post(&self.client, payment.body()).await
    }

    /// Neither endpoint decides anything about the payment, and both say that it is not the payment's fault.
    pub(crate) async fn undecided(&self, payment: &SignedPayment, case: &str) {
        for endpoint in Endpoint::BOTH {
            let answer = self.post(endpoint, payment).await;
            self.is_undecided(endpoint, &answer, payment, case);
        }
    }

    pub(crate) fn is_undecided(
        &self,
        endpoint: Endpoint,
        answer: &Answer,
        payment: &SignedPayment,
        case: &str,
    ) {
        let (network, payer) = (payment.network(), Some(payment.payer()));
        shape::No { status: 503, code: endpoint.unexpected(), network, payer }.check(endpoint, answer, case);
        self.tells_nothing(answer, case);
    }

    /// Neither where the node is, nor its key, nor its words.
    pub(crate) fn tells_nothing(&self, answer: &Answer, case: &str) {
        let proxy = self.proxy.url();
        let port = proxy.trim_start_matches("http://127.0.0.1:").split('/').next().unwrap();
        for secret in [SECRET_MARKER, "127.0.0.1", "http", "injected", "proxy", port] {
            assert!(!answer.text.contains(secret), "{secret} in an answer: {} ({case})", answer.text);
        }
    }

    /// Valid, and settled with exactly the amount moved once.
    pub(crate) async fn accepted(&self, payment: &SignedPayment, case: &str) {
        shape::valid(&self.post(Endpoint::Verify, payment).await, payment.payer(), case);
        self.settles(payment, case).await;
    }

    pub(crate) async fn settles(&self, payment: &SignedPayment, case: &str) {
        let before = self.paid(payment).await;
        let answer = self.post(Endpoint::Settle, payment).await;
        shape::settled(&answer, payment.payer(), payment.network(), &payment.value().to_string(), case);
        assert_eq!(self.paid(payment).await, before + payment.value(), "{case}");
    }

    async fn paid(&self, payment: &SignedPayment) -> U256 {
        self.chain.balance_of(payment.asset(), payment.recipient()).await.unwrap()
    }

    /// Refused by both endpoints with this code, and nothing came of it.
    pub(crate) async fn refused(&self, payment: &SignedPayment, code: &str, case: &str) {
        for endpoint in Endpoint::BOTH {
            let answer = self.post(endpoint, payment).await;
            let (network, payer) = (payment.network(), Some(payment.payer()));
            shape::No { status: 200, code, network, payer }.check(endpoint, &answer, case);
        }
        assert_eq!(self.rows(payment).await, Vec::<Value>::new(), "{case}");
    }

    /// Both endpoints refuse it as a failed simulation, and name a finer cause that SDKs have no word for.
    pub(crate) async fn refused_for(&self, payment: &SignedPayment, cause: &str, case: &str) {
        self.refused(payment, "invalid_exact_evm_transaction_simulation_failed", case).await;
        for endpoint in Endpoint::BOTH {
            let answer = self.post(endpoint, payment).await;
            assert_eq!(
                answer.json["extra"],
                serde_json::json!({ "cause": cause }),
                "{case}: {}",
                answer.text
            );
        }
    }

    /// Rows of this payment's nonce.
    pub(crate) async fn rows(&self, payment: &SignedPayment) -> Vec<Value> {
        let path = format!("/settlements?payer={}&nonce={}", payment.payer(), payment.nonce());
        let answer = self.client.get(&path).await.unwrap();
        answer.json["settlements"].as_array().unwrap_or_else(|| panic!("{}", answer.text)).clone()
    }
}
