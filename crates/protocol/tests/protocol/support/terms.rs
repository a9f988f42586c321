//! A payment described, signed and written down as the body of a request.

use super::{
    CHAIN_ID, NOW, V1_NETWORK, V2_NETWORK, address,
    chain::Factory,
    eip712::{Domain, Message, digest},
    keys::Key,
    sig,
};
use alloy_primitives::{Address, B256, U256, hex};
use quittance_protocol::wire::Version;
use serde_json::{Map, Value, json};

/// What a payer agrees to, and how it is proven.
#[derive(Clone, Debug)]
pub struct Terms {
    pub version: Version,
    pub asset: Address,
    pub pay_to: Address,
    pub amount: U256,
    /// `extra.name` and `extra.version`, as declared.
    pub name: Option<String>,
    pub domain_version: Option<String>,
    pub extra: Map<String, Value>,
    pub message: Message,
    pub key: Key,
    /// What is signed where it differs from what is declared and shown.
    pub signed_domain: Option<Domain>,
    pub signed_message: Option<Message>,
    /// See `signature_bytes`.
    pub signature: Value,
}

impl Terms {
    /// A payment of 10000 by the account of a key, which every rule accepts.
    pub fn new(version: Version) -> Self {
        let key = Key::named("payer");
        Self {
            version,
            asset: address("token"),
            pay_to: address("seller"),
            amount: U256::from(10_000),
            name: Some("USDC".into()),
            domain_version: Some("2".into()),
            extra: Map::new(),
            message: Message {
                from: key.address(),
                to: address("seller"),
                value: U256::from(10_000),
                valid_after: U256::from(NOW - 600),
                valid_before: U256::from(NOW + 300),
                nonce: B256::repeat_byte(0x11),
            },
            key,
            signed_domain: None,
            signed_message: None,
            signature: json!("low-s"),
        }
    }

    /// Somebody with code pays; `key` signs for it.
    pub fn paid_by(mut self, payer: Address, key: Key) -> Self {
        self.message.from = payer;
        self.key = key;
        self
    }

    /// The domain as declared; missing parts are empty.
    pub fn declared(&self) -> Domain {
        Domain {
            name: self.name.clone().unwrap_or_default(),
            version: self.domain_version.clone().unwrap_or_default(),
            chain_id: CHAIN_ID,
            verifying_contract: self.asset,
        }
    }

    /// The digest the key signs.
    pub fn digest(&self) -> B256 {
        let domain = self.signed_domain.clone().unwrap_or_else(|| self.declared());
        digest(&self.signed_message.unwrap_or(self.message), domain.separator())
    }

    /// The signature as presented.
    pub fn signature_bytes(&self) -> Vec<u8> {
        signature_bytes(&self.signature, &self.key, self.digest())
    }

    /// The body of `/verify` and `/settle`.
    pub fn body(&self) -> Value {
        let m = &self.message;
        let payload = json!({
            "signature": hex::encode_prefixed(self.signature_bytes()),
            "authorization": {
                "from": m.from.to_string(),
                "to": m.to.to_string(),
                "value": m.value.to_string(),
                "validAfter": m.valid_after.to_string(),
                "validBefore": m.valid_before.to_string(),
                "nonce": m.nonce.to_string(),
            },
        });
        let mut extra = self.extra.clone();
        for (field, value) in [("name", &self.name), ("version", &self.domain_version)] {
            if let Some(value) = value {
                extra.insert(field.into(), json!(value));
            }
        }
        let requirements = |network: &str, amount: &str| {
            json!({
                "scheme": "exact",
                "network": network,
                amount: self.amount.to_string(),
                "asset": self.asset.to_string(),
                "payTo": self.pay_to.to_string(),
                "maxTimeoutSeconds": 300,
                "extra": extra,
            })
        };
        match self.version {
            Version::V1 => {
                let mut requirements = requirements(V1_NETWORK, "maxAmountRequired");
                requirements["resource"] = json!("https://seller.example/report");
                requirements["description"] = json!("a report");
                requirements["mimeType"] = json!("application/json");
                json!({
                    "x402Version": 1,
                    "paymentPayload": {
                        "x402Version": 1, "scheme": "exact", "network": V1_NETWORK, "payload": payload,
                    },
                    "paymentRequirements": requirements,
                })
            }
            Version::V2 => {
                let requirements = requirements(V2_NETWORK, "amount");
                json!({
                    "x402Version": 2,
                    "paymentPayload": {
                        "x402Version": 2,
                        "resource": { "url": "https://seller.example/report" },
                        "accepted": requirements,
                        "payload": payload,
                    },
                    "paymentRequirements": requirements,
                })
            }
        }
    }
}

/// Bytes from a description: the vocabulary of `mutations.signature` in testdata/rules/README.md.
pub fn signature_bytes(spec: &Value, key: &Key, digest: B256) -> Vec<u8> {
    let plain = key.sign(digest);
    let with = |range: std::ops::Range<usize>, bytes: &[u8]| {
        let mut out = plain.to_vec();
        out[range].copy_from_slice(bytes);
        out
    };
    let Some(word) = spec.as_str() else { return wrapped(spec, key, digest) };
    if let Some(v) = word.strip_prefix("v=") {
        return with(64..65, &[v.parse().expect("a byte")]);
    }
    match word {
        "low-s" => plain.to_vec(),
        "high-s" => sig::high_s_twin(&plain).to_vec(),
        "high-s-parity" => {
            let mut out = sig::high_s_twin(&plain);
            out[64] -= 27;
            out.to_vec()
        }
        "parity" => with(64..65, &[plain[64] - 27]),
        "other-parity" => with(64..65, &[if plain[64] == 27 { 28 } else { 27 }]),
        "r=0" => with(0..32, &[0; 32]),
        "r=n" => with(0..32, &sig::ORDER.to_be_bytes::<32>()),
        "r=max" => with(0..32, &[0xff; 32]),
        "s=0" => with(32..64, &[0; 32]),
        "s=n" => with(32..64, &sig::ORDER.to_be_bytes::<32>()),
        "s=max" => with(32..64, &[0xff; 32]),
        "zeros" => vec![0; 65],
        "other-key" => Key::named("somebody else").sign(digest).to_vec(),
        "empty" => Vec::new(),
        "64-bytes" => plain[..64].to_vec(),
        "66-bytes" => [plain.as_slice(), &[0]].concat(),
        "300-bytes" => [plain.as_slice(), &[0; 235]].concat(),
        "65-bytes-ending-in-suffix" => with(33..65, &sig::SUFFIX),
        other => panic!("no such signature: {other}"),
    }
}

fn wrapped(spec: &Value, key: &Key, digest: B256) -> Vec<u8> {
    let spec = spec.get("erc6492").expect("a word or an erc6492 object");
    let text = |field: &str, default: &'static str| {
        spec.get(field).map_or(default, |v| v.as_str().expect("a word")).to_owned()
    };
    let factory = match text("factory", "WalletFactory").as_str() {
        "zero" => Address::ZERO,
        name => Factory::named(name).address(),
    };
    let calldata = match text("calldata", "deploy").as_str() {
        "deploy" => Factory::create_wallet(key.address()),
        "empty" => Vec::new(),
        "one-byte" => vec![0],
        other => panic!("no such calldata: {other}"),
    };
    let inner = signature_bytes(spec.get("inner").unwrap_or(&json!("low-s")), key, digest);
    sig::miswritten(&text("encoding", "canonical"), factory, &calldata, &inner)
}
