//! The reader of `testdata/rules/*.json`, as its README describes it.

use super::{
    MARGIN, NOW, address,
    chain::{Chain, Code, Factory, TokenKind},
    keys::Key,
    policy,
    terms::Terms,
};
use alloy_primitives::{Address, B256, U256, keccak256};
use quittance_protocol::{
    rules::Policy,
    scheme::exact_eip3009::{EXACT_PERMIT2_PROXY, MULTICALL3, PERMIT2, UPTO_PERMIT2_PROXY},
    wire::Version,
};
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

/// One row.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: String,
    pub id: String,
    pub versions: Vec<Version>,
    pub payer: String,
    pub token: String,
    pub mutations: Map<String, Value>,
    pub valid: bool,
    pub codes: Vec<String>,
    pub v1_codes: Option<Vec<String>>,
    pub onchain: String,
    pub onchain_unwrapped: Option<String>,
    pub needs: Vec<String>,
}

/// A row made concrete: what is presented, on which chain, under which policy.
#[derive(Clone, Debug)]
pub struct Scene {
    pub terms: Terms,
    pub chain: Chain,
    pub policy: Policy,
    pub edits: Vec<Value>,
    /// Presented first, when the row is about a replay; judged on the same chain unless it is another token.
    pub first: Option<Terms>,
}

/// Every row of every file.
pub fn all() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rules");
    let mut files: Vec<_> = fs::read_dir(dir)
        .expect("testdata/rules")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).expect("a readable file");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("an array");
    let file = path.file_name().expect("a name").to_string_lossy();
    rows.iter().map(|row| case(&file, row)).collect()
}

fn case(file: &str, row: &Value) -> Case {
    let object = row.as_object().expect("an object");
    let text = |field: &str| object[field].as_str().expect("a string").to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().expect("a list").iter().map(|v| v.as_str().expect("a string").into()).collect()
    };
    let expect = object["expect"].as_object().expect("an object");
    let id = text("id");
    known(
        &id,
        object,
        &[
            "id",
            "claim",
            "versions",
            "payer",
            "token",
            "mutations",
            "expect",
            "onchain",
            "onchainUnwrapped",
            "needs",
        ],
    );
    known(&id, expect, &["valid", "codes", "v1Codes"]);
    assert!(text("claim").ends_with('.'), "{id}: a claim is a sentence");
    Case {
        file: file.to_owned(),
        versions: object["versions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|v| if v == 1 { Version::V1 } else { Version::V2 })
            .collect(),
        payer: text("payer"),
        token: text("token"),
        mutations: object["mutations"].as_object().expect("an object").clone(),
        valid: expect["valid"].as_bool().expect("a boolean"),
        codes: expect.get("codes").map(list).unwrap_or_default(),
        v1_codes: expect.get("v1Codes").map(list),
        onchain: text("onchain"),
        onchain_unwrapped: object.get("onchainUnwrapped").map(|v| v.as_str().expect("a string").into()),
        needs: object.get("needs").map(list).unwrap_or_default(),
        id,
    }
}

fn known(id: &str, object: &Map<String, Value>, fields: &[&str]) {
    for field in object.keys() {
        assert!(fields.contains(&field.as_str()), "{id}: unknown field {field}");
    }
}

impl Case {
    /// The code the strict reading demands under `version`.
    pub fn strict_code(&self, version: Version) -> Option<&str> {
        let codes = match (version, &self.v1_codes) {
            (Version::V1, Some(codes)) => codes,
            _ => &self.codes,
        };
        codes.first().map(String::as_str)
    }

    /// Whether a model of the chain can stand for the real one.
    pub fn in_process(&self) -> bool {
        !self.needs.iter().any(|n| n == "evm")
    }

    pub fn scene(&self, version: Version) -> Scene {
        let m = &self.mutations;
        known(
            &self.id,
            m,
            &[
                "amount",
                "payTo",
                "asset",
                "declared",
                "value",
                "to",
                "validAfter",
                "validBefore",
                "from",
                "signed",
                "signature",
                "chain",
                "wire",
                "policy",
                "replay",
            ],
        );
        let mut chain = Chain::new();
        chain.kind = TokenKind::named(&self.token);
        let mut terms = payer(&self.payer, m.get("signature"), &mut chain, Terms::new(version));
        let payer = terms.message.from;
        let party = |value: &Value| named_address(value.as_str().expect("a name"), payer, chain.token);
        let number = |value: &Value| number(value.as_str().expect("a number in a string"));

        if let Some(amount) = m.get("amount") {
            terms.amount = number(amount);
        }
        if let Some(value) = m.get("value") {
            terms.message.value = relative(value.as_str().expect("a string"), terms.amount);
        }
        if let Some(pay_to) = m.get("payTo") {
            terms.pay_to = party(pay_to);
        }
        if let Some(to) = m.get("to") {
            terms.message.to = party(to);
        }
        if let Some(from) = m.get("from") {
            terms.message.from = party(from);
        }
        if let Some(at) = m.get("validAfter") {
            terms.message.valid_after = number(at);
        }
        if let Some(at) = m.get("validBefore") {
            terms.message.valid_before = number(at);
        }
        if let Some(asset) = m.get("asset") {
            assert_eq!(asset, "no-code");
            chain.token_has_code = false;
        }
        if let Some(declared) = m.get("declared").map(|v| v.as_object().expect("an object")) {
            known(&self.id, declared, &["name", "version"]);
            let text = |v: &Value| v.as_str().map(String::from);
            if let Some(name) = declared.get("name") {
                terms.name = text(name);
            }
            if let Some(version) = declared.get("version") {
                terms.domain_version = text(version);
            }
        }
        if let Some(signed) = m.get("signed") {
            self.signed(&mut terms, signed.as_object().expect("an object"));
        }
        if let Some(signature) = m.get("signature") {
            terms.signature = signature.clone();
        }
        let plenty = U256::from(1_000_000_000);
        chain.balances.insert(payer, plenty);
        if let Some(state) = m.get("chain") {
            self.state(&mut chain, &terms, payer, state.as_object().expect("an object"));
        }
        let mut policy = policy();
        assert_eq!(policy.validity_margin_seconds, MARGIN);
        if let Some(changes) = m.get("policy").map(|v| v.as_object().expect("an object")) {
            known(
                &self.id,
                changes,
                &["validityMarginSeconds", "authorizationLifetimeSecondsMax", "gasPerSettlementMax"],
            );
            let set = |field: &str, to: &mut u64| {
                if let Some(value) = changes.get(field) {
                    *to = value.as_u64().expect("a number");
                }
            };
            set("validityMarginSeconds", &mut policy.validity_margin_seconds);
            set("authorizationLifetimeSecondsMax", &mut policy.authorization_lifetime_seconds_max);
            set("gasPerSettlementMax", &mut policy.gas_per_settlement_max);
        }
        let mut first = None;
        if let Some(replay) = m.get("replay") {
            first = Some(terms.clone());
            second(&mut terms, replay.as_str().expect("a word"));
            chain.balances.insert(terms.message.from, plenty);
        }
        let edits = m.get("wire").map(|v| v.as_array().expect("a list").clone()).unwrap_or_default();
        Scene { terms, chain, policy, edits, first }
    }

    fn signed(&self, terms: &mut Terms, signed: &Map<String, Value>) {
        known(
            &self.id,
            signed,
            &[
                "value",
                "validAfter",
                "validBefore",
                "nonce",
                "to",
                "chainId",
                "verifyingContract",
                "name",
                "version",
            ],
        );
        let (mut message, mut domain) = (terms.message, terms.declared());
        for (field, value) in signed {
            let text = value.as_str().unwrap_or_default();
            match field.as_str() {
                "value" => message.value = relative(text, terms.amount),
                "validAfter" => message.valid_after = number(text),
                "validBefore" => message.valid_before = number(text),
                "nonce" => message.nonce = keccak256("other"),
                "to" => message.to = address("other"),
                "chainId" => domain.chain_id = value.as_u64().expect("a number"),
                "verifyingContract" => domain.verifying_contract = address("other"),
                "name" => domain.name = text.into(),
                _ => domain.version = text.into(),
            }
        }
        terms.signed_message = Some(message);
        terms.signed_domain = Some(domain);
    }

    fn state(&self, chain: &mut Chain, terms: &Terms, payer: Address, state: &Map<String, Value>) {
        for (field, value) in state {
            let text = value.as_str().unwrap_or_default();
            match (field.as_str(), text) {
                ("payerBalance", "amount") => _ = chain.balances.insert(payer, terms.amount),
                ("payerBalance", "amount-1") => {
                    chain.balances.insert(payer, terms.amount - U256::from(1));
                }
                ("payerBalance", "0") => _ = chain.balances.insert(payer, U256::ZERO),
                ("paused", _) => chain.paused = value.as_bool().expect("a boolean"),
                ("blacklisted", "payer") => _ = chain.blacklisted.insert(payer),
                ("blacklisted", "payTo") => _ = chain.blacklisted.insert(terms.pay_to),
                ("nonce", "used" | "canceled") => _ = chain.used.insert((payer, terms.message.nonce)),
                ("blockTime", at) => {
                    chain.block_time = u64::try_from(number(at)).expect("a block time");
                }
                ("delegate", "rejecting") => _ = chain.code.insert(payer, Code::DelegatedRejecting),
                other => panic!("{}: no such state: {other:?}", self.id),
            }
        }
    }
}

/// Applies `{"set": pointer, "value": …}` and `{"remove": pointer}`; `{nonce}` is the authorization's.
pub fn edit(body: &mut Value, edits: &[Value]) {
    let nonce = body["paymentPayload"]["payload"]["authorization"]["nonce"].to_string();
    let edits = Value::from(edits).to_string().replace("\"{nonce}\"", &nonce);
    let edits: Vec<Value> = serde_json::from_str(&edits).expect("edits");
    for edit in &edits {
        let pointer = edit.get("set").or(edit.get("remove")).and_then(Value::as_str).expect("a pointer");
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object there");
        if edit.get("set").is_some() {
            parent.insert(field.into(), edit["value"].clone());
        } else {
            parent.remove(field).expect("something to remove");
        }
    }
}

fn payer(kind: &str, signature: Option<&Value>, chain: &mut Chain, terms: Terms) -> Terms {
    let owner = Key::named("owner");
    let contract = match kind {
        "eoa" => return terms,
        "undeployed" => {
            let factory = signature
                .and_then(|s| s.pointer("/erc6492/factory")?.as_str())
                .filter(|name| *name != "zero")
                .unwrap_or("WalletFactory");
            let wallet = Factory::named(factory).wallet_of(owner.address());
            let mut terms = terms.paid_by(wallet, owner);
            terms.signature = json!({ "erc6492": {} });
            return terms;
        }
        "delegated7702" => {
            chain.code.insert(terms.message.from, Code::Delegated);
            return terms;
        }
        "wallet1271" => Code::Wallet1271 { owner: owner.address() },
        "wallet1271-rejecting" => Code::Rejecting,
        "wallet1271-reverting" => Code::Reverting,
        "wallet1271-bad-padding" => Code::BadPadding,
        "wallet1271-short" => Code::Short,
        other => panic!("no such payer: {other}"),
    };
    chain.code.insert(address("wallet"), contract);
    terms.paid_by(address("wallet"), owner)
}

fn named_address(name: &str, payer: Address, token: Address) -> Address {
    match name {
        "zero" => Address::ZERO,
        "other" => address("other"),
        "payer" => payer,
        "token" => token,
        "permit2" => PERMIT2,
        "exact-permit2-proxy" => EXACT_PERMIT2_PROXY,
        "upto-permit2-proxy" => UPTO_PERMIT2_PROXY,
        "multicall3" => MULTICALL3,
        "facilitator-signer" => address("facilitator signer"),
        other => panic!("no such party: {other}"),
    }
}

/// `now`, `now+6`, `now-1`, `max`, or decimal.
fn number(text: &str) -> U256 {
    let now = U256::from(NOW);
    let digits = |s: &str| U256::from_str_radix(s, 10).expect("digits");
    match text.strip_prefix("now") {
        Some("") => now,
        Some(offset) if offset.starts_with('+') => now + digits(&offset[1..]),
        Some(offset) => now - digits(offset.strip_prefix('-').expect("a sign")),
        None if text == "max" => U256::MAX,
        None => digits(text),
    }
}

/// `+1`, `-1`: relative to the amount; else a number.
fn relative(text: &str, amount: U256) -> U256 {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(more), _) => amount + number(more),
        (_, Some(less)) => amount - number(less),
        _ => number(text),
    }
}

fn second(terms: &mut Terms, replay: &str) {
    let m = &mut terms.message;
    match replay {
        "same-payment" => {}
        "same-payment-parity" => terms.signature = json!("parity"),
        "same-payment-other-signature" => terms.signature = json!("300-bytes"),
        "same-payment-other-version" => {
            // The row's version is the second's; `judge` presents the first under the other one.
        }
        "same-nonce-other-value" => {
            m.value = U256::from(20_000);
            terms.amount = m.value;
        }
        "same-nonce-other-recipient" => {
            m.to = address("other");
            terms.pay_to = m.to;
        }
        "same-nonce-other-window" => m.valid_before += U256::from(60),
        "same-nonce-other-payer" => {
            terms.key = Key::named("another payer");
            m.from = terms.key.address();
        }
        "same-nonce-other-token" => terms.asset = address("another token"),
        "other-nonce" => m.nonce = B256::repeat_byte(0x22),
        other => panic!("no such replay: {other}"),
    }
}
