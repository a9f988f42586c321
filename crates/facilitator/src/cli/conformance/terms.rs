//! A payment: what its payer agrees to, and the body of the request that presents it.

use super::{
    case::Edit,
    signature::{Signing, Wrapper},
    word::SignatureSpec,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{Eip712Domain, SolStruct as _};
use anyhow::{Context as _, bail};
use quittance_testkit::{
    X402Version,
    abi::{CancelAuthorization, TransferWithAuthorization},
};
use serde_json::{Map, Value, json};

/// What the network is called.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) chain_id: u64,
    /// None: not served under that version.
    pub(super) v1: Option<String>,
    pub(super) v2: Option<String>,
}

impl Names {
    pub(super) fn of(&self, version: X402Version) -> Option<&str> {
        match version {
            X402Version::V1 => self.v1.as_deref(),
            X402Version::V2 => self.v2.as_deref(),
        }
    }
}

/// The domain of a signature.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) chain_id: u64,
    pub(super) contract: Address,
}

impl Domain {
    fn eip712(&self) -> Eip712Domain {
        Eip712Domain::new(
            Some(self.name.clone().into()),
            Some(self.version.clone().into()),
            Some(U256::from(self.chain_id)),
            Some(self.contract),
            None,
        )
    }
}

/// One payment.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) version: X402Version,
    pub(super) chain_id: u64,
    pub(super) asset: Address,
    pub(super) pay_to: Address,
    pub(super) amount: U256,
    /// `extra.name` and `extra.version`; None leaves them out.
    pub(super) name: Option<String>,
    pub(super) domain_version: Option<String>,
    pub(super) shown: TransferWithAuthorization,
    /// What is signed where it differs from what is shown and declared.
    pub(super) signed: Option<(TransferWithAuthorization, Domain)>,
    pub(super) signature: SignatureSpec,
    pub(super) signing: Signing,
}

impl Terms {
    /// The domain as declared; missing parts are empty.
    pub(super) fn declared(&self) -> Domain {
        Domain {
            name: self.name.clone().unwrap_or_default(),
            version: self.domain_version.clone().unwrap_or_default(),
            chain_id: self.chain_id,
            contract: self.asset,
        }
    }

    fn digest(&self) -> B256 {
        match &self.signed {
            Some((message, domain)) => message.eip712_signing_hash(&domain.eip712()),
            None => self.shown.eip712_signing_hash(&self.declared().eip712()),
        }
    }

    /// The signature as presented.
    pub(super) fn signature_bytes(&self) -> anyhow::Result<Vec<u8>> {
        self.signing.bytes(&self.signature, self.digest())
    }

    /// What is in the wrapper, if the signature is one.
    pub(super) fn wrapper(&self) -> anyhow::Result<Option<Wrapper>> {
        match &self.signature {
            SignatureSpec::Wrapped(spec) => self.signing.wrapper(spec, self.digest()).map(Some),
            _ => Ok(None),
        }
    }

    /// The payer's signature that takes the authorization back.
    pub(super) fn cancel_signature(&self) -> anyhow::Result<Bytes> {
        let cancel = CancelAuthorization { authorizer: self.shown.from, nonce: self.shown.nonce };
        let digest = cancel.eip712_signing_hash(&self.declared().eip712());
        Ok(Bytes::copy_from_slice(&self.signing.key.sign(digest)?))
    }

    /// The body of `/verify` and `/settle`.
    pub(super) fn body(&self, network: &str, edits: &[Edit]) -> anyhow::Result<Value> {
        let m = &self.shown;
        let payload = json!({
            "signature": Bytes::from(self.signature_bytes()?),
            "authorization": {
                "from": m.from.to_string(),
                "to": m.to.to_string(),
                "value": m.value.to_string(),
                "validAfter": m.validAfter.to_string(),
                "validBefore": m.validBefore.to_string(),
                "nonce": m.nonce,
            },
        });
        let requirements = self.requirements(network);
        let number = self.version.number();
        let payment_payload = match self.version {
            X402Version::V1 => {
                json!({"x402Version": number, "scheme": "exact", "network": network, "payload": payload})
            }
            X402Version::V2 => json!({
                "x402Version": number,
                "resource": {"url": RESOURCE},
                "accepted": requirements,
                "payload": payload,
            }),
        };
        let mut body = json!({
            "x402Version": number, "paymentPayload": payment_payload, "paymentRequirements": requirements,
        });
        edits.iter().try_for_each(|edit| apply(&mut body, edit, m.nonce))?;
        Ok(body)
    }

    fn requirements(&self, network: &str) -> Value {
        let mut extra = Map::new();
        for (field, value) in [("name", &self.name), ("version", &self.domain_version)] {
            if let Some(value) = value {
                extra.insert(field.to_owned(), json!(value));
            }
        }
        let mut requirements = json!({
            "scheme": "exact",
            "network": network,
            "asset": self.asset.to_string(),
            "payTo": self.pay_to.to_string(),
            "maxTimeoutSeconds": 300,
            "extra": extra,
        });
        match self.version {
            X402Version::V1 => {
                requirements["maxAmountRequired"] = json!(self.amount.to_string());
                requirements["resource"] = json!(RESOURCE);
                requirements["description"] = json!("A report");
                requirements["mimeType"] = json!("application/json");
            }
            X402Version::V2 => requirements["amount"] = json!(self.amount.to_string()),
        }
        requirements
    }
}

const RESOURCE: &str = "https://seller.example/report";

/// A string `{nonce}` in what is set is the authorization's, so that it is another one in every run.
fn apply(body: &mut Value, edit: &Edit, nonce: B256) -> anyhow::Result<()> {
    let (Edit::Set(pointer, _) | Edit::Remove(pointer)) = edit;
    let (parent, field) = pointer.rsplit_once('/').with_context(|| format!("no pointer: {pointer}"))?;
    let parent = body.pointer_mut(parent).and_then(Value::as_object_mut);
    let parent = parent.with_context(|| format!("nothing holds {pointer}"))?;
    match edit {
        Edit::Set(_, value) => {
            let text = value.to_string().replace("\"{nonce}\"", &json!(nonce).to_string());
            parent.insert(field.to_owned(), serde_json::from_str(&text)?);
        }
        Edit::Remove(_) => {
            if parent.remove(field).is_none() {
                bail!("nothing at {pointer}");
            }
        }
    }
    Ok(())
}
