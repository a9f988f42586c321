//! The x402 facilitator: verify, settle, supported.
//!
//! From a request to money: `http` → `verify` / `settle` → rules (`quittance_protocol::rules`) on facts
//! (`quittance_evm::lens`) → the store → the lane's keeper. See docs/ARCHITECTURE.md.

mod answer;
pub mod cli;
mod clock;
pub mod config;
mod cover;
mod descriptors;
mod facilitator;
mod fault;
pub mod fault_point;
mod http;
mod idempotency;
mod lane;
mod metrics;
mod names;
mod network;
mod operator;
mod payee;
mod preflight;
mod prices;
pub mod server;
mod settle;
mod sweep;
mod telemetry;
mod verify;
mod waiting;
