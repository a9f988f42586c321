//! One payee, one spelling: interoperable addresses (ERC-7930) and their text (ERC-7828), strict and canonical.
//!
//! A pair of strings such as (`network`, `payTo`) can be written in many ways, and can contradict itself. The bytes made
//! here exist only for pairs that fit together, and every pair has exactly one: they can be stored, indexed and compared.
//! Other implementations are no validators (spec/payee.md §5.2), so nothing is accepted that would not be written.
//!
//! Profiles: `eip155`, `solana` and `starknet`. `bip122` has two documents with two encodings and is not stored; all
//! other namespaces have no profile, which says nothing against them ([`InteropError::needs_profile`]).

mod blob;
mod gate;
mod solana;
mod starknet;
mod text;

use alloy_primitives::{Address, U256, hex, keccak256};
use std::fmt;

pub use gate::coherent;
pub use solana::Cluster;

/// The any-chain form of an address, a chain, or, with both parts, a payee.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InteropAddress(Parts);

/// At least one part of each is there.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Parts {
    /// The chain id is not zero.
    Eip155(Option<U256>, Option<Address>),
    Solana(Option<Cluster>, Option<[u8; 32]>),
    /// The name is 1 to 32 characters of CAIP-2.
    Starknet(Option<String>, Option<[u8; 32]>),
}

/// Why something is no interoperable address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InteropError {
    /// Not `0x` and an even number of hex digits.
    #[error("must be 0x and an even number of hex digits")]
    Hex,
    /// Fewer bytes than the shortest header.
    #[error("is too short")]
    TooShort,
    /// Another version than 1.
    #[error("has a version other than 1")]
    Version,
    /// Ends inside a part.
    #[error("ends inside a part")]
    Truncated,
    /// Goes on behind the address.
    #[error("has bytes behind the address")]
    TrailingBytes,
    /// Neither a chain nor an address.
    #[error("names neither a chain nor an address")]
    Empty,
    /// A chain type nobody assigned.
    #[error("has an unknown chain type")]
    ChainTypeUnknown,
    /// The chain's binary reference has a length its profile does not have.
    #[error("has a chain reference of the wrong length")]
    ChainReferenceLength,
    /// A chain id with leading zero bytes, or zero.
    #[error("has a chain id that is zero or has leading zero bytes")]
    ChainReferenceNonMinimal,
    /// The binary address has a length its profile does not have.
    #[error("has an address of the wrong length")]
    AddressLength,
    /// Not `namespace:reference`.
    #[error("names no network as namespace:reference")]
    NetworkMalformed,
    /// The namespace exists, but how its addresses are written is not known here.
    #[error("is on a network whose addresses cannot be judged here")]
    NamespaceNoProfile,
    /// The reference cannot be one of this namespace.
    #[error("has a chain reference that its namespace cannot have")]
    ChainReference,
    /// The reference could be one of this namespace, but no chain known here has it.
    #[error("is on a chain that is not known here")]
    ChainUnknown,
    /// The address cannot be one of this namespace.
    #[error("has an address that its network cannot have")]
    Address,
    /// The address carries its own checksum, and it is wrong.
    #[error("has an address whose mixed-case checksum is wrong")]
    AddressChecksum,
    /// A payee needs a chain and an address.
    #[error("is no payee: a chain or an address is missing")]
    Incomplete,
    /// Not `address@namespace:reference[#CHECKSUM]`.
    #[error("must be address@namespace:reference, with or without #CHECKSUM")]
    TextMalformed,
    /// The chain is a name that would have to be looked up.
    #[error("names its chain by a label; labels are not resolved here")]
    Label,
    /// The checksum is another address's.
    #[error("has a checksum that is not this address's")]
    Checksum,
}

impl InteropError {
    /// The word for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::TooShort => "too-short",
            Self::Version => "version",
            Self::Truncated => "truncated",
            Self::TrailingBytes => "trailing-bytes",
            Self::Empty => "empty",
            Self::ChainTypeUnknown => "chain-type-unknown",
            Self::ChainReferenceLength => "chain-reference-length",
            Self::ChainReferenceNonMinimal => "chain-reference-non-minimal",
            Self::AddressLength => "address-length",
            Self::NetworkMalformed => "network-malformed",
            Self::NamespaceNoProfile => "namespace-no-profile",
            Self::ChainReference => "chain-reference",
            Self::ChainUnknown => "chain-unknown",
            Self::Address => "address",
            Self::AddressChecksum => "address-checksum",
            Self::Incomplete => "incomplete",
            Self::TextMalformed => "text-malformed",
            Self::Label => "label",
            Self::Checksum => "checksum",
        }
    }

    /// The pair may be right: it is only that nobody here can tell. To be logged, never refused (spec/payee.md §5.1).
    pub fn needs_profile(self) -> bool {
        self == Self::NamespaceNoProfile
    }
}

impl InteropAddress {
    /// An account on an EVM chain. `None` when there is no such chain (0).
    pub fn evm(chain_id: U256, address: Address) -> Option<Self> {
        (!chain_id.is_zero()).then_some(Self(Parts::Eip155(Some(chain_id), Some(address))))
    }

    /// A payee, from the strings of a payment requirement: (`network`, `payTo`) or (`network`, `asset`).
    pub fn payee(network: &str, address: &str) -> Result<Self, InteropError> {
        let parsed = Self::from_pair(network, address)?;
        if parsed.is_payee() { Ok(parsed) } else { Err(InteropError::Incomplete) }
    }

    /// The same, but an empty address makes the identifier of the chain.
    pub fn from_pair(network: &str, address: &str) -> Result<Self, InteropError> {
        text::from_pair(network, address).map(Self)
    }

    /// Canonical bytes only: what this accepts, [`Self::encode`] writes.
    pub fn decode(blob: &[u8]) -> Result<Self, InteropError> {
        blob::decode(blob).map(Self)
    }

    /// From `0x` and hex digits of any case.
    pub fn from_hex(text: &str) -> Result<Self, InteropError> {
        // `hex` would take away a second prefix.
        let digits =
            text.strip_prefix("0x").filter(|digits| !digits.starts_with("0x")).ok_or(InteropError::Hex)?;
        Self::decode(&hex::decode(digits).map_err(|_| InteropError::Hex)?)
    }

    /// The canonical bytes: 28 for an account on Base, 70 on Solana.
    pub fn encode(&self) -> Vec<u8> {
        blob::encode(&self.0)
    }

    /// Whether both parts are there.
    pub fn is_payee(&self) -> bool {
        self.reference().is_some() && self.address().is_some()
    }

    /// CAIP-2 namespace.
    pub fn namespace(&self) -> &'static str {
        match self.0 {
            Parts::Eip155(..) => "eip155",
            Parts::Solana(..) => "solana",
            Parts::Starknet(..) => "starknet",
        }
    }

    /// The chain's full reference; for Solana the whole genesis hash.
    pub fn reference(&self) -> Option<String> {
        match &self.0 {
            Parts::Eip155(chain, _) => chain.map(|id| id.to_string()),
            Parts::Solana(cluster, _) => cluster.map(|cluster| cluster.genesis().into()),
            Parts::Starknet(name, _) => name.clone(),
        }
    }

    /// The network as x402 writes it: CAIP-2, so for Solana with the truncated genesis hash.
    pub fn network(&self) -> Option<String> {
        let reference = match &self.0 {
            Parts::Solana(cluster, _) => cluster.map(|cluster| cluster.reference().into()),
            Parts::Eip155(..) | Parts::Starknet(..) => self.reference(),
        };
        reference.map(|reference| format!("{}:{reference}", self.namespace()))
    }

    /// The address in its namespace's own spelling, with that spelling's checksum.
    pub fn address(&self) -> Option<String> {
        match &self.0 {
            Parts::Eip155(_, address) => address.map(|address| address.to_checksum(None)),
            Parts::Solana(_, address) => address.map(|key| bs58::encode(key).into_string()),
            Parts::Starknet(_, address) => address.as_ref().map(starknet::to_text),
        }
    }

    /// First four bytes of the hash of everything behind the version, in upper-case hex (ERC-7828).
    pub fn checksum(&self) -> String {
        hex::encode_upper(&keccak256(&self.encode()[blob::VERSION.len()..])[..4])
    }
}

/// `address@namespace:reference#CHECKSUM`, in full.
impl fmt::Display for InteropAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.address().unwrap_or_default(), self.namespace())?;
        if let Some(reference) = self.reference() {
            write!(f, ":{reference}")?;
        }
        write!(f, "#{}", self.checksum())
    }
}

impl fmt::Debug for InteropAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InteropAddress({self})")
    }
}

impl std::str::FromStr for InteropAddress {
    type Err = InteropError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        text::from_name(s)
    }
}
