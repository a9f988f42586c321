//! The answer of a check (ERC-8478 §4, spec/payee.md §2.5).

use super::{Block, FileSource, Identity, Origin, Rule, Source, UnreadReason};
use crate::{code::Code, units::UnixSeconds, wire::Refusal};
use alloy_primitives::{Address, B256};
use serde::{Serialize, Serializer};
use std::fmt;

words! {
    /// What could not be read.
    FailedRead {
        /// The identity: something was named, but it is no identity.
        Identity = "identity",
        /// The registry: not trusted, no node, no usable answer, no such agent.
        Registry = "registry",
        /// The registration file.
        File = "file",
        /// The code at the agent wallet.
        Code = "code",
        /// The agent wallet's ERC-1271 answer.
        Signature = "signature",
    }
}

words! {
    /// What stands beside an outcome and does not change it.
    Note {
        /// The signed payment goes to another address than `payTo`, or pays more than was asked.
        PaymentDiffers = "payment-differs",
        /// The requirement names another identity than the payer knows; the payer's was checked.
        IdentityDiffers = "identity-differs",
        /// This origin had another identity at an earlier check.
        IdentityChanged = "identity-changed",
        /// The requirement's resource is on another origin than the URL the payer asked for.
        ResourceDiffers = "resource-differs",
        /// The agent wallet has code on the registry's chain, a designator of EIP-7702, and is verified on another chain because
        /// this checker takes such a wallet for a key ([`super::Policy::eip7702_is_eoa`]).
        Eip7702IsEoa = "eip7702-is-eoa",
        /// The registration file lists payees for x402, and not this one.
        PayeeNotDeclared = "payee-not-declared",
        /// The registration file lists its registrations, and not this one.
        RegistrationBackrefMissing = "registration-backref-missing",
        /// The registration file says that the agent is not active.
        Inactive = "inactive",
    }
}

/// The nine outcomes. Exactly one holds; it is a fact about the binding at a block, not a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `payTo` is the agent wallet.
    VerifiedWallet,
    /// A valid delegation names `payTo`.
    VerifiedDelegation,
    /// The endpoint is the agent's, and `payTo` is neither its wallet nor covered by a delegation.
    Mismatch,
    /// There is a delegation, and this is the first rule it fails.
    InvalidDelegation(Rule),
    /// The resource's origin is not in the registration file.
    EndpointUnlisted,
    /// No agent wallet is registered, and `payTo` is the identity's owner. Not verified.
    OwnerOnly,
    /// No agent wallet is registered, and `payTo` is not the owner either.
    NoAgentWallet,
    /// No identity was named or known.
    NoIdentity,
    /// Something that the outcome depends on could not be read. Never verified, never a mismatch.
    NotRead(FailedRead, UnreadReason),
}

impl Outcome {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::VerifiedWallet => "verified-wallet",
            Self::VerifiedDelegation => "verified-delegation",
            Self::Mismatch => "mismatch",
            Self::InvalidDelegation(_) => "invalid-delegation",
            Self::EndpointUnlisted => "endpoint-unlisted",
            Self::OwnerOnly => "owner-only",
            Self::NoAgentWallet => "no-agent-wallet",
            Self::NoIdentity => "no-identity",
            Self::NotRead(..) => "not-read",
        }
    }

    /// Whether the payee is bound to the identity.
    pub fn is_verified(&self) -> bool {
        matches!(self, Self::VerifiedWallet | Self::VerifiedDelegation)
    }

    /// The rule an invalid delegation fails.
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::InvalidDelegation(rule) => Some(*rule),
            _ => None,
        }
    }

    /// What could not be read, and why.
    pub fn failed_read(&self) -> Option<(FailedRead, &UnreadReason)> {
        match self {
            Self::NotRead(read, reason) => Some((*read, reason)),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An outcome and what it is about. What is not known is `null`; addresses are written in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What holds.
    pub outcome: Outcome,
    /// The identity checked and who named it. An outcome means nothing without it: anybody can register an agent.
    pub identity: Option<(Identity, Source)>,
    /// The block everything on chain was read at.
    pub block: Option<Block>,
    /// The agent wallet read; the zero address when none is registered.
    pub agent_wallet: Option<Address>,
    /// CAIP-2 network to pay on.
    pub network: String,
    /// The payee, as the requirement writes it.
    pub pay_to: String,
    /// Where the resource is.
    pub origin: Option<Origin>,
    /// Where the registration file came from, and when if it was fetched.
    pub file: Option<(FileSource, Option<UnixSeconds>)>,
    /// Beside the outcome.
    pub notes: Vec<Note>,
    /// The clock at the check.
    pub checked_at: UnixSeconds,
}

impl Answer {
    /// The refusal, for a facilitator that refuses substituted payees. Never for what could not be read.
    ///
    /// An invalid delegation counts like none at all: if it did not, attaching garbage would be the way past a
    /// facilitator that refuses mismatches (spec/payee.md §2.3).
    pub fn refusal(&self) -> Option<Refusal> {
        let message = match &self.outcome {
            Outcome::Mismatch => {
                "payTo is neither the agent wallet of the named identity nor covered by a delegation of it (ERC-8478 mismatch)"
                    .into()
            }
            Outcome::InvalidDelegation(rule) => {
                format!("the payee delegation for payTo is not valid (ERC-8478 invalid-delegation: {rule})")
            }
            _ => return None,
        };
        Some(Refusal::new(Code::PayeeMismatch, message))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    outcome: &'static str,
    rule: Option<Rule>,
    failed_read: Option<FailedRead>,
    reason: Option<&'a str>,
    identity: Option<WireIdentity>,
    block: Option<WireBlock>,
    agent_wallet: Option<String>,
    network: &'a str,
    pay_to: &'a str,
    origin: Option<String>,
    file: Option<WireFile>,
    notes: &'a [Note],
    checked_at: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireIdentity {
    registry: String,
    agent_id: String,
    source: Source,
}

/// Numbers as strings: chain ids and agent ids exceed what JavaScript counts exactly.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireBlock {
    chain_id: String,
    number: String,
    hash: B256,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireFile {
    source: FileSource,
    fetched_at: Option<u64>,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let failed = self.outcome.failed_read();
        Wire {
            outcome: self.outcome.as_str(),
            rule: self.outcome.rule(),
            failed_read: failed.map(|(read, _)| read),
            reason: failed.map(|(_, reason)| reason.as_str()),
            identity: self.identity.map(|(identity, source)| WireIdentity {
                registry: identity.registry.to_string(),
                agent_id: identity.agent_id.to_string(),
                source,
            }),
            block: self.block.map(|block| WireBlock {
                chain_id: block.chain_id.to_string(),
                number: block.number.to_string(),
                hash: block.hash,
            }),
            agent_wallet: self.agent_wallet.map(|wallet| wallet.to_checksum(None)),
            network: &self.network,
            pay_to: &self.pay_to,
            origin: self.origin.as_ref().map(Origin::to_string),
            file: self.file.map(|(source, fetched_at)| WireFile {
                source,
                fetched_at: fetched_at.map(|second| second.0),
            }),
            notes: &self.notes,
            checked_at: self.checked_at.0,
        }
        .serialize(serializer)
    }
}
