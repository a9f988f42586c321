//! The stage on which cases are played.

use crate::{
    files::{Files, Page},
    stage::BINARY,
    world::{World, tls::Authority},
};
use alloy_primitives::{Address, B256, Bytes, U256, address, hex, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use quittance_testkit::{
    Anvil, DevChain, Facilitator,
    contracts::artifact,
    harness::{
        ConfigBuilder, Fault, NetworkConfig, QuittanceProcess, RpcProxy, Rule,
        process::Wait,
        proxy::{Call, RuleId},
    },
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

sol! {
    interface IRegistry {
        function register(string agentURI) external returns (uint256);
        function setAgentURI(uint256 agentId, string newURI) external;
        function setAgentWallet(uint256 agentId, address newWallet, uint256 deadline, bytes signature) external;
        function unsetAgentWallet(uint256 agentId) external;
        function transferFrom(address from, address to, uint256 tokenId) external;
        function getAgentWallet(uint256 agentId) external view returns (address);
        function ownerOf(uint256 agentId) external view returns (address);
        function tokenURI(uint256 agentId) external view returns (string);
    }
}

/// What the data's cases have in common.
pub(super) const CHAIN_ID: u64 = 4663;
pub(super) const REGISTRY: Address = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
pub(super) const NOW: u64 = 1_800_000_000;
/// The first dev account: the node signs for it.
pub(super) const OWNER: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
/// Where files are, unless a case says where.
pub(super) const FILES: &str = "https://files.example";

/// Where the registry has its next id.
const NEXT_ID: &str = "0xa040f782729de4970518741823ec1276cbcd41a0c7493f62d173341566a04e00";
/// And where it has the owners by id.
const OWNERS: U256 = U256::ZERO;
/// Where the registry's code is as well, for a registry that passes most calls on.
const REGISTRY_CODE: Address = Address::repeat_byte(0x80);
const MAGIC: B256 = B256::new(hex!("1626ba7e00000000000000000000000000000000000000000000000000000000"));

/// One case: the state of the chain and the web, the question, and what is expected of the answer.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) name: String,
    pub(super) agent_id: U256,
    pub(super) wallet: Address,
    pub(super) token_uri: String,
    /// Path and text on the web server, and on the gateway.
    pub(super) page: Option<(String, Page)>,
    pub(super) gateway_page: Option<(String, Page)>,
    pub(super) code: Code,
    pub(super) registry: RegistryCode,
    /// Calls that fail.
    pub(super) fault: Option<Unread>,
    /// The body of `POST /payee`.
    pub(super) question: Value,
    pub(super) expected: Expected,
}

/// Code at the agent wallet.
#[derive(Clone, Debug)]
pub(super) enum Code {
    As(Bytes),
    Answers(B256),
    Reverts,
    /// An account whose delegate answers.
    DelegateAnswers(Bytes, B256),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryCode {
    Real,
    None,
    /// Answers `getAgentWallet` with three words, as builds of January 2026 did.
    Words3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    Registry,
    Code,
    Signature,
}

#[derive(Debug)]
pub(super) struct Expected {
    pub(super) outcome: Value,
    pub(super) rule: Value,
    pub(super) failed_read: Value,
    pub(super) notes: Vec<String>,
    /// Registry and agent id, as they are named; and by whom.
    pub(super) identity: Option<(String, String, &'static str)>,
    /// Where the file came from, where the case says it.
    pub(super) source: Option<&'static str>,
}

pub(super) struct Theatre {
    _server: QuittanceProcess,
    client: Facilitator,
    anvil: Anvil,
    chain: DevChain,
    registry: RpcProxy,
    pub(super) web: Files,
    gateway: Files,
    _world: World,
    /// What the registry says by now.
    agents: BTreeMap<U256, (Address, String)>,
    /// The first verified identity of each origin.
    verified: BTreeMap<String, Value>,
}

impl Theatre {
    pub(super) async fn open() -> Self {
        let anvil = Anvil::builder().chain_id(CHAIN_ID).timestamp(NOW).spawn().await.unwrap();
        let chain = DevChain::deploy(&anvil).await.unwrap();
        anvil.set_code(REGISTRY_CODE, &registry_code()).await.unwrap();
        anvil.set_code(REGISTRY, &registry_code()).await.unwrap();
        let registry = RpcProxy::start(anvil.url()).await.unwrap();
        let (web, gateway) = (Files::start().await, Files::start().await);
        let authority = Authority::new();
        let front = authority.in_front_of(web.address, &["files.example", "example.com"]).await;
        // nobody.example has an address, and nobody is there.
        let world = World::new()
            .clock(NOW)
            .host("files.example", "93.184.216.34")
            .host("example.com", "93.184.216.34")
            .host("nobody.example", "93.184.216.35")
            .route("93.184.216.34:443", front.port)
            .route("93.184.216.34:80", web.address.port());
        let config = ConfigBuilder::new()
            .unwrap()
            .network(NetworkConfig::new(CHAIN_ID).rpc_url(anvil.url()).dev_signer(0))
            .set("payee.mode", json!("report"))
            .set("payee.ipfs_gateway", json!(gateway.url))
            .extra(&format!(
                "[[payee.registries]]\nid = \"eip155:{CHAIN_ID}:{REGISTRY}\"\nrpc_urls = [\"{}\"]\n",
                registry.url()
            ));
        let config = world.trusting(config, &authority);
        let server = QuittanceProcess::start_until(BINARY, config, Wait::Ready).await.unwrap();
        let client = server.client().unwrap();
        Self {
            _server: server,
            client,
            anvil,
            chain,
            registry,
            web,
            gateway,
            _world: world,
            agents: BTreeMap::new(),
            verified: BTreeMap::new(),
        }
    }

    pub(super) async fn play(&mut self, play: &Play) {
        self.set(play).await;
        let rules = self.break_calls(play);
        let answer = self.ask(&play.question).await;
        self.compare(play, &answer).await;
        for rule in rules {
            self.registry.remove(rule);
        }
        if play.registry != RegistryCode::Real {
            self.anvil.set_code(REGISTRY, &registry_code()).await.unwrap();
        }
    }

    /// Asks `POST /payee`, which has to answer.
    pub(super) async fn ask(&self, question: &Value) -> Value {
        let answer = self.client.post("/payee", question, &[]).await.unwrap();
        assert_eq!(answer.status, 200, "{question}: {}", answer.text);
        answer.json
    }

    /// The id that the registry gives to the next agent.
    pub(super) async fn register_next(&self, id: U256) {
        self.anvil.set_storage_at(REGISTRY, NEXT_ID.parse().unwrap(), id.into()).await.unwrap();
    }

    /// Whoever asks this wallet whether it agrees is told so (ERC-1271).
    pub(super) async fn consent(&self, wallet: Address) {
        self.anvil.set_code(wallet, &answers(MAGIC)).await.unwrap();
    }

    /// In a block of its own.
    pub(super) async fn set_code(&self, account: Address, code: &Bytes) {
        self.anvil.set_code(account, code).await.unwrap();
        self.anvil.mine(1).await.unwrap();
    }

    /// A deadline that the registry accepts.
    pub(super) async fn soon(&self) -> U256 {
        U256::from(self.chain.client().block_timestamp().await.unwrap() + 200)
    }

    /// What the registry answers, as it comes.
    pub(super) async fn raw<C: SolCall>(&self, call: C) -> Value {
        let data: Bytes = call.abi_encode().into();
        let call = json!([{ "to": REGISTRY, "data": data }, "latest"]);
        self.chain.client().call("eth_call", call).await.unwrap()
    }

    /// The kinds of the registry's logs in the newest block, in order.
    pub(super) async fn newest_topics(&self) -> Value {
        let filter = json!([{ "address": REGISTRY, "fromBlock": "latest", "toBlock": "latest" }]);
        let logs = self.chain.client().call("eth_getLogs", filter).await.unwrap();
        logs.as_array().unwrap().iter().map(|log| log["topics"][0].clone()).collect()
    }

    pub(super) async fn send_as<C: SolCall>(&self, owner: Address, call: C) {
        let receipt = self.chain.send(owner, Some(REGISTRY), call.abi_encode().into()).await.unwrap();
        assert!(receipt.success, "{}", C::SIGNATURE);
    }

    /// The state of the case, in a block of its own.
    async fn set(&mut self, play: &Play) {
        for (server, page) in [(&self.web, &play.page), (&self.gateway, &play.gateway_page)] {
            if let Some((path, page)) = page {
                server.put(path, page.clone());
            }
        }
        self.agent(play).await;
        if !play.wallet.is_zero() {
            let code = match &play.code {
                Code::As(code) => code.clone(),
                Code::Answers(word) => answers(*word),
                Code::Reverts => hex!("5f5ffd").into(),
                Code::DelegateAnswers(code, word) => {
                    self.anvil.set_code(Address::from_slice(&code[3..]), &answers(*word)).await.unwrap();
                    code.clone()
                }
            };
            self.anvil.set_code(play.wallet, &code).await.unwrap();
        }
        match play.registry {
            RegistryCode::Real => {}
            RegistryCode::None => self.anvil.set_code(REGISTRY, &Bytes::new()).await.unwrap(),
            RegistryCode::Words3 => self.anvil.set_code(REGISTRY, &answers_3_words()).await.unwrap(),
        }
        self.anvil.mine(1).await.unwrap();
    }

    async fn agent(&mut self, play: &Play) {
        let (id, wallet, uri) = (play.agent_id, play.wallet, &play.token_uri);
        if !self.agents.contains_key(&id) {
            if id == U256::MAX {
                let slot = keccak256((id, OWNERS).abi_encode());
                let owner = OWNER.into_word();
                self.anvil.set_storage_at(REGISTRY, slot.into(), owner).await.unwrap();
            } else {
                self.register_next(id).await;
                self.send(play, IRegistry::registerCall { agentURI: String::new() }).await;
            }
        }
        let known = self.agents.get(&id);
        if known.is_none_or(|(_, known)| known != uri) {
            self.send(play, IRegistry::setAgentURICall { agentId: id, newURI: uri.clone() }).await;
        }
        if self.agents.get(&id).is_none_or(|(known, _)| *known != wallet) {
            if wallet.is_zero() {
                self.send(play, IRegistry::unsetAgentWalletCall { agentId: id }).await;
            } else {
                self.consent(wallet).await;
                let deadline = self.soon().await;
                let signature = Bytes::new();
                self.send(
                    play,
                    IRegistry::setAgentWalletCall { agentId: id, newWallet: wallet, deadline, signature },
                )
                .await;
            }
        }
        self.agents.insert(id, (wallet, uri.clone()));
        let agent = (
            self.chain.call(REGISTRY, &IRegistry::ownerOfCall { agentId: id }).await.unwrap(),
            self.chain.call(REGISTRY, &IRegistry::getAgentWalletCall { agentId: id }).await.unwrap(),
            self.chain.call(REGISTRY, &IRegistry::tokenURICall { agentId: id }).await.unwrap(),
        );
        assert_eq!(agent, (OWNER, wallet, uri.clone()), "{}", play.name);
    }

    async fn send<C: SolCall>(&self, play: &Play, call: C) {
        let receipt = self.chain.send(OWNER, Some(REGISTRY), call.abi_encode().into()).await.unwrap();
        assert!(receipt.success, "{}: {}", play.name, C::SIGNATURE);
    }

    /// A read that fails alone needs a node that does not do all of them in one call.
    fn break_calls(&self, play: &Play) -> Vec<RuleId> {
        let refuse = |calls: fn(&Call) -> bool| {
            Rule::on("eth_call").when(calls).then(Fault::error(-32602, "not supported"))
        };
        let wallet = json!(play.wallet);
        let broken = match play.fault {
            None => return Vec::new(),
            Some(Unread::Registry) => return vec![self.registry.add(Rule::any().then(Fault::Drop))],
            Some(Unread::Code) => Rule::on("eth_getCode"),
            Some(Unread::Signature) => Rule::on("eth_call").when(move |call| call.params[0]["to"] == wallet),
        };
        let rules = [
            refuse(|call| call.params[1].is_object()),
            refuse(|call| call.params[0].get("to").is_none()),
            broken.then(Fault::Drop),
        ];
        rules.map(|rule| self.registry.add(rule)).into()
    }

    async fn compare(&mut self, play: &Play, answer: &Value) {
        let (name, expected) = (&play.name, &play.expected);
        let said = [&answer["outcome"], &answer["rule"], &answer["failedRead"]];
        assert_eq!(said, [&expected.outcome, &expected.rule, &expected.failed_read], "{name}: {answer}");
        assert_eq!(answer["reason"].is_null(), expected.failed_read.is_null(), "{name}: {answer}");
        let requirement = &play.question["paymentRequirements"];
        assert_eq!(answer["payTo"], requirement["payTo"], "{name}");
        assert_eq!(answer["checkedAt"], NOW, "{name}");
        assert_eq!(answer["notes"], self.notes(expected, answer), "{name}: {answer}");
        let Some((registry, agent_id, source)) = &expected.identity else {
            assert!(answer["identity"].is_null() && answer["block"].is_null(), "{name}: {answer}");
            return;
        };
        let identity = json!({ "registry": registry, "agentId": agent_id, "source": source });
        assert_eq!(answer["identity"], identity, "{name}");
        if expected.failed_read != "registry" {
            let head = self.anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
            let number = self.chain.client().block_number().await.unwrap();
            let block = json!({ "chainId": CHAIN_ID.to_string(), "number": number.to_string(), "hash": head["hash"] });
            let named = &answer["block"];
            let named =
                json!({ "chainId": named["chainId"], "number": named["number"], "hash": named["hash"] });
            assert_eq!(named, block, "{name}: {answer}");
            assert_eq!(answer["agentWallet"], play.wallet.to_string(), "{name}");
        }
        if let Some(source) = expected.source {
            assert_eq!(answer["file"]["source"], source, "{name}: {answer}");
        }
        if answer["outcome"].as_str().is_some_and(|outcome| outcome.starts_with("verified")) {
            let origin = answer["origin"].as_str().unwrap().to_owned();
            self.verified.entry(origin).or_insert_with(|| agent(answer));
        }
    }

    /// The data's notes, and that an origin was verified under another agent before.
    fn notes(&self, expected: &Expected, answer: &Value) -> Value {
        let mut notes = expected.notes.clone();
        let first = answer["origin"].as_str().and_then(|origin| self.verified.get(origin));
        if expected.identity.is_some() && first.is_some_and(|first| *first != agent(answer)) {
            let at = notes.iter().position(|note| note != "payment-differs" && note != "identity-differs");
            notes.insert(at.unwrap_or(notes.len()), "identity-changed".to_owned());
        }
        json!(notes)
    }
}

/// The identity in an answer.
fn agent(answer: &Value) -> Value {
    json!([answer["identity"]["registry"], answer["identity"]["agentId"]])
}

fn registry_code() -> Bytes {
    artifact("IdentityRegistry").unwrap().deployed_bytecode
}

/// Returns this word, whatever it is asked.
fn answers(word: B256) -> Bytes {
    [&hex!("7f")[..], word.as_slice(), &hex!("5f5260205ff3")].concat().into()
}

/// The registry, but for one function: `return (32, 20, 0)`.
fn answers_3_words() -> Bytes {
    // selector == getAgentWallet ? jump to 0x35 : delegatecall the registry's code and return what it does
    let choose = hex!("5f3560e01c630033950914603557");
    let forward =
        [&hex!("365f5f375f5f365f73")[..], REGISTRY_CODE.as_slice(), &hex!("5af4503d5f5f3e3d5ff3")].concat();
    let mut code = [&choose[..], &forward].concat();
    assert_eq!(code.len(), 0x35);
    code.extend_from_slice(&hex!("5b60205f5260146020525f60405260605ff3"));
    code.into()
}
