//! What was read to judge a claim. Everything on chain is read at one block.

use super::{Identity, Registration};
use crate::{facts::Erc1271Answer, text::printable, units::UnixSeconds};
use alloy_primitives::{Address, B256, U256};
use std::fmt;

/// Something that was to be found out.
///
/// There is no default and no way to turn it into an `Option`: whoever needs the value has to say what happens without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<T> {
    /// It was read.
    Read(T),
    /// Reading it failed.
    Unread(UnreadReason),
    /// Nobody tried, as nothing seemed to depend on it.
    NotAsked,
}

impl<T> Fact<T> {
    /// The value, or why there is none.
    pub fn value(&self) -> Result<&T, UnreadReason> {
        match self {
            Self::Read(value) => Ok(value),
            Self::Unread(reason) => Err(reason.clone()),
            Self::NotAsked => Err(UnreadReason::new("it was not asked for")),
        }
    }

    /// A value, or the reason why it could not be had.
    pub fn from_result<E: fmt::Display>(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Read(value),
            Err(error) => Self::Unread(UnreadReason::new(error)),
        }
    }
}

/// Why something could not be read, for a person. Holds no URL and no control characters, whatever it is made of.
#[derive(Clone, PartialEq, Eq)]
pub struct UnreadReason(String);

impl UnreadReason {
    const CHARACTERS_MAX: usize = 160;

    /// A reason; parts of it may come from strangers.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(printable(&reason.to_string(), Self::CHARACTERS_MAX))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Block B of the registry's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The chain whose block it is.
    pub chain_id: U256,
    /// Number in the header. The EVM's own `block.number` is another chain's on some rollups.
    pub number: u64,
    /// Hash of the header.
    pub hash: B256,
    /// Time in the header. Delegations are judged by the clock, not by this.
    pub timestamp: UnixSeconds,
}

/// What the registry says about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// `getAgentWallet(agentId)`: the zero address when none is set.
    pub agent_wallet: Address,
    /// `ownerOf(agentId)`; `None` when it reverts, which is how a registry says that it knows no such agent.
    pub owner: Option<Address>,
}

/// An ABI-encoded address, in the exact shape only. Empty is what an address without code answers, and another length
/// what another build answers: neither is a zero wallet (spec/payee.md §1.2).
pub fn address_answer(answer: &[u8]) -> Fact<Address> {
    match answer.split_at_checked(12) {
        Some((padding, address)) if address.len() == 20 && padding.iter().all(|byte| *byte == 0) => {
            Fact::Read(Address::from_slice(address))
        }
        _ if answer.is_empty() => Fact::Unread(UnreadReason::new("the registry's answer is empty")),
        _ => Fact::Unread(UnreadReason::new("the registry's answer is not one address")),
    }
}

/// Code at the agent wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalletCode {
    /// None.
    Empty,
    /// A contract.
    Contract,
    /// An EIP-7702 designator: code, though a key controls the address as well.
    Delegated(Address),
}

impl WalletCode {
    /// From the code's size and at least its first 23 bytes.
    pub fn of(size: usize, head: &[u8]) -> Self {
        const DESIGNATOR: [u8; 3] = [0xef, 0x01, 0x00];
        match head.strip_prefix(&DESIGNATOR).and_then(|rest| rest.get(..20)) {
            _ if size == 0 => Self::Empty,
            Some(target) if size == 23 => Self::Delegated(Address::from_slice(target)),
            _ => Self::Contract,
        }
    }
}

words! {
    /// How the bytes of a registration file came here, and with that who could have changed them.
    FileSource {
        /// They stand in the tokenURI itself.
        Inline = "inline",
        /// From IPFS, and they hash to the CID.
        Ipfs = "ipfs",
        /// From an IPFS gateway that was believed.
        IpfsGateway = "ipfs-gateway",
        /// From a web server: the tokenURI is pinned to the block, the bytes are those of the moment.
        Https = "https",
    }
}

/// A registration file and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationFile {
    /// What it says.
    pub registration: Registration,
    /// Who could have changed it.
    pub source: FileSource,
    /// When its bytes were fetched; `None` when they were not.
    pub fetched_at: Option<UnixSeconds>,
}

/// Everything read for one claim, as [`super::plan`] asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The block of all facts from the chain.
    pub block: Fact<Block>,
    /// The registry's answers.
    pub registry: Fact<Registered>,
    /// The document at `tokenURI(agentId)`.
    pub file: Fact<RegistrationFile>,
    /// Code at the agent wallet.
    pub code: Fact<WalletCode>,
    /// The agent wallet's answer to [`super::SignatureQuestion`]. A revert is an answer.
    pub erc1271: Fact<Erc1271Answer>,
    /// The identity this server's origin had at an earlier check, if that is known and remembered.
    pub remembered: Option<Identity>,
}

impl Facts {
    /// Nothing was asked: for claims that need nothing.
    pub fn none() -> Self {
        Self {
            block: Fact::NotAsked,
            registry: Fact::NotAsked,
            file: Fact::NotAsked,
            code: Fact::NotAsked,
            erc1271: Fact::NotAsked,
            remembered: None,
        }
    }
}
