//! Describes a payment and signs it.

use alloy::{
    primitives::{Address, B256, Bytes, U256, address, keccak256, ruint::UintTryFrom},
    signers::{SignerSync as _, local::PrivateKeySigner},
    sol_types::{Eip712Domain, SolStruct},
};
use serde_json::{Map, Value, json};

use super::signed::{Authorization, SignedPayment};
use crate::{
    abi::{CancelAuthorization, TransferWithAuthorization},
    dev_accounts::dev_signer,
    edge::unix_now,
};

/// Who pays unless a test says otherwise.
const DEFAULT_PAYER: usize = 2;
/// Who is paid unless a test says otherwise: an address nobody in the tests has a key of.
const DEFAULT_PAY_TO: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");
/// Clients date authorizations back, so that a node with a slow clock takes them.
const BACKDATED_SECONDS: u64 = 600;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum X402Version {
    /// `maxAmountRequired`, legacy network names, no `accepted`.
    V1,
    /// `amount`, CAIP-2 networks, `accepted` and `resource` in the payload.
    V2,
}

impl X402Version {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// The network name version 1 uses for a chain id, as far as the kit needs one.
pub fn legacy_network(chain_id: u64) -> Option<&'static str> {
    Some(match chain_id {
        1 => "ethereum",
        137 => "polygon",
        8453 => "base",
        43113 => "avalanche-fuji",
        43114 => "avalanche",
        80002 => "polygon-amoy",
        84532 => "base-sepolia",
        11155111 => "sepolia",
        _ => return None,
    })
}

/// Describes an `exact` payment by EIP-3009. Every default is a payment a facilitator accepts if the payer has the
/// money; each method departs from it in one respect.
#[derive(Clone, Debug)]
#[must_use]
pub struct PaymentBuilder {
    version: X402Version,
    chain_id: u64,
    network: Option<String>,
    scheme: String,
    asset: Address,
    domain_name: String,
    domain_version: String,
    domain_chain_id: Option<u64>,
    domain_contract: Option<Address>,
    from: Address,
    key: PrivateKeySigner,
    pay_to: Address,
    recipient: Option<Address>,
    amount: U256,
    value: Option<U256>,
    now: Option<u64>,
    valid_after: Option<U256>,
    valid_before: Option<U256>,
    nonce: Option<B256>,
    max_timeout_seconds: u64,
    resource: String,
    extra: Map<String, Value>,
}

impl PaymentBuilder {
    /// A version 2 payment of 10000 atomic units of `asset`, from dev account 2.
    pub fn new(chain_id: u64, asset: Address) -> Self {
        let key = dev_signer(DEFAULT_PAYER);
        Self {
            version: X402Version::V2,
            chain_id,
            network: None,
            scheme: "exact".to_owned(),
            asset,
            domain_name: "USDC".to_owned(),
            domain_version: "2".to_owned(),
            domain_chain_id: None,
            domain_contract: None,
            from: key.address(),
            key,
            pay_to: DEFAULT_PAY_TO,
            recipient: None,
            amount: U256::from(10_000),
            value: None,
            now: None,
            valid_after: None,
            valid_before: None,
            nonce: None,
            max_timeout_seconds: 300,
            resource: "https://seller.example/report".to_owned(),
            extra: Map::new(),
        }
    }

    /// Version 1 instead of 2.
    pub fn v1(self) -> Self {
        self.version(X402Version::V1)
    }

    /// The protocol version.
    pub fn version(mut self, version: X402Version) -> Self {
        self.version = version;
        self
    }

    /// The network's name in the body; default the chain's CAIP-2 id, in version 1 its legacy name.
    pub fn network(mut self, name: impl Into<String>) -> Self {
        self.network = Some(name.into());
        self
    }

    /// The scheme's name in the body; default `exact`.
    pub fn scheme(mut self, name: impl Into<String>) -> Self {
        self.scheme = name.into();
        self
    }

    /// The token.
    pub fn asset(mut self, asset: Address) -> Self {
        self.asset = asset;
        self
    }

    /// The token's EIP-712 name and version, in the signature and in `extra`; default "USDC" and "2".
    pub fn domain(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.domain_name = name.into();
        self.domain_version = version.into();
        self
    }

    /// Signs for another chain than the body says.
    pub fn domain_chain_id(mut self, chain_id: u64) -> Self {
        self.domain_chain_id = Some(chain_id);
        self
    }

    /// Signs for another token than the body says.
    pub fn domain_contract(mut self, contract: Address) -> Self {
        self.domain_contract = Some(contract);
        self
    }

    /// The payer: its own key, its own address.
    pub fn payer(mut self, key: PrivateKeySigner) -> Self {
        self.from = key.address();
        self.key = key;
        self
    }

    /// A contract payer: the wallet's address, its owner's key.
    pub fn wallet(mut self, wallet: Address, owner: PrivateKeySigner) -> Self {
        self.from = wallet;
        self.key = owner;
        self
    }

    /// Who is to be paid.
    pub fn pay_to(mut self, pay_to: Address) -> Self {
        self.pay_to = pay_to;
        self
    }

    /// Signs for another recipient than is to be paid.
    pub fn recipient(mut self, to: Address) -> Self {
        self.recipient = Some(to);
        self
    }

    /// Atomic units that are asked for, and signed unless [`Self::value`] differs.
    ///
    /// # Panics
    /// If `amount` does not fit `uint256`.
    pub fn amount<T>(mut self, amount: T) -> Self
    where
        U256: UintTryFrom<T>,
    {
        self.amount = U256::from(amount);
        self
    }

    /// Signs another value than is asked for.
    ///
    /// # Panics
    /// If `value` does not fit `uint256`.
    pub fn value<T>(mut self, value: T) -> Self
    where
        U256: UintTryFrom<T>,
    {
        self.value = Some(U256::from(value));
        self
    }

    /// The time the window is laid around; default the wall clock when signing.
    pub fn now(mut self, unix_seconds: u64) -> Self {
        self.now = Some(unix_seconds);
        self
    }

    /// Start of the window; default 600 seconds ago.
    ///
    /// # Panics
    /// If `unix_seconds` does not fit `uint256`.
    pub fn valid_after<T>(mut self, unix_seconds: T) -> Self
    where
        U256: UintTryFrom<T>,
    {
        self.valid_after = Some(U256::from(unix_seconds));
        self
    }

    /// End of the window; default now plus `maxTimeoutSeconds`, as clients do.
    ///
    /// # Panics
    /// If `unix_seconds` does not fit `uint256`.
    pub fn valid_before<T>(mut self, unix_seconds: T) -> Self
    where
        U256: UintTryFrom<T>,
    {
        self.valid_before = Some(U256::from(unix_seconds));
        self
    }

    /// The authorization's nonce; default a random one for each [`Self::sign`].
    pub fn nonce(mut self, nonce: B256) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// `maxTimeoutSeconds`.
    pub fn max_timeout_seconds(mut self, seconds: u64) -> Self {
        self.max_timeout_seconds = seconds;
        self
    }

    /// What is paid for: a URL.
    pub fn resource(mut self, url: impl Into<String>) -> Self {
        self.resource = url.into();
        self
    }

    /// Adds an entry to the requirements' `extra`.
    pub fn extra(mut self, key: impl Into<String>, value: Value) -> Self {
        self.extra.insert(key.into(), value);
        self
    }

    /// Signs it.
    pub fn sign(&self) -> SignedPayment {
        let now = self.now.unwrap_or_else(unix_now);
        let authorization = Authorization {
            from: self.from,
            to: self.recipient.unwrap_or(self.pay_to),
            value: self.value.unwrap_or(self.amount),
            valid_after: self
                .valid_after
                .unwrap_or_else(|| U256::from(now.saturating_sub(BACKDATED_SECONDS))),
            valid_before: self
                .valid_before
                .unwrap_or_else(|| U256::from(now.saturating_add(self.max_timeout_seconds))),
            nonce: self.nonce.unwrap_or_else(random_nonce),
        };
        let domain = Eip712Domain::new(
            Some(self.domain_name.clone().into()),
            Some(self.domain_version.clone().into()),
            Some(U256::from(self.domain_chain_id.unwrap_or(self.chain_id))),
            Some(self.domain_contract.unwrap_or(self.asset)),
            None,
        );
        let transfer = TransferWithAuthorization {
            from: authorization.from,
            to: authorization.to,
            value: authorization.value,
            validAfter: authorization.valid_after,
            validBefore: authorization.valid_before,
            nonce: authorization.nonce,
        };
        let cancel = CancelAuthorization { authorizer: authorization.from, nonce: authorization.nonce };
        let digest = transfer.eip712_signing_hash(&domain);
        let signature = self.sign_digest(digest);
        SignedPayment {
            body: self.body(&authorization, &signature),
            version: self.version,
            asset: self.asset,
            digest,
            domain_separator: domain.separator(),
            cancel_signature: self.sign_digest(cancel.eip712_signing_hash(&domain)),
            authorization,
            signature,
        }
    }

    fn sign_digest(&self, digest: B256) -> Bytes {
        let signature = self.key.sign_hash_sync(&digest).expect("a key in memory signs any digest");
        Bytes::copy_from_slice(&signature.as_bytes())
    }

    fn network_name(&self) -> String {
        match (&self.network, self.version) {
            (Some(name), _) => name.clone(),
            (None, X402Version::V1) => legacy_network(self.chain_id)
                .map_or_else(|| format!("eip155:{}", self.chain_id), str::to_owned),
            (None, X402Version::V2) => format!("eip155:{}", self.chain_id),
        }
    }

    fn body(&self, authorization: &Authorization, signature: &Bytes) -> Value {
        let number = self.version.number();
        let network = self.network_name();
        let requirements = self.requirements(&network);
        let payload = json!({"signature": signature, "authorization": authorization.json()});
        let payment_payload = match self.version {
            X402Version::V1 => {
                json!({"x402Version": number, "scheme": self.scheme, "network": network, "payload": payload})
            }
            X402Version::V2 => json!({
                "x402Version": number,
                "resource": {"url": self.resource, "description": "A report", "mimeType": "application/json"},
                "accepted": requirements,
                "payload": payload,
            }),
        };
        json!({"x402Version": number, "paymentPayload": payment_payload, "paymentRequirements": requirements})
    }

    fn requirements(&self, network: &str) -> Value {
        let mut extra = Map::new();
        extra.insert("name".to_owned(), json!(self.domain_name));
        extra.insert("version".to_owned(), json!(self.domain_version));
        extra.extend(self.extra.clone());
        let mut requirements = json!({
            "scheme": self.scheme,
            "network": network,
            "asset": self.asset.to_string(),
            "payTo": self.pay_to.to_string(),
            "maxTimeoutSeconds": self.max_timeout_seconds,
            "extra": extra,
        });
        match self.version {
            X402Version::V1 => {
                requirements["maxAmountRequired"] = json!(self.amount.to_string());
                requirements["resource"] = json!(self.resource);
                requirements["description"] = json!("A report");
                requirements["mimeType"] = json!("application/json");
            }
            X402Version::V2 => requirements["amount"] = json!(self.amount.to_string()),
        }
        requirements
    }
}

/// Unpredictable, because made of a key that is thrown away.
fn random_nonce() -> B256 {
    keccak256(PrivateKeySigner::random().to_bytes())
}
