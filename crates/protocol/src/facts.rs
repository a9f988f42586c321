//! What the chain said about a payment, all of it at one block.
//!
//! A fact the contract itself did not answer is `None`: that is an answer about the contract. A fact that could not be
//! *read* (transport, node error, undecodable answer) never gets here; it is a fault of ours.

use crate::units::{Network, UnixSeconds};
use alloy_primitives::{Address, B256, Bytes, U256};
use std::fmt;

/// The block all facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Chain the node serves.
    pub network: Network,
    /// Number in the header, which receipts carry. The EVM's own `block.number` is another chain's on some rollups.
    pub number: u64,
    /// `block.timestamp`.
    pub timestamp: UnixSeconds,
    /// `block.basefee` in wei per gas.
    pub base_fee: u128,
}

/// Code at the payer's address: it decides which proof counts (rule 2), never the signature's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayerCode {
    /// None: ECDSA.
    Empty,
    /// A contract: ERC-1271.
    Contract,
    /// An EIP-7702 designator: code, so ERC-1271 and no ECDSA fallback, as tokens do it.
    Delegated(Address),
}

impl PayerCode {
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::Empty
    }
}

/// The answer of `isValidSignature(digest, signature)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erc1271Answer {
    /// The call did not revert.
    pub success: bool,
    /// Length of the answer in bytes.
    pub return_size: u64,
    /// First word of the answer; zero when it is shorter.
    pub word: B256,
}

impl Erc1271Answer {
    /// The whole first word must be the magic value: four right bytes before garbage are no answer.
    pub fn is_magic(&self) -> bool {
        const MAGIC: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];
        self.success
            && self.return_size >= 32
            && self.word[..4] == MAGIC
            && self.word[4..].iter().all(|b| *b == 0)
    }
}

/// Outcome of one exact call settle could send.
///
/// `Debug` leaves the returned bytes out: a contract may send back what it was given, the signature with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Simulation {
    /// It did not revert within the gas it was given.
    pub success: bool,
    /// Gas the call itself used.
    pub gas_used: u64,
    /// What it returned or reverted with, cut to a cap.
    pub return_data: Bytes,
    /// The recipient's balance after it, in the same frame.
    pub pay_to_balance_after: Option<U256>,
    /// Whether the payer has code after it, in the same frame.
    pub payer_has_code_after: bool,
    /// The payer's ERC-1271 answer after it, when the call gave it code.
    pub erc1271_after: Option<Erc1271Answer>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("success", &self.success)
            .field("gas_used", &self.gas_used)
            .field("pay_to_balance_after", &self.pay_to_balance_after)
            .field("payer_has_code_after", &self.payer_has_code_after)
            .field("erc1271_after", &self.erc1271_after)
            .finish_non_exhaustive()
    }
}

/// The simulated calls, in the order they were proposed; those behind a success did not run.
pub type Simulations = Vec<Simulation>;

/// Everything `/verify` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFacts {
    /// Where and when.
    pub block: Block,
    /// Code at the payer.
    pub payer_code: PayerCode,
    /// Whether the asset has code.
    pub asset_has_code: bool,
    /// `authorizationState(from, nonce)`: used or canceled.
    pub authorization_state: Option<bool>,
    /// `balanceOf(from)`.
    pub payer_balance: Option<U256>,
    /// `balanceOf(payTo)`.
    pub pay_to_balance: Option<U256>,
    /// `DOMAIN_SEPARATOR()`.
    pub domain_separator: Option<B256>,
    /// Name and version by EIP-5267.
    pub eip5267: Option<(String, String)>,
    /// `name()`.
    pub token_name: Option<String>,
    /// `version()`.
    pub token_version: Option<String>,
    /// The payer's ERC-1271 answer, when it has code.
    pub erc1271: Option<Erc1271Answer>,
    /// The transfer sent directly to the token.
    pub direct: Simulations,
    /// Deployment of the payer and transfer in one transaction; empty unless an allow-listed factory is named.
    pub deploying: Simulations,
}
