//! Whom is this payment for? ERC-8478: does `payTo` belong to the ERC-8004 agent that the payment requirement names.
//!
//! [`Claim`] is what a payment requirement claims, [`plan`] says what to read to judge it, [`Facts`] are what was read,
//! all of it at one block, and [`decide`] turns claim and facts into one of nine outcomes. The text is ERC-8478; where it
//! leaves room, the choices are those of spec/payee.md §2 and §6.
//!
//! One rule stands above the others: what could not be read is never taken for something that was read. Every fact is a
//! [`Fact`], which has to be opened to get at its value, and a value that is needed and missing ends in
//! [`Outcome::NotRead`].

#[macro_use]
mod words;

mod answer;
mod canonical;
mod claim;
mod decide;
mod delegation;
mod facts;
mod identity;
mod ipfs;
mod json;
mod origin;
mod plan;
mod registration;
mod signer;
mod token_uri;

pub use answer::{Answer, FailedRead, Note, Outcome};
pub use canonical::{MAINNET_REGISTRY, TESTNET_REGISTRY};
pub use claim::{Claim, Context, SignedPayment};
pub use decide::{Policy, decide};
pub use delegation::{Carried, Delegation, Message, Rule, Subject, VALIDITY_SECONDS_MAX, Verdict, type_hash};
pub use facts::{
    Block, Fact, Facts, FileSource, Registered, RegistrationFile, UnreadReason, WalletCode, address_answer,
};
pub use identity::{Identity, Named, RegistryId, Source};
pub use ipfs::{BLOCK_BYTES_MAX, Cid, IpfsError, IpfsFile};
pub use json::FileError;
pub use origin::{Origin, Scheme};
pub use plan::{Plan, Questions, SignatureQuestion, plan};
pub use registration::{DeclaredPayee, Registration, Service};
pub use signer::recover;
pub use token_uri::{InlineForm, TokenUri, TokenUriError};

/// Longest tokenURI and longest registration file, in bytes; both are strangers' to choose (spec/payee.md §1.5).
pub const FILE_BYTES_MAX: usize = 262_144;
