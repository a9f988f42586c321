//! Signed payments, well-formed and otherwise.
//!
//! The digest comes from alloy's EIP-712 and the structs of [`crate::abi`], not from the product's own code.

mod builder;
mod signature;
mod signed;

pub use builder::{PaymentBuilder, X402Version, legacy_network};
pub use signature::{ERC6492_SUFFIX, erc6492, high_s_twin, recover, with_v};
pub use signed::SignedPayment;
