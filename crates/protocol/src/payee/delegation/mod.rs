//! Payee delegations: the agent wallet's EIP-712 signature that lets another address be paid (ERC-8478 §3).

mod message;

use super::{Fact, FailedRead, Identity, Origin, UnreadReason, WalletCode, signer::recover};
use crate::{facts::Erc1271Answer, units::UnixSeconds};
use alloy_primitives::{Address, B256, Bytes};
use message::hex_bytes;
use serde_json::{Value, json};
use std::fmt;

pub use message::{Message, type_hash};

/// Longest time between `validAfter` and `validUntil`: 365 days.
pub const VALIDITY_SECONDS_MAX: u64 = 31_536_000;

/// Longer signatures are no more believed than shorter ones, but cost more to ask about.
const SIGNATURE_BYTES_MAX: usize = 16_384;

/// Any asset on the network, or any endpoint of the registration file. Nothing else has a wildcard.
const ANY: &str = "*";

words! {
    /// The rule a delegation fails, in the order of the text. The first failure is the one to report.
    Rule {
        /// It is not `{message, signature}` with every field of its type.
        Malformed = "malformed",
        /// `chainId` is not the registry's.
        ChainId = "chain-id",
        /// `registry` is another one.
        Registry = "registry",
        /// `agentId` is another one.
        AgentId = "agent-id",
        /// `agentWallet` is not the agent wallet, or no longer.
        AgentWallet = "agent-wallet",
        /// `validUntil` is not behind `validAfter`.
        ValidityOrder = "validity-order",
        /// `validAfter` is still to come.
        NotYetValid = "not-yet-valid",
        /// `validUntil` has come.
        Expired = "expired",
        /// Over [`VALIDITY_SECONDS_MAX`].
        ValidityTooLong = "validity-too-long",
        /// `network` is another one.
        Network = "network",
        /// `payTo` is another one.
        PayTo = "pay-to",
        /// `asset` is another one.
        Asset = "asset",
        /// `origin` is not the resource's.
        Origin = "origin",
        /// The signature is not the agent wallet's.
        Signature = "signature",
    }
}

/// A message and what is to prove it. `Debug` leaves the signature out.
#[derive(Clone, PartialEq, Eq)]
pub struct Delegation {
    /// What was signed.
    pub message: Message,
    /// By what.
    pub signature: Bytes,
}

impl fmt::Debug for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegation").field("message", &self.message).finish_non_exhaustive()
    }
}

/// What stands under `delegation`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Nothing.
    Nothing,
    /// Something that is no delegation.
    Malformed,
    /// A delegation.
    Delegation(Box<Delegation>),
}

impl Carried {
    /// Reads the member; unknown members are ignored, they are not signed.
    pub fn read(delegation: Option<&Value>) -> Self {
        match delegation {
            None | Some(Value::Null) => Self::Nothing,
            Some(value) => Delegation::read(value)
                .map_or(Self::Malformed, |delegation| Self::Delegation(Box::new(delegation))),
        }
    }
}

/// What a delegation is held against.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The identity that is checked.
    pub identity: &'a Identity,
    /// `network` of the requirement, as CAIP-2.
    pub network: &'a str,
    /// `payTo` of the requirement.
    pub pay_to: &'a str,
    /// `asset` of the requirement.
    pub asset: &'a str,
    /// The resource's origin.
    pub origin: Option<&'a Origin>,
}

/// Whether a delegation is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Valid,
    /// It is not, and this is the first rule it fails.
    Invalid(Rule),
    /// It depends on what could not be read.
    Unread(FailedRead, UnreadReason),
}

impl Delegation {
    fn read(value: &Value) -> Option<Self> {
        let signature = hex_bytes(value.get("signature")?.as_str()?)?;
        if signature.len() > SIGNATURE_BYTES_MAX {
            return None;
        }
        Some(Self {
            message: Message::read(value.get("message")?.as_object()?)?,
            signature: signature.into(),
        })
    }

    /// As `extra.erc8004.delegation`.
    pub fn to_json(&self) -> Value {
        json!({ "message": self.message.to_json(), "signature": self.signature.to_string() })
    }

    /// Every rule, in the order of the text. `wallet` is what the registry says.
    pub fn check(
        &self,
        subject: &Subject<'_>,
        wallet: Address,
        code: &Fact<WalletCode>,
        erc1271: &Fact<Erc1271Answer>,
        now: UnixSeconds,
    ) -> Verdict {
        let first_failure = self.rules(subject, wallet, now).into_iter().find(|(_, holds)| !holds);
        match first_failure {
            Some((rule, _)) => Verdict::Invalid(rule),
            None => self.signed(subject, wallet, code, erc1271),
        }
    }

    /// The digest to ask the message's wallet about, when only its contract can still vouch for the delegation: no other
    /// rule is broken for good, and the signature is no key's. Time is left out, as it passes while the wallet is asked.
    pub(super) fn contract_question(&self, subject: &Subject<'_>) -> Option<B256> {
        let wallet = self.message.agent_wallet;
        let now = UnixSeconds(self.message.valid_after);
        let hopeless = self.rules(subject, wallet, now).into_iter().any(|(_, holds)| !holds);
        let digest = self.message.digest(subject.identity);
        (!hopeless && recover(&self.signature, digest) != Some(wallet)).then_some(digest)
    }

    /// Everything but the signature.
    fn rules(&self, subject: &Subject<'_>, wallet: Address, now: UnixSeconds) -> [(Rule, bool); 12] {
        let (m, registry) = (&self.message, &subject.identity.registry);
        [
            (Rule::ChainId, m.chain_id == registry.chain_id()),
            (Rule::Registry, m.registry == registry.address()),
            (Rule::AgentId, m.agent_id == subject.identity.agent_id),
            // Two zero addresses are no match: recovery answers zero for garbage in many places.
            (Rule::AgentWallet, m.agent_wallet == wallet && !wallet.is_zero()),
            (Rule::ValidityOrder, m.valid_until > m.valid_after),
            (Rule::NotYetValid, now.0 >= m.valid_after),
            (Rule::Expired, now.0 < m.valid_until),
            (Rule::ValidityTooLong, m.valid_until.saturating_sub(m.valid_after) <= VALIDITY_SECONDS_MAX),
            (Rule::Network, m.network == subject.network),
            (Rule::PayTo, same_account(&m.pay_to, subject.pay_to)),
            (Rule::Asset, m.asset == ANY || same_account(&m.asset, subject.asset)),
            (Rule::Origin, m.origin == ANY || is_origin(&m.origin, subject.origin)),
        ]
    }

    /// A key first, whatever the code; then the contract (spec/payee.md §2.4).
    fn signed(
        &self,
        subject: &Subject<'_>,
        wallet: Address,
        code: &Fact<WalletCode>,
        erc1271: &Fact<Erc1271Answer>,
    ) -> Verdict {
        if recover(&self.signature, self.message.digest(subject.identity)) == Some(wallet) {
            return Verdict::Valid;
        }
        match code.value() {
            Err(reason) => return Verdict::Unread(FailedRead::Code, reason),
            Ok(WalletCode::Empty) => return Verdict::Invalid(Rule::Signature),
            Ok(WalletCode::Contract | WalletCode::Delegated(_)) => {}
        }
        match erc1271.value() {
            Err(reason) => Verdict::Unread(FailedRead::Signature, reason),
            Ok(answer) if answer.is_magic() => Verdict::Valid,
            Ok(_) => Verdict::Invalid(Rule::Signature),
        }
    }
}

/// Equal to the letter; the case of digits does not matter when both are 0x hex. Case folding anything else would make
/// one base58 account of two.
pub(super) fn same_account(a: &str, b: &str) -> bool {
    let is_hex =
        |text: &str| text.strip_prefix("0x").is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
    a == b || (is_hex(a) && is_hex(b) && a.eq_ignore_ascii_case(b))
}

fn is_origin(text: &str, origin: Option<&Origin>) -> bool {
    origin.is_some_and(|origin| Origin::parse_bare(text).as_ref() == Some(origin))
}
