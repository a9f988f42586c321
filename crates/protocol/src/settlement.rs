//! The life of one payment: the only state machine, and the identity that guards it.

use crate::{
    code::Code,
    units::{AuthNonce, Network, TokenAmount},
};
use alloy_primitives::{Address, B256, U256};
use std::{fmt, str::FromStr};

/// What makes two authorizations the same one on chain (rule 5): the token's own replay protection
/// is per (authorizer, nonce), so the payee, the amount and the signature bytes are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplayKey {
    /// Chain the authorization executes on.
    pub network: Network,
    /// Contract that keeps the nonce: the token for EIP-3009.
    pub verifying_contract: Address,
    /// The payer who signed.
    pub authorizer: Address,
    /// The nonce in the authorization.
    pub auth_nonce: AuthNonce,
}

/// Digest of everything a payment commits to: network, token, from, to, value, window, nonce.
///
/// Two requests with the same replay key and another fingerprint are different payments that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub B256);

/// Digest of the signature bytes of a payment, and of what they sign. Not part of its identity: a contract wallet can accept several signatures
/// for one authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignatureDigest(pub B256);

/// Digest of the URL a payment is for, or of its absence. Not part of a payment's identity either: the payer signs no URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceDigest(pub B256);

/// What is written down when a payment is first believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayment {
    /// Replay protection key.
    pub key: ReplayKey,
    /// What the payment commits to.
    pub fingerprint: Fingerprint,
    /// Recipient.
    pub pay_to: Address,
    /// Exact amount.
    pub amount: TokenAmount,
    /// The authorization executes only after this second.
    pub valid_after: U256,
    /// The authorization executes only before this second.
    pub valid_before: U256,
    /// The signature that was believed; `None` where an earlier version wrote nothing down.
    pub signature: Option<SignatureDigest>,
}

/// Where a payment stands. `*` in the documentation of a variant marks a terminal state.
///
/// There is no "broadcast": whether a node has the bytes is unknowable, so once signed and stored
/// the world is assumed to have them (docs/adr/0002).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// In the pending set; nothing was ever signed.
    Reserved,
    /// A transaction is signed and stored.
    Signed,
    /// A receipt was seen, not yet at the configured depth.
    Mined,
    /// * Executed by us, at depth.
    Settled,
    /// * Executed by somebody else's transaction, at depth.
    SettledElsewhere,
    /// * Proven never to execute: the lane slot is consumed and the authorization is canceled, or unused and expired,
    ///   or its execution moved no or the wrong money.
    Failed,
    /// * Dropped before anything was signed.
    Refused,
}

impl Status {
    /// Every status, in lifecycle order.
    pub const ALL: [Self; 7] = [
        Self::Reserved,
        Self::Signed,
        Self::Mined,
        Self::Settled,
        Self::SettledElsewhere,
        Self::Failed,
        Self::Refused,
    ];

    /// The name used over HTTP, in the store and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Signed => "signed",
            Self::Mined => "mined",
            Self::Settled => "settled",
            Self::SettledElsewhere => "settled_elsewhere",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// No event leads out of a terminal state.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Settled | Self::SettledElsewhere | Self::Failed | Self::Refused)
    }

    /// A payment that holds its replay key: another payment under the same key is refused.
    ///
    /// A settled payment holds it for ever; a failed or refused one gives it back, because its proof says
    /// that the authorization did not execute (and if it was canceled, the chain itself refuses the next one).
    pub fn holds_key(self) -> bool {
        !matches!(self, Self::Failed | Self::Refused)
    }

    /// The one transition function. `None`: the event does not apply in this state and changes nothing.
    pub fn on(self, event: Event) -> Option<Self> {
        use Event as E;
        match (self, event) {
            (Self::Reserved, E::Refused) => Some(Self::Refused),
            (Self::Reserved | Self::Signed, E::Signed) => Some(Self::Signed),
            (Self::Signed | Self::Mined, E::Mined) => Some(Self::Mined),
            (Self::Mined, E::Reorged) => Some(Self::Signed),
            (Self::Reserved | Self::Signed | Self::Mined, E::SettledAtDepth) => Some(Self::Settled),
            (Self::Reserved | Self::Signed | Self::Mined, E::FoundElsewhere) => Some(Self::SettledElsewhere),
            (Self::Signed | Self::Mined, E::ProvenFailed) => Some(Self::Failed),
            _ => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not the name of a status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a settlement status")]
pub struct UnknownStatus;

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == s).ok_or(UnknownStatus)
    }
}

/// What happened to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A rule or the simulation says no, or the reservation outlived its authorization.
    Refused,
    /// A lane slot and signed bytes were stored (first, or again because the slot was taken by a foreign transaction).
    Signed,
    /// A receipt of one of our attempts was seen.
    Mined,
    /// The block of the receipt left the canonical chain.
    Reorged,
    /// A receipt of ours with the token's `Transfer(from, to, value)` is at depth. A row may have forgotten that anything was
    /// signed: a database can lose its last commits.
    SettledAtDepth,
    /// `AuthorizationUsed` of another transaction is at depth, with the right `Transfer`.
    FoundElsewhere,
    /// Complete evidence that the authorization did not and will not pay.
    ProvenFailed,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::Refused,
        Self::Signed,
        Self::Mined,
        Self::Reorged,
        Self::SettledAtDepth,
        Self::FoundElsewhere,
        Self::ProvenFailed,
    ];
}

/// What a transition leaves on the row beside the new status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Reason code of a refusal or failure.
    pub reason: Option<Code>,
    /// One sentence for a person; never a payload, signature, key or URL.
    pub message: Option<String>,
    /// The transaction that decided.
    pub tx_hash: Option<B256>,
    /// Number of the block that holds it.
    pub block_number: Option<u64>,
}

impl Evidence {
    /// A reservation whose authorization can no longer execute, and never did.
    pub fn outlived() -> Self {
        Self {
            reason: Some(Code::ValidBefore),
            message: Some("the authorization was not settled while it could execute".into()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_leaves_a_terminal_state() {
        for status in Status::ALL.into_iter().filter(|s| s.is_terminal()) {
            for event in Event::ALL {
                assert_eq!(status.on(event), None, "{status} on {event:?}");
            }
        }
    }

    #[test]
    fn nothing_signed_is_ever_refused() {
        assert_eq!(Status::Signed.on(Event::Refused), None);
        assert_eq!(Status::Mined.on(Event::Refused), None);
        assert_eq!(Status::Reserved.on(Event::ProvenFailed), None);
    }

    #[test]
    fn every_status_name_reads_back() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>(), Ok(status));
        }
        assert!("broadcast".parse::<Status>().is_err());
    }

    #[test]
    fn a_reorg_falls_back_to_signed() {
        assert_eq!(Status::Mined.on(Event::Reorged), Some(Status::Signed));
        assert_eq!(Status::Settled.on(Event::Reorged), None);
    }
}
