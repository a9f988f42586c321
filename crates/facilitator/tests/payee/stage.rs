//! A chain with tokens and a registry, a web server for files, and a server that checks payees.

use crate::{
    agents::{self, Delegated, REGISTRY, SELLER, file_of, registry_id},
    files::{Files, Page},
};
use alloy_primitives::{Address, Bytes, U256};
use quittance_testkit::{
    Anvil, DevChain, Facilitator, PaymentBuilder, SignedPayment,
    contracts::artifact,
    dev_address,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, RpcProxy, process::Wait},
};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_quittance");
pub(crate) const CHAIN_ID: u64 = 84532;
pub(crate) const NETWORK: &str = "eip155:84532";
/// What payments buy unless a test says otherwise, and where it is.
pub(crate) const RESOURCE: &str = "https://seller.example/report";
pub(crate) const ORIGIN: &str = "https://seller.example";
/// The seller's treasury, and an attacker's address.
pub(crate) const TREASURY: Address = Address::repeat_byte(0x77);
pub(crate) const THIEF: Address = Address::repeat_byte(0x66);
/// Who pays.
pub(crate) const PAYER: usize = 2;

/// How long a test waits for what has to happen at once.
const NUDGED_DEADLINE: Duration = Duration::from_secs(15);

pub(crate) struct Stage {
    pub(crate) server: QuittanceProcess,
    pub(crate) client: Facilitator,
    /// Between the server and the chain it settles on.
    pub(crate) proxy: RpcProxy,
    /// Between the server and the registry's chain, which is the same.
    pub(crate) registry: RpcProxy,
    pub(crate) files: Files,
    pub(crate) chain: DevChain,
    anvil: Anvil,
}

impl Stage {
    /// A server in this mode, which reads files from this machine.
    pub(crate) async fn start(mode: &str) -> Self {
        Self::start_with(mode, |config| config.set("payee.registry_allow_private_hosts", json!(true))).await
    }

    pub(crate) async fn start_with(mode: &str, change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        let anvil = Anvil::builder().spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        assert_eq!(chain.chain_id(), CHAIN_ID);
        let code = artifact("IdentityRegistry").unwrap().deployed_bytecode;
        anvil.set_code(REGISTRY, &code).await.unwrap();
        chain.mint(chain.token, dev_address(PAYER), U256::from(1_000_000_000)).await.unwrap();
        let proxy = RpcProxy::start(anvil.url()).await.unwrap();
        let registry = RpcProxy::start(anvil.url()).await.unwrap();
        let files = Files::start().await;
        let config = ConfigBuilder::new()
            .unwrap()
            .network(NetworkConfig::new(CHAIN_ID).rpc_url(proxy.url()).dev_signer(0))
            .set("payee.mode", json!(mode))
            .set("payee.ipfs_gateway", json!(files.url))
            .extra(&format!(
                "[[payee.registries]]\nid = \"{}\"\nrpc_urls = [\"{}\"]\n",
                registry_id(CHAIN_ID),
                registry.url()
            ));
        let config = change(config);
        let server = QuittanceProcess::start_until(BINARY, config, Wait::Ready).await.unwrap();
        let client = server.client().unwrap();
        Self { server, client, proxy, registry, files, chain, anvil }
    }

    /// An agent of the seller's whose file is on the web server, and lists the resource's origin.
    pub(crate) async fn agent(&self) -> Agent {
        self.agent_with(&self.files.put("/agent.json", Page::Json(file_of(&[RESOURCE])))).await
    }

    pub(crate) async fn agent_with(&self, uri: &str) -> Agent {
        let id = agents::register(&self.chain, uri).await;
        Agent { id, wallet: dev_address(SELLER), key: SELLER, asset: self.chain.token }
    }

    pub(crate) async fn set_code(&self, account: Address, code: &Bytes) {
        self.anvil.set_code(account, code).await.unwrap();
    }

    /// Asks `POST /payee`, which has to answer.
    pub(crate) async fn payee(&self, body: &Value) -> Value {
        let answer = self.client.post("/payee", body, &[]).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json
    }

    /// Waits for something with a server whose time is stopped, and asks it for something else meanwhile: it looks at the
    /// time when it is woken.
    pub(crate) async fn nudged<T>(&self, until: impl Future<Output = T>) -> T {
        let nudging = async {
            loop {
                self.nudge().await;
            }
        };
        tokio::time::timeout(NUDGED_DEADLINE, async {
            tokio::select! { done = until => done, never = nudging => never }
        })
        .await
        .expect("the time has come, and nothing happens")
    }

    /// One request, over a connection of its own.
    pub(crate) async fn nudge(&self) {
        let answer = self.server.client().unwrap().get("/healthz").await.unwrap();
        assert_eq!(answer.status, 200);
    }

    /// The answer for one requirement of the usual resource.
    pub(crate) async fn check(&self, requirement: Value) -> Value {
        self.payee(&json!({ "paymentRequirements": requirement, "resource": RESOURCE })).await
    }

    /// A payment for an agent, to whom it says.
    pub(crate) async fn payment(&self, erc8004: Value, pay_to: Address) -> SignedPayment {
        self.builder(erc8004, pay_to).await.sign()
    }

    pub(crate) async fn builder(&self, erc8004: Value, pay_to: Address) -> PaymentBuilder {
        let builder = self.chain.payment().await.unwrap();
        builder.pay_to(pay_to).resource(RESOURCE).extra("erc8004", erc8004)
    }

    pub(crate) async fn verify(&self, payment: &SignedPayment) -> Value {
        let (status, body) = self.client.verify(payment.body()).await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(crate) async fn settle(&self, payment: &SignedPayment) -> Value {
        let (status, body) = self.client.settle(payment.body()).await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(crate) async fn rows(&self, payment: &SignedPayment) -> Vec<Value> {
        let path = format!("/settlements?payer={}&nonce={}", payment.payer(), payment.nonce());
        self.client.get(&path).await.unwrap().json["settlements"].as_array().unwrap().clone()
    }

    pub(crate) async fn paid(&self, account: Address) -> U256 {
        self.chain.balance_of(self.chain.token, account).await.unwrap()
    }
}

/// A registered agent and who signs for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agent {
    pub(crate) id: U256,
    pub(crate) wallet: Address,
    pub(crate) key: usize,
    pub(crate) asset: Address,
}

impl Agent {
    /// `extra.erc8004`.
    pub(crate) fn named(&self, delegation: Value) -> Value {
        json!({ "registry": registry_id(CHAIN_ID), "agentId": self.id.to_string(), "delegation": delegation })
    }

    pub(crate) fn delegation_to(&self, pay_to: Address) -> Value {
        self.delegation(pay_to, NETWORK, ORIGIN)
    }

    pub(crate) fn delegation(&self, pay_to: Address, network: &str, origin: &str) -> Value {
        Delegated {
            chain_id: CHAIN_ID,
            agent_id: self.id,
            wallet: self.wallet,
            key: self.key,
            network,
            pay_to,
            asset: self.asset,
            origin,
        }
        .json()
    }

    /// A payment requirement.
    pub(crate) fn requirement(&self, pay_to: Address, delegation: Value) -> Value {
        self.requirement_on(NETWORK, pay_to, delegation)
    }

    pub(crate) fn requirement_on(&self, network: &str, pay_to: Address, delegation: Value) -> Value {
        json!({
            "scheme": "exact",
            "network": network,
            "asset": self.asset,
            "amount": "10000",
            "payTo": pay_to,
            "extra": { "erc8004": self.named(delegation) },
        })
    }
}

/// What an answer says, in short: outcome, and the rule or the failed read.
pub(crate) fn said(answer: &Value) -> (&str, &str) {
    let detail = answer["rule"].as_str().or(answer["failedRead"].as_str()).unwrap_or_default();
    (answer["outcome"].as_str().unwrap_or_default(), detail)
}
