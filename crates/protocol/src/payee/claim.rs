//! What a payment requirement claims: pay this much of this, there, to this address, for that agent.
//!
//! The requirement is kept as its strings. ERC-8478 compares what was written, payees are not always EVM addresses, and
//! a pair that makes no sense is for the outcome to judge, not for the parser.

use super::{
    Carried, Identity, Named, Origin, Source, Subject, delegation::same_account, identity::evm_chain_id,
    json::uint,
};
use crate::{
    code::Code,
    wire::{Json, Object, Refusal},
};
use alloy_primitives::U256;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// What is known beside the payment requirement.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// `paymentPayload`, when the payer has signed already; else the 402 answer, if that is at hand. Version 2 names the
    /// resource in both and not in the requirement.
    pub payload: Option<&'a Value>,
    /// The URL the payer asked for.
    pub requested_url: Option<&'a str>,
    /// The identity the payer knows; it wins over the one in the requirement.
    pub known: Named,
    /// x402 v1 network names and their CAIP-2 networks. Delegations name networks as CAIP-2 only.
    pub v1_networks: &'a BTreeMap<String, String>,
}

/// One payment requirement, to be checked against one identity.
#[derive(Clone, Debug)]
pub struct Claim {
    /// CAIP-2 network to pay on.
    pub network: String,
    /// Asset to pay in, as written.
    pub asset: String,
    /// Whom to pay, as written.
    pub pay_to: String,
    /// How much at most, in atomic units.
    pub amount: U256,
    /// Where the resource is; `None` when nobody says, or no two readers would agree.
    pub origin: Option<Origin>,
    /// The requirement's resource is on another origin than the URL the payer asked for.
    pub resource_differs: bool,
    /// The identity the requirement names.
    pub named: Named,
    /// The identity the payer knows.
    pub known: Named,
    /// The delegation in the requirement.
    pub delegation: Carried,
    /// The payment, when the payer has signed already.
    pub payment: Option<SignedPayment>,
}

/// Whom and how much a signed payment pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPayment {
    /// EIP-3009's `to`, or the `witness.to` of a Permit2 transfer.
    pub to: String,
    /// EIP-3009's `value`, or what Permit2 permits; `None` when it is no number, which no amount covers.
    pub value: Option<U256>,
}

impl SignedPayment {
    /// From `paymentPayload`, for the schemes whose payload shows the recipient.
    pub fn read(payload: &Value) -> Option<Self> {
        let scheme = payload.get("payload")?;
        let (to, value) = if let Some(authorization) = scheme.get("authorization") {
            (authorization.get("to"), authorization.get("value"))
        } else {
            let permit = scheme.get("permit2Authorization")?;
            (permit.pointer("/witness/to"), permit.pointer("/permitted/amount"))
        };
        Some(Self { to: to.and_then(Value::as_str).unwrap_or_default().into(), value: value.and_then(uint) })
    }
}

impl Claim {
    const ACCOUNT_BYTES_MAX: usize = 256;

    /// Reads `paymentRequirements`, of either version.
    pub fn read(requirements: &Value, context: &Context<'_>) -> Result<Self, Refusal> {
        let code = Code::InvalidPaymentRequirements;
        let object = Object::new("paymentRequirements", code, Some(requirements))?;
        // With neither of them, what is missing goes by version 2's name.
        let is_v1 = object.has("maxAmountRequired") && !object.has("amount");
        let amount = if is_v1 { "maxAmountRequired" } else { "amount" };
        let extra = extra(&object)?;
        let erc8004 = extra.as_ref().and_then(|extra| extra.get("erc8004"));
        let own = object.get("resource").map(resource_url);
        let requested = context.requested_url;
        let of_payload = || context.payload?.pointer("/resource/url").map(resource_url);
        let origin = own.or(requested).or_else(of_payload).and_then(Origin::of_url);
        Ok(Self {
            network: network(object.non_empty_str("network")?, context.v1_networks)?,
            asset: account(&object, "asset")?,
            pay_to: account(&object, "payTo")?,
            amount: object.decimal_u256(amount)?,
            resource_differs: requested.is_some_and(|url| Origin::of_url(url) != origin),
            origin,
            named: Named::in_extra(erc8004),
            known: context.known,
            delegation: Carried::read(erc8004.and_then(|erc8004| erc8004.get("delegation"))),
            payment: context.payload.and_then(SignedPayment::read),
        })
    }

    /// The identity to check and who named it; what the payer says wins, even if it is unusable.
    pub fn identity(&self) -> (Named, Source) {
        match self.known {
            Named::Nothing => (self.named, Source::Requirement),
            known => (known, Source::Payer),
        }
    }

    /// What the requirement's delegation is held against.
    pub fn subject<'a>(&'a self, identity: &'a Identity) -> Subject<'a> {
        Subject {
            identity,
            network: &self.network,
            pay_to: &self.pay_to,
            asset: &self.asset,
            origin: self.origin.as_ref(),
        }
    }

    /// The chain to pay on, when it is an EVM chain.
    pub(super) fn evm_chain_id(&self) -> Option<U256> {
        evm_chain_id(&self.network)
    }

    /// The signed payment goes elsewhere or pays more than was asked. Paying less is the scheme's business.
    pub(super) fn payment_differs(&self) -> bool {
        self.payment.as_ref().is_some_and(|payment| {
            !same_account(&payment.to, &self.pay_to) || payment.value.is_none_or(|value| value > self.amount)
        })
    }

    /// The payer knows an identity and the requirement names something else.
    pub(super) fn identity_differs(&self) -> bool {
        self.known != Named::Nothing && self.named != Named::Nothing && self.known != self.named
    }
}

/// An object, or for version 1 an object encoded as a JSON string (spec/x402.md §1.3).
fn extra<'a>(requirements: &Object<'a>) -> Result<Option<Cow<'a, Value>>, Refusal> {
    match requirements.get("extra") {
        None => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(Cow::Borrowed(object))),
        Some(Value::String(text)) => match Json::read(text.as_bytes()).as_ref().map(Json::whole) {
            Some(Ok(Value::Null)) => Ok(None),
            Some(Ok(object @ Value::Object(_))) => Ok(Some(Cow::Owned(object.clone()))),
            _ => Err(requirements.bad("extra", "must be an object, or one as a JSON string")),
        },
        Some(_) => Err(requirements.bad("extra", "must be an object, or one as a JSON string")),
    }
}

/// A URL, or version 2's resource object with one. What is there but is neither has no origin.
fn resource_url(resource: &Value) -> &str {
    resource.as_str().or_else(|| resource.get("url")?.as_str()).unwrap_or_default()
}

fn network(network: &str, v1_networks: &BTreeMap<String, String>) -> Result<String, Refusal> {
    let network = v1_networks.get(network).map_or(network, String::as_str);
    if is_caip2(network) {
        return Ok(network.into());
    }
    Err(Refusal::new(
        Code::InvalidNetwork,
        "paymentRequirements.network is neither a CAIP-2 network nor a version 1 name known here",
    ))
}

/// For EVM chains canonical as well: a second spelling of a chain would be a second payee.
fn is_caip2(network: &str) -> bool {
    let Some((namespace, reference)) = network.split_once(':') else { return false };
    let word = |text: &str, lengths: std::ops::RangeInclusive<usize>, extra: &[u8]| {
        lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
    };
    word(namespace, 3..=8, b"-")
        && !namespace.bytes().any(|b| b.is_ascii_uppercase())
        && word(reference, 1..=32, b"-_")
        && (namespace != "eip155" || evm_chain_id(network).is_some())
}

/// An account in whatever form its network has; all of them are short and printable.
fn account(requirements: &Object<'_>, field: &str) -> Result<String, Refusal> {
    let text = requirements.non_empty_str(field)?;
    if text.len() <= Claim::ACCOUNT_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.into());
    }
    Err(requirements.bad(field, "must be at most 256 printable ASCII characters without spaces"))
}
