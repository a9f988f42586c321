//! What tests, `quittance demo` and `quittance conformance` need around the product: a local chain with
//! contracts on it, signed payments in every shape, and a plain HTTP client.
//!
//! The feature `harness` adds what only tests need: a JSON-RPC proxy that injects faults, a throwaway
//! PostgreSQL cluster, and a runner for the real binary.
//!
//! Everything spawned here ends when its value is dropped, and everything that waits has a deadline.

pub mod abi;
pub mod anvil;
pub mod client;
pub mod contracts;
pub mod dev_accounts;
pub mod dev_chain;
mod edge;
#[cfg(feature = "harness")]
pub mod harness;
pub mod jsonrpc;
pub mod payment;

pub use anvil::{Anvil, AnvilBuilder};
pub use client::{Answer, Facilitator};
pub use dev_accounts::{dev_address, dev_signer};
pub use dev_chain::DevChain;
pub use edge::unix_now;
pub use jsonrpc::{RpcClient, RpcError};
pub use payment::{PaymentBuilder, SignedPayment, X402Version};
