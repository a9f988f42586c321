//! A payment and what it is asked for: parsed, not yet believed.

use crate::{
    code::Code,
    scheme::exact_eip3009::{declared_domain, digest},
    settlement::{Fingerprint, ReplayKey, ResourceDigest, SignatureDigest},
    signature::Signature,
    units::{AuthNonce, Network, TokenAmount},
    wire::{Object, Refusal},
};
use alloy_primitives::{Address, U256, keccak256};
use alloy_sol_types::SolValue;
use serde_json::Value;
use std::fmt;

/// EIP-3009 `TransferWithAuthorization`, as signed by the payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The payer.
    pub from: Address,
    /// The recipient.
    pub to: Address,
    /// Amount in atomic units.
    pub value: TokenAmount,
    /// Executes only after this second.
    pub valid_after: U256,
    /// Executes only before this second.
    pub valid_before: U256,
    /// Chosen by the payer; used at most once per payer and token.
    pub nonce: AuthNonce,
}

/// An authorization and the bytes that are to prove it.
///
/// `Debug` shows no signature: with it, this is a bearer capability (spec/x402.md §7, 35).
#[derive(Clone, PartialEq, Eq)]
pub struct Payment {
    /// What was signed.
    pub authorization: Authorization,
    /// By what.
    pub signature: Signature,
}

impl fmt::Debug for Payment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payment").field("from", &self.authorization.from).finish_non_exhaustive()
    }
}

impl Payment {
    /// Reads the scheme payload. Only one shape may be present: a payload that could be read as two payments is neither.
    pub(crate) fn read(payload: &Object<'_>, transfer_method: Option<&str>) -> Result<Self, Refusal> {
        let unsupported = |message: &str| Err(Refusal::new(Code::UnsupportedPayloadType, message));
        if payload.has("permit2Authorization") {
            return unsupported("Permit2 payloads are not served");
        }
        if ["delegationManager", "permissionContext", "delegator"].into_iter().any(|key| payload.has(key)) {
            return unsupported("ERC-7710 payloads are not served");
        }
        if transfer_method.is_some_and(|method| method != "eip3009") {
            return unsupported(
                "paymentRequirements.extra.assetTransferMethod names a method that is not served",
            );
        }
        let authorization = payload.object("authorization", "paymentPayload.payload.authorization")?;
        Ok(Self {
            authorization: Authorization {
                from: authorization.address("from")?,
                to: authorization.address("to")?,
                value: TokenAmount(authorization.decimal_u256("value")?),
                valid_after: authorization.decimal_u256("validAfter")?,
                valid_before: authorization.decimal_u256("validBefore")?,
                nonce: AuthNonce(authorization.b256("nonce")?),
            },
            signature: Signature::parse(payload.bytes("signature")?),
        })
    }
}

/// What the seller asks for.
///
/// `Debug` leaves `extra` out: it may hold a delegation with its signature.
#[derive(Clone, PartialEq)]
pub struct Requirement {
    /// Chain to pay on.
    pub network: Network,
    /// Token to pay in.
    pub asset: Address,
    /// Recipient.
    pub pay_to: Address,
    /// Exactly this much.
    pub amount: TokenAmount,
    /// `extra.name`: name in the token's EIP-712 domain.
    pub domain_name: Option<String>,
    /// `extra.version`: version in the token's EIP-712 domain.
    pub domain_version: Option<String>,
    /// `extra.assetTransferMethod`.
    pub transfer_method: Option<String>,
    /// `extra` as it came, for the payee check.
    pub extra: Option<Value>,
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requirement")
            .field("network", &self.network)
            .field("asset", &self.asset)
            .field("pay_to", &self.pay_to)
            .field("amount", &self.amount)
            .field("domain_name", &self.domain_name)
            .field("domain_version", &self.domain_version)
            .field("transfer_method", &self.transfer_method)
            .finish_non_exhaustive()
    }
}

impl Requirement {
    pub(crate) fn read(
        object: &Object<'_>,
        network: Network,
        amount_field: &str,
        extra: Option<Value>,
    ) -> Result<Self, Refusal> {
        let pay_to = object.address_on(network, "payTo")?;
        if pay_to.is_zero() {
            return Err(object.bad("payTo", "must not be the zero address"));
        }
        let asset = object.address_on(network, "asset")?;
        let amount = TokenAmount(object.decimal_u256(amount_field)?);
        let (domain_name, domain_version, transfer_method) = match &extra {
            None => (None, None, None),
            Some(value) => {
                let extra =
                    Object::new("paymentRequirements.extra", Code::InvalidPaymentRequirements, Some(value))?;
                if extra.has("verifyingContract") {
                    // Another contract than the token would keep the nonce (Circle Gateway); ignoring it would check the wrong signature.
                    return Err(Refusal::new(
                        Code::UnsupportedPayloadType,
                        "paymentRequirements.extra.verifyingContract is not served",
                    ));
                }
                let text = |field| Ok::<_, Refusal>(extra.optional_str(field)?.map(String::from));
                (text("name")?, text("version")?, text("assetTransferMethod")?)
            }
        };
        Ok(Self { network, asset, pay_to, amount, domain_name, domain_version, transfer_method, extra })
    }
}

/// Identity on chain: the token keeps one nonce per (authorizer, nonce).
pub fn replay_key(payment: &Payment, requirement: &Requirement) -> ReplayKey {
    ReplayKey {
        network: requirement.network,
        verifying_contract: requirement.asset,
        authorizer: payment.authorization.from,
        auth_nonce: payment.authorization.nonce,
    }
}

/// Digest of all that the payment commits to. The signature is not part of it: one authorization can have several
/// valid signatures, and is still one payment.
pub fn fingerprint(payment: &Payment, requirement: &Requirement) -> Fingerprint {
    let a = &payment.authorization;
    let terms = (
        U256::from(requirement.network.chain_id()),
        requirement.asset,
        (requirement.pay_to, requirement.amount.0),
        (a.from, a.to, a.value.0, a.valid_after, a.valid_before, a.nonce.0),
    );
    Fingerprint(keccak256(terms.abi_encode()))
}

/// Tells the signatures of one payment apart, byte by byte: two spellings of one signature are two. What is signed is part of
/// it: under another declared domain the same bytes prove nothing.
pub fn signature_digest(payment: &Payment, requirement: &Requirement) -> SignatureDigest {
    let signed = declared_domain(requirement).map(|domain| digest(&payment.authorization, &domain));
    let signature = payment.signature.bytes();
    SignatureDigest(keccak256([signed.unwrap_or_default().as_slice(), signature].concat()))
}

/// Tells apart what payments are for, character by character. No URL is empty, so that none is like their absence.
pub fn resource_digest(url: Option<&str>) -> ResourceDigest {
    ResourceDigest(keccak256(url.unwrap_or_default()))
}
