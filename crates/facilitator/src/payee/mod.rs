//! The I/O of the payee check (ERC-8478): which registry, which block, which file. What it means is decided in
//! `quittance_protocol::payee`.
//!
//! Files are strangers' text and stay inside: what leaves is an outcome and fixed sentences, neither file nor URL.

mod cache;
mod check;
mod fetch;
mod gate;
mod ipfs;
mod origins;
mod places;
mod public;
mod registry;
mod resolve;
mod time;

pub(crate) use check::Checker;
pub(crate) use gate::PaymentCheck;
