//! A signed payment and the variations of it that a facilitator must tell apart.

use alloy::{
    primitives::{Address, B256, Bytes, U256},
    sol_types::SolCall as _,
};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{X402Version, signature};
use crate::abi::{IBytesAuthorization, IVrsAuthorization};

/// What the payer signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authorization {
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) value: U256,
    pub(super) valid_after: U256,
    pub(super) valid_before: U256,
    pub(super) nonce: B256,
}

impl Authorization {
    pub(super) fn json(&self) -> Value {
        json!({
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "value": self.value.to_string(),
            "validAfter": self.valid_after.to_string(),
            "validBefore": self.valid_before.to_string(),
            "nonce": self.nonce,
        })
    }
}

/// A request body with its signature, and what went into it. Variations are new values; the original stays.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct SignedPayment {
    pub(super) body: Value,
    pub(super) version: X402Version,
    pub(super) asset: Address,
    pub(super) authorization: Authorization,
    pub(super) digest: B256,
    pub(super) domain_separator: B256,
    pub(super) signature: Bytes,
    pub(super) cancel_signature: Bytes,
}

impl SignedPayment {
    /// What `/verify` and `/settle` take: `{x402Version, paymentPayload, paymentRequirements}`.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// The `paymentPayload` alone.
    pub fn payload(&self) -> &Value {
        &self.body["paymentPayload"]
    }

    /// The `paymentRequirements` alone.
    pub fn requirements(&self) -> &Value {
        &self.body["paymentRequirements"]
    }

    /// The authorization's payer.
    pub fn payer(&self) -> Address {
        self.authorization.from
    }

    /// The recipient that is signed.
    pub fn recipient(&self) -> Address {
        self.authorization.to
    }

    /// The value that is signed.
    pub fn value(&self) -> U256 {
        self.authorization.value
    }

    /// The authorization's nonce.
    pub fn nonce(&self) -> B256 {
        self.authorization.nonce
    }

    /// Start of the window that is signed.
    pub fn valid_after(&self) -> U256 {
        self.authorization.valid_after
    }

    /// End of the window that is signed.
    pub fn valid_before(&self) -> U256 {
        self.authorization.valid_before
    }

    /// The token.
    pub fn asset(&self) -> Address {
        self.asset
    }

    /// The protocol version.
    pub fn version(&self) -> X402Version {
        self.version
    }

    /// The digest that was signed.
    pub fn digest(&self) -> B256 {
        self.digest
    }

    /// The EIP-712 domain separator.
    pub fn domain_separator(&self) -> B256 {
        self.domain_separator
    }

    /// The signature in the body, with whatever wrapper it has.
    pub fn signature(&self) -> &Bytes {
        &self.signature
    }

    /// The network's name in the requirements.
    pub fn network(&self) -> &str {
        self.body["paymentRequirements"]["network"].as_str().unwrap_or_default()
    }

    /// The same with the body changed in any way. The signature stays as it is.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.body);
        self
    }

    /// The same with one value of the body replaced, or added to an object that is there. `pointer` is a JSON pointer.
    ///
    /// # Panics
    /// If nothing in the body could hold it: a test that changes nothing proves nothing.
    pub fn with_value(self, pointer: &str, value: Value) -> Self {
        self.with(|body| *slot(body, pointer) = value)
    }

    /// The same with one value of the body taken out.
    ///
    /// # Panics
    /// If it is not there.
    pub fn without(self, pointer: &str) -> Self {
        self.with(|body| {
            let (parent, key) = split(pointer);
            let removed =
                body.pointer_mut(parent).and_then(Value::as_object_mut).and_then(|map| map.remove(key));
            assert!(removed.is_some(), "nothing at {pointer}");
        })
    }

    /// The same with other signature bytes.
    pub fn with_signature(mut self, signature: impl Into<Bytes>) -> Self {
        self.signature = signature.into();
        self.body["paymentPayload"]["payload"]["signature"] = json!(self.signature);
        self
    }

    /// The same with the other ECDSA signature of the same digest. Needs a bare 65-byte signature.
    pub fn high_s_twin(self) -> Result<Self> {
        let twin = signature::high_s_twin(&self.signature)?;
        Ok(self.with_signature(twin))
    }

    /// The same with another `v`. Needs a bare 65-byte signature.
    pub fn with_v(self, v: u8) -> Result<Self> {
        let changed = signature::with_v(&self.signature, v)?;
        Ok(self.with_signature(changed))
    }

    /// The same with its signature wrapped as ERC-6492 says.
    pub fn erc6492(self, factory: Address, calldata: &Bytes) -> Self {
        let wrapper = signature::erc6492(factory, calldata, &self.signature);
        self.with_signature(wrapper)
    }

    /// The call that moves the money, with the signature as it is: anyone may send it.
    pub fn transfer_call(&self) -> Bytes {
        let a = &self.authorization;
        let call = IBytesAuthorization::transferWithAuthorizationCall {
            from: a.from,
            to: a.to,
            value: a.value,
            validAfter: a.valid_after,
            validBefore: a.valid_before,
            nonce: a.nonce,
            signature: self.signature.clone(),
        };
        call.abi_encode().into()
    }

    /// The same call for tokens that take `v`, `r`, `s`. Needs a bare 65-byte signature.
    pub fn transfer_call_vrs(&self) -> Result<Bytes> {
        ensure!(self.signature.len() == 65, "v, r and s need 65 bytes, not {}", self.signature.len());
        let a = &self.authorization;
        let call = IVrsAuthorization::transferWithAuthorizationCall {
            from: a.from,
            to: a.to,
            value: a.value,
            validAfter: a.valid_after,
            validBefore: a.valid_before,
            nonce: a.nonce,
            v: self.signature[64],
            r: B256::from_slice(&self.signature[..32]),
            s: B256::from_slice(&self.signature[32..64]),
        };
        Ok(call.abi_encode().into())
    }

    /// The call that takes the authorization back, signed by the payer.
    pub fn cancel_call(&self) -> Bytes {
        let call = IBytesAuthorization::cancelAuthorizationCall {
            authorizer: self.authorization.from,
            nonce: self.authorization.nonce,
            signature: self.cancel_signature.clone(),
        };
        call.abi_encode().into()
    }
}

fn split(pointer: &str) -> (&str, &str) {
    pointer.rsplit_once('/').unwrap_or(("", pointer))
}

fn slot<'a>(body: &'a mut Value, pointer: &str) -> &'a mut Value {
    let (parent, key) = split(pointer);
    match body.pointer_mut(parent) {
        Some(Value::Object(map)) => map.entry(key).or_insert(Value::Null),
        Some(Value::Array(list)) => {
            key.parse().ok().and_then(|i: usize| list.get_mut(i)).expect("an index of the list")
        }
        _ => panic!("nothing at {parent} could hold {key}"),
    }
}
