//! Data, keys, and an agent to test with.

use alloy_primitives::{Address, B256, U256};
use k256::ecdsa::SigningKey;
use quittance_protocol::{
    facts::Erc1271Answer,
    payee::{
        Block, Carried, Context, Delegation, Fact, Facts, FileSource, Identity, Message, Named, Policy,
        Registered, Registration, RegistrationFile, UnreadReason, WalletCode,
    },
    units::UnixSeconds,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::OnceLock};

pub const NOW: UnixSeconds = UnixSeconds(1_800_000_000);
pub const REGISTRY: &str = "eip155:4663:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432";
pub const OWNER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
pub const TREASURY: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
pub const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
pub const SOLANA: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";

/// A file of testdata/payee.
pub fn data(name: &str) -> Value {
    let path = format!("{}/../../testdata/payee/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).expect(&path)).expect(&path)
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().expect(field)
}

pub fn address(text: &str) -> Address {
    text.parse().expect("an address")
}

pub fn bytes(text: &str) -> Vec<u8> {
    alloy_primitives::hex::decode(text).expect("hex")
}

/// The word `isValidSignature` returns.
pub fn erc1271(returned: &[u8]) -> Erc1271Answer {
    let mut word = [0; 32];
    let length = returned.len().min(32);
    word[..length].copy_from_slice(&returned[..length]);
    Erc1271Answer { success: true, return_size: returned.len().try_into().expect("short"), word: word.into() }
}

pub fn magic() -> Erc1271Answer {
    erc1271(&bytes("0x1626ba7e00000000000000000000000000000000000000000000000000000000"))
}

pub fn unread<T>() -> Fact<T> {
    Fact::Unread(UnreadReason::new("timeout"))
}

/// The agent wallet's key.
pub fn key() -> SigningKey {
    SigningKey::from_slice(&[0x11; 32]).expect("a key")
}

pub fn wallet() -> Address {
    static WALLET: OnceLock<Address> = OnceLock::new();
    *WALLET.get_or_init(|| Address::from_private_key(&key()))
}

pub fn identity() -> Identity {
    Identity { registry: REGISTRY.parse().expect("a registry"), agent_id: U256::from(20030) }
}

pub fn policy() -> Policy {
    Policy { registries: [identity().registry].into(), ..Policy::default() }
}

pub fn v1_networks() -> BTreeMap<String, String> {
    [("base".to_owned(), "eip155:8453".to_owned())].into()
}

pub fn context(v1_networks: &BTreeMap<String, String>) -> Context<'_> {
    Context { payload: None, requested_url: None, known: Named::Nothing, v1_networks }
}

pub fn block(number: u64) -> Block {
    Block { chain_id: U256::from(4663), number, hash: B256::repeat_byte(0xb1), timestamp: NOW }
}

pub fn file(json: &Value) -> RegistrationFile {
    let bytes = serde_json::to_vec(json).expect("JSON");
    let registration = Registration::parse(&bytes).expect("a registration file");
    RegistrationFile { registration, source: FileSource::Inline, fetched_at: None }
}

/// An agent with a key for its wallet and one server.
pub fn facts() -> Facts {
    Facts {
        block: Fact::Read(block(1_234_567)),
        registry: Fact::Read(Registered { agent_wallet: wallet(), owner: Some(address(OWNER)) }),
        file: Fact::Read(file(&json!({"services": [{"name": "web", "endpoint": "https://example.com/"}]}))),
        code: Fact::Read(WalletCode::Empty),
        erc1271: Fact::NotAsked,
        remembered: None,
    }
}

/// A requirement of that server.
pub fn requirement(network: &str, pay_to: &str, delegation: &Value) -> Value {
    json!({
        "scheme": "exact", "network": network, "asset": USDC, "amount": "50000", "payTo": pay_to,
        "resource": "https://example.com/api/thing",
        "extra": {"erc8004": {"registry": REGISTRY, "agentId": "20030", "delegation": delegation}},
    })
}

/// What the agent signs to be paid at its treasury on Base.
pub fn message() -> Message {
    Message {
        chain_id: U256::from(4663),
        registry: identity().registry.address(),
        agent_id: identity().agent_id,
        agent_wallet: wallet(),
        network: "eip155:8453".into(),
        pay_to: TREASURY.into(),
        asset: USDC.into(),
        origin: "https://example.com".into(),
        valid_after: NOW.0 - 60,
        valid_until: NOW.0 + 86_400,
        nonce: B256::repeat_byte(0xcd),
    }
}

pub fn sign(message: Message, key: &SigningKey) -> Delegation {
    let digest = message.digest(&identity());
    let (signature, recovery) = key.sign_prehash_recoverable(digest.as_slice()).expect("a signature");
    let signature = [&*signature.to_bytes(), &[27 + recovery.to_byte()]].concat();
    Delegation { message, signature: signature.into() }
}

pub fn carried(value: &Value) -> Delegation {
    match Carried::read(Some(value)) {
        Carried::Delegation(delegation) => *delegation,
        other => panic!("{other:?}"),
    }
}
