//! From JSON to a [`Request`], or to the [`Refusal`] that names the field (spec/x402.md §1, §7).
//!
//! Order: version, schema, kind served, envelope consistency, the scheme's own shape. Whether (network, payTo) and
//! (network, asset) fit together comes with the requirement's own shape: on a network that is not served, that is the
//! answer, whatever the addresses look like.

mod json;
mod read;
mod v1;
mod v2;

pub use json::Json;
pub(crate) use json::plain;
pub(crate) use read::Object;
pub use read::parse_address;

use crate::{
    code::Code,
    interop::{InteropAddress, InteropError},
    payment::{Payment, Requirement},
    units::Network,
};
use alloy_primitives::Address;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// An answer that says no. A value, not an error: the payment was understood and judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason on the wire.
    pub code: Code,
    /// One sentence for a person. Never holds a signature, a key or a URL.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// `x402Version: 1`.
    V1,
    /// `x402Version: 2`.
    V2,
}

/// Networks this server serves, by the name each version knows them under.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// v1 network name to chain.
    pub v1: BTreeMap<String, Network>,
    /// CAIP-2 name to chain.
    pub v2: BTreeMap<String, Network>,
}

/// A request understood, not yet believed.
///
/// `Debug` shows neither the signature nor the URL, which may carry a token of the buyer.
#[derive(Clone)]
pub struct Request {
    /// Protocol version.
    pub version: Version,
    /// What the payer signed.
    pub payment: Payment,
    /// What the seller asks for.
    pub requirement: Requirement,
    /// The URL the payment is for, as far as the request says.
    pub resource: Option<String>,
    /// `extensions["payment-identifier"].info.id`.
    pub payment_identifier: Option<String>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("version", &self.version)
            .field("payment", &self.payment)
            .field("requirement", &self.requirement)
            .finish_non_exhaustive()
    }
}

/// What an answer repeats from the request, read leniently so that even a refusal of a broken request carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// `paymentRequirements.network`, else the payload's, else `unknown:unknown`; never empty.
    pub network: String,
    /// The payer, if it can be read.
    pub payer: Option<Address>,
}

impl Default for Echo {
    fn default() -> Self {
        Self { network: "unknown:unknown".into(), payer: None }
    }
}

impl Echo {
    /// Reads what can be read.
    pub fn of(body: &Value) -> Self {
        const NETWORK_LENGTH_MAX: usize = 64;
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let network =
            ["/paymentRequirements/network", "/paymentPayload/accepted/network", "/paymentPayload/network"]
                .into_iter()
                .filter_map(text)
                .find(|s| !s.is_empty() && s.len() <= NETWORK_LENGTH_MAX)
                .unwrap_or("unknown:unknown");
        let payer = [
            "/paymentPayload/payload/authorization/from",
            "/paymentPayload/payload/permit2Authorization/from",
            "/paymentPayload/payload/delegator",
        ]
        .into_iter()
        .find_map(text)
        .and_then(parse_address);
        Self { network: network.into(), payer }
    }
}

/// Parses the body of `/verify` and `/settle`.
pub fn parse(body: &Value, served: &Served) -> Result<Request, Refusal> {
    let envelope = Object::new("the request body", Code::InvalidPayload, Some(body))?;
    let version = version(&envelope)?;
    let payload = envelope.object("paymentPayload", "paymentPayload")?;
    let requirements = Object::new(
        "paymentRequirements",
        Code::InvalidPaymentRequirements,
        envelope.get("paymentRequirements"),
    )?;
    match version {
        Version::V1 => v1::parse(payload, requirements, served),
        Version::V2 => v2::parse(payload, requirements, served),
    }
}

/// `x402Version` stands in the envelope and in the payload; both must be there and agree (spec/x402.md §1.1).
fn version(envelope: &Object<'_>) -> Result<Version, Refusal> {
    let refuse = |message: &str| Refusal::new(Code::InvalidX402Version, message);
    let outer = envelope.get("x402Version").ok_or_else(|| refuse("x402Version is missing"))?;
    let version = match outer.as_u64() {
        Some(1) => Version::V1,
        Some(2) => Version::V2,
        _ => return Err(refuse("x402Version must be 1 or 2")),
    };
    // Without a payload there is no inner version to compare; the payload's absence is the better answer.
    if let Some(Value::Object(payload)) = envelope.get("paymentPayload") {
        match payload.get("x402Version") {
            None | Some(Value::Null) => return Err(refuse("paymentPayload.x402Version is missing")),
            Some(inner) if inner != outer => {
                return Err(refuse("x402Version differs between the request and paymentPayload"));
            }
            Some(_) => {}
        }
    }
    Ok(version)
}

/// Refuses kinds that `/supported` does not list.
fn served_network(
    (scheme, network): (&str, &str),
    requirements: &Object<'_>,
    names: &BTreeMap<String, Network>,
) -> Result<Network, Refusal> {
    if scheme != "exact" {
        return Err(Refusal::new(Code::UnsupportedScheme, "only the scheme \"exact\" is served"));
    }
    names.get(network).copied().ok_or_else(|| {
        let mut message = "paymentRequirements.network is not served here; see /supported".to_owned();
        let misfit = ["payTo", "asset"].into_iter().find(|field| {
            let address = requirements.str(field).unwrap_or_default();
            InteropAddress::payee(network, address) == Err(InteropError::Address)
        });
        if let Some(field) = misfit {
            // Often the mistake behind it: the requirement of one kind of chain under the name of another.
            message += &format!("; and it does not fit together with paymentRequirements.{field}");
        }
        Refusal::new(Code::InvalidNetwork, message)
    })
}

/// The payload was made for other terms than the ones it is presented with.
fn same_kind(payload: (&str, &str), requirements: (&str, &str), payload_path: &str) -> Result<(), Refusal> {
    if payload.0 != requirements.0 {
        return Err(Refusal::new(
            Code::ExactScheme,
            format!("{payload_path}.scheme differs from paymentRequirements.scheme"),
        ));
    }
    if payload.1 != requirements.1 {
        return Err(Refusal::new(
            Code::NetworkMismatch,
            format!("{payload_path}.network differs from paymentRequirements.network"),
        ));
    }
    Ok(())
}
